package machine

import (
	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/machine/internal/effects"
	"parley/conversation/machine/internal/state"
	"parley/conversation/policy"
)

// Session is the machine: the whole open state of one conversation, and the
// rules by which it changes. It is not safe for concurrent use; its owner is
// the session's actor.
//
// The state is a package of its own, which only Apply changes. The rules are
// methods of decision, which lives for one Decide, in one file for each family.
type Session struct {
	rules  *policy.Rules
	policy *policy.Policy // the configuration's, or a copy of it with the session's overrides; never written
	state  state.State

	clock   clock
	held    effects.Held // what waits for its commit
	drained bool         // the node goes away: a step that opens is parked
}

// New is a session with an empty log.
func New(key conversation.SessionKey, rules *policy.Rules) *Session {
	return &Session{rules: rules, policy: &rules.Policy, state: state.New(key)}
}

// Restore is the session whose Snapshot data is. An error means that the
// snapshot is of no use and the log must be replayed from its start.
func Restore(key conversation.SessionKey, rules *policy.Rules, data []byte) (*Session, error) {
	st, err := state.Restore(key, data)
	if err != nil {
		return nil, err
	}
	s := &Session{rules: rules, state: st}
	s.refreshPolicy()
	return s, nil
}

// Snapshot is the state after the last applied event, for Restore. An error
// means that the state holds what JSON cannot say; the log, from which it comes,
// is as good without.
func (s *Session) Snapshot() ([]byte, error) { return s.state.Snapshot() }

// SnapshotVersion is that of what Snapshot makes, and of all that Restore takes.
func (s *Session) SnapshotVersion() int { return int(s.state.Version) }

// View shows what is open, without Log and Drafts.
func (s *Session) View() conversation.View { return s.state.View() }

// Summary is the session's entry in lists.
func (s *Session) Summary() conversation.Summary { return s.state.Summary() }

// TranscriptRanges are the parts of the log that a transcript is rebuilt from.
func (s *Session) TranscriptRanges() conversation.TranscriptRanges {
	return s.state.TranscriptRanges()
}

// refreshPolicy makes the session's policy from the configuration and its own
// overrides. An override that an older configuration allowed and this one does
// not is left out: a session must stay loadable.
func (s *Session) refreshPolicy() {
	if s.policy = &s.rules.Policy; len(s.state.Policy) == 0 {
		return // as nearly all: they share one
	}
	own := s.configured(s.state.Agent).WithStored(s.state.Policy, s.state.Lifted)
	if s.state.Key.Session.Depth() > 0 {
		own.Own = nil // as from a parent of before
	}
	s.policy = &own
}

// configured is what the configuration says of a session of this agent.
// Rule 9.2a.
func (s *Session) configured(agent conversation.AgentName) policy.Policy {
	p := s.rules.Policy
	if own := s.rules.Agent(agent).MaxSteps; own > 0 {
		p.MaxSteps = own
	}
	return p
}

// Apply changes the state by an event. Decide uses it, and replay: recovery is
// the same code over the same events. It never looks at the configuration. An
// error means that the log is not one that this program wrote.
func (s *Session) Apply(e conversation.Event) error {
	if err := s.state.Apply(e); err != nil {
		return err
	}
	switch e.Body.(type) {
	case conversation.SessionCreated, conversation.SessionUpdated:
		s.refreshPolicy()
	}
	return nil
}

// Head is the seq of the last applied event.
func (s *Session) Head() conversation.Seq { return s.state.Head }

// Key names the session.
func (s *Session) Key() conversation.SessionKey { return s.state.Key }

// Titled is true when somebody has given the session a title.
func (s *Session) Titled() bool { return s.state.Title != "" }

// Policy is the session's effective policy.
func (s *Session) Policy() policy.Policy { return *s.policy }

// Own is what the session brings for the requests to its model; nil = nothing.
func (s *Session) Own() *policy.Own { return s.policy.Own }

// Exists is false until the first event was applied.
func (s *Session) Exists() bool { return s.state.Exists() }

// Role is what a user of the session's tenant is to it.
func (s *Session) Role(user conversation.UserID) access.Role { return s.state.Role(user) }

// Inherited are the session's own policies as they are stored, as far as a delegation takes
// them with it.
func (s *Session) Inherited() conversation.Overrides { return policy.Inherited(s.state.Policy) }

// Lifted are the keys of the session's own policies that hold above what is configured.
func (s *Session) Lifted() []string { return s.state.Lifted }

// maxSteps is the agent's own limit, or the policy's; the session's is no more.
func (s *Session) maxSteps() int {
	if own := s.rules.Agent(s.state.Agent).MaxSteps; own > 0 && s.policy == &s.rules.Policy {
		return own
	}
	return s.policy.MaxSteps
}
