package machine

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"parley/conversation"
)

// state is everything a session remembers. It holds what is open and short
// excerpts; texts stay in the log, with three exceptions that end with their
// task: the last part shown (a promotion repeats it), open questions, and the
// answers to a running delegation's questions.
//
// It is stored as JSON in snapshots: a snapshot is a cache of the log, so a
// program that cannot read one replays the log instead.
type state struct {
	Title    string                 `json:",omitempty"`
	Agent    conversation.AgentName `json:",omitempty"`
	Owner    conversation.UserID    `json:",omitempty"`
	Policy   conversation.Overrides `json:",omitempty"`
	Created  time.Time
	Activity time.Time // of the last message or part
	Last     time.Time // of the last event
	Head     conversation.Seq

	// How many of each kind have been named so far; the next id is one more.
	Messages, Parts, TaskCount, Questions, Calls, Delegations uint32
	Step                                                      conversation.StepNumber

	Version   uint8
	Access    conversation.Access `json:",omitempty"`
	Closed    bool                `json:",omitempty"`
	Forgotten bool                `json:",omitempty"` // client ids have left Recent

	Tasks     []*task   `json:",omitempty"` // that have not ended, in the order in which they were born or moved
	Recent    recents   `json:",omitzero"`  // the last client ids
	Withdrawn []uint32  `json:",omitempty"` // the last withdrawn messages, so that withdrawing again is harmless
	FreeSince time.Time // when a task last stopped being RUNNING
	Final     *final    `json:",omitempty"` // of a sub-session: how its task ended

	// Where a transcript begins (context.go). A snapshot of before they were kept
	// lacks them: its session is shown the window, without the original request.
	Origin    *origin      `json:",omitempty"`
	Compacted *compaction  `json:",omitempty"`
	Ended     []endedTasks `json:",omitempty"` // the last tasks that ended, oldest first
}

// snapshotVersion changes with the meaning of state.
const snapshotVersion = 1

// final is how the only task of a sub-session ended.
type final struct {
	Status   conversation.CallStatus
	Response conversation.Seq // its last response; 0 = none was shown
}

// task is a task that has not ended.
type task struct {
	N          uint32
	Status     conversation.TaskStatus
	Trigger    conversation.MessageID
	Order      order     `json:",omitempty"`
	Steer      bool      `json:",omitempty"` // put into the queue by a steer message: more may join
	Collect    bool      `json:",omitempty"` // put into the queue by a collect message
	NotBefore  time.Time `json:",omitzero"`
	Created    time.Time
	Updated    time.Time
	First      conversation.Seq
	Since      conversation.Seq `json:",omitempty"` // of leftovers: their oldest message was accepted before the task was born
	Last       conversation.Seq
	Messages   []*message              `json:",omitempty"` // not resolved yet; the read ones come first
	Step       *step                   `json:",omitempty"` // the open step
	LastStep   conversation.StepNumber `json:",omitempty"`
	Steps      int                     `json:",omitempty"`
	Cancelling *cancelling             `json:",omitempty"`
	Calls      []*call                 `json:",omitempty"` // without a result yet
	Questions  []*question             `json:",omitempty"` // open, oldest first
	Round      bool                    `json:",omitempty"` // a result of the last step's own calls is unseen
	News       bool                    `json:",omitempty"` // something from outside that round is unseen (unread messages aside)
	Nudges     int                     `json:",omitempty"`
	Empties    int                     `json:",omitempty"` // empty answers in a row
	NextPart   conversation.PartIndex  `json:",omitempty"`
	LastPart   *conversation.Part      `json:",omitempty"` // the last part shown
}

// order is why a QUEUED task goes before others. Stored in snapshots only.
type order uint8

const (
	orderFIFO order = iota
	orderLeftover
	orderReplied
	orderFirst // an interrupt
)

// message is an accepted message without a resolution.
type message struct {
	ID     conversation.MessageID
	Author conversation.UserID
	Via    conversation.Via `json:",omitempty"`
	Seq    conversation.Seq
	At     time.Time
	Read   conversation.Seq        `json:",omitempty"` // the step_started that showed it to a model; 0 = unread
	ReadBy conversation.StepNumber `json:",omitempty"`
	Kept   bool                    `json:",omitempty"` // waits for the task's next question instead of a step
	Text   string                  // whole for a kept reply, else at most rememberedText of it
	Words  []uint32                `json:",omitempty"` // hashes of its significant words
}

// step is an open step.
type step struct {
	N          conversation.StepNumber
	Attempt    int
	Seq        conversation.Seq         // of attempt 1: what the model is shown ends here
	Read       []conversation.MessageID `json:",omitempty"`
	Agent      conversation.AgentName
	NotBefore  time.Time `json:",omitzero"`
	Errors     int       `json:",omitempty"` // attempts after the first, by cause
	Interrupts int       `json:",omitempty"`
	Parked     bool      `json:",omitempty"` // stopped by a drain, not begun again
	WrapUp     bool      `json:",omitempty"`
}

// cancelling is the first phase of an early end.
type cancelling struct {
	By    conversation.CancelBy
	Until time.Time
	Error *conversation.Failure `json:",omitempty"`
	Drop  bool                  `json:",omitempty"`
	Seq   conversation.Seq
}

// call is a tool call or delegation without a result.
type call struct {
	ID         conversation.CallID
	Step       conversation.StepNumber
	Tool       string                 `json:",omitempty"` // "" for a delegation
	Agent      conversation.AgentName `json:",omitempty"`
	Held       bool                   `json:",omitempty"` // waits for an approval; not started
	Idempotent bool                   `json:",omitempty"`
	Seq        conversation.Seq
	At         time.Time
	Deadline   time.Time                         `json:",omitzero"`
	Target     conversation.CallID               `json:",omitempty"` // amend: the delegation
	Answers    map[conversation.QuestionID]reply `json:",omitempty"` // delegation: answers given, by the sub-session's id
}

func (c *call) delegation() bool { return c.Tool == "" }

// reply is an answer that was routed down.
type reply struct {
	Text string
	By   conversation.UserID
}

// question is an open question.
type question struct {
	Asked conversation.Asked
	Seq   conversation.Seq
	At    time.Time
	Step  conversation.StepNumber // of the task's own questions
}

func (q *question) own() bool { return q.Asked.Delegation == "" }

// New is a session with an empty log.
func New(key conversation.SessionKey, rules *conversation.Rules) *Session {
	return &Session{key: key, rules: rules, policy: &rules.Policy, state: state{Version: snapshotVersion}}
}

// Restore is the session whose Snapshot data is. An error means that the
// snapshot is of no use and the log must be replayed from its start.
func Restore(key conversation.SessionKey, rules *conversation.Rules, data []byte) (*Session, error) {
	s := New(key, rules)
	s.state = state{} // a version that is not there must not look like ours
	stored := struct {
		*state
		NextSlot int // of older snapshots: where in Recent the oldest one stands
	}{state: &s.state}
	if err := json.Unmarshal(data, &stored); err != nil {
		return nil, fmt.Errorf("snapshot of %s: %w", key, err)
	}
	if n := stored.NextSlot; n > 0 && n < s.state.Recent.n {
		s.state.Recent.turned(n)
	}
	if s.state.Version != snapshotVersion {
		return nil, fmt.Errorf("snapshot of %s: version %d instead of %d", key, s.state.Version, snapshotVersion)
	}
	s.refreshPolicy()
	return s, nil
}

// Snapshot is the state after the last applied event, for Restore. An error
// means that the state holds what JSON cannot say; the log, from which it comes,
// is as good without.
func (s *Session) Snapshot() ([]byte, error) {
	data, err := json.Marshal(&s.state)
	if err != nil {
		return nil, fmt.Errorf("snapshot of %s: %w", s.key, err)
	}
	return data, nil
}

// refreshPolicy makes the session's policy from the configuration and its own
// overrides. An override that an older configuration allowed and this one does
// not is left out: a session must stay loadable.
func (s *Session) refreshPolicy() {
	if s.policy = &s.rules.Policy; len(s.state.Policy) == 0 {
		return // as nearly all: they share one
	}
	own := s.rules.Policy
	for key, value := range s.state.Policy {
		if p, err := own.With(conversation.Overrides{key: value}); err == nil {
			own = p
		}
	}
	s.policy = &own
}

// Ids are counters with the session's id: unique in the server without a look-up.

func (s *Session) messageID(n uint32) conversation.MessageID {
	return conversation.MessageID("m" + strconv.FormatUint(uint64(n), 10) + "-" + string(s.key.Session))
}

func (s *Session) partID(n uint32) conversation.MessageID {
	return conversation.MessageID("p" + strconv.FormatUint(uint64(n), 10) + "-" + string(s.key.Session))
}

func (s *Session) taskID(n uint32) conversation.TaskID {
	return conversation.TaskID("t" + strconv.FormatUint(uint64(n), 10) + "-" + string(s.key.Session))
}

func (s *Session) questionID(n uint32) conversation.QuestionID {
	return conversation.QuestionID("q" + strconv.FormatUint(uint64(n), 10))
}

func (s *Session) task(id conversation.TaskID) *task {
	n, tasks := conversation.Ordinal(string(id), 't'), s.state.Tasks
	// Most stand as they were born: the place of the first one tells that of this one.
	if len(tasks) > 0 && n > tasks[0].N && int(n-tasks[0].N) < len(tasks) {
		if t := tasks[n-tasks[0].N]; t.N == n && s.taskID(n) == id {
			return t
		}
	}
	for _, t := range tasks {
		if t.N == n && s.taskID(n) == id {
			return t
		}
	}
	return nil
}

// running is the task that is RUNNING, also while it is being cancelled.
func (s *Session) running() *task {
	for _, t := range s.state.Tasks {
		if t.Status == conversation.TaskRunning {
			return t
		}
	}
	return nil
}

// message finds a message without a resolution, and its task.
func (s *Session) message(id conversation.MessageID) (*task, *message) {
	for _, t := range s.state.Tasks {
		if m := t.message(id); m != nil {
			return t, m
		}
	}
	return nil, nil
}

func (t *task) message(id conversation.MessageID) *message {
	for _, m := range t.Messages {
		if m.ID == id {
			return m
		}
	}
	return nil
}

func (t *task) drop(id conversation.MessageID) {
	for i, m := range t.Messages {
		if m.ID == id {
			t.Messages = without(t.Messages, i)
			return
		}
	}
}

// without leaves the list as it is for those who still go through it. The first
// one goes most often, and without a copy.
func without[T any](list []*T, i int) []*T {
	if i == 0 {
		return list[1:]
	}
	return append(list[:i:i], list[i+1:]...)
}

func (t *task) call(id conversation.CallID) *call {
	for _, c := range t.Calls {
		if c.ID == id {
			return c
		}
	}
	return nil
}

func (t *task) question(id conversation.QuestionID) *question {
	for _, q := range t.Questions {
		if q.Asked.Question == id {
			return q
		}
	}
	return nil
}

// call finds an open call, and its task.
func (s *Session) call(id conversation.CallID) (*task, *call) {
	for _, t := range s.state.Tasks {
		if c := t.call(id); c != nil {
			return t, c
		}
	}
	return nil, nil
}

// question finds an open question, and its task.
func (s *Session) question(id conversation.QuestionID) (*task, *question) {
	for _, t := range s.state.Tasks {
		if q := t.question(id); q != nil {
			return t, q
		}
	}
	return nil, nil
}

// unread is true when a step would read something: kept replies wait for a question.
func (t *task) unread() bool {
	for i := len(t.Messages) - 1; i >= 0; i-- {
		if m := t.Messages[i]; m.Read != 0 {
			return false
		} else if !m.Kept {
			return true
		}
	}
	return false
}

// waiting counts the accepted messages of the session that nothing has read.
func (s *Session) waiting() int {
	n := 0
	for _, t := range s.state.Tasks {
		for i := len(t.Messages) - 1; i >= 0 && t.Messages[i].Read == 0; i-- {
			n++
		}
	}
	return n
}

// ran is true once a step of the task was started.
func (t *task) ran() bool { return t.Steps > 0 }
