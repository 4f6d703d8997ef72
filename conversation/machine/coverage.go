package machine

import (
	"slices"

	"parley/conversation"
	"parley/conversation/machine/internal/receipts"
	"parley/conversation/machine/internal/state"
	"parley/conversation/policy"
)

// Coverage: what became of each message that a task has read, and the last-resort net
// under the conversation. Obligations are not kept anywhere: an accepted message
// without a resolution is one. docs/MACHINE.md, section 8.

// nudging is the outcome of rule 2.8.
type nudging bool

const (
	notNudged nudging = false // nothing is left open, or the model was reminded often enough
	nudged    nudging = true  // the model is reminded, which is unseen: another step follows
)

// nudge is rule 2.8: the task would finish with messages that it has read and that
// nothing has answered. The model is reminded of each by its name, so often and no
// more.
// Rules 2.8, 8.3.
func (d obligations) nudge(t *state.Task) nudging {
	if d.coverage() != policy.CoverageStrict {
		return notNudged
	}
	if d.pending.task == t && d.pending.silent {
		return notNudged // NO_REPLY counts as covered
	}
	var missing []conversation.MessageID
	for _, m := range d.openMessages(t) {
		if m.Nudged < d.policy.MaxNudges && !d.pending.answers(m.ID) {
			missing = append(missing, m.ID)
		}
	}
	if len(missing) == 0 {
		return notNudged
	}
	d.showPending(t)
	d.emit(t, conversation.CoverageNudge{Messages: missing, Nudge: t.Nudges + 1})
	return nudged
}

// coverage is the mode that holds for this session's agent.
// Rules 5.8, 8.3.
func (s *Session) coverage() policy.Coverage {
	return s.rules.CoverageOf(s.state.Agent, s.state.Key.Session.Depth(), s.policy.Coverage)
}

// openMessages are those that the task has read and that nothing has resolved; what
// the answer at hand covers is as good as resolved.
func (d obligations) openMessages(t *state.Task) []*state.Message {
	var open []*state.Message
	for _, m := range t.Messages {
		if m.Read != 0 && !(d.pending.task == t && slices.Contains(d.pending.covered, m.ID)) {
			open = append(open, m)
		}
	}
	return open
}

// try judges, once, which messages the text of the answer at hand answers. Those that
// except holds back are taken as not open. What is found is decided when the text
// is shown.
// Rule 8.6.
func (d obligations) try(t *state.Task, except func(*state.Message) bool) {
	p := &d.pending
	if p.task != t || p.tried || len(p.texts) == 0 {
		return
	}
	p.tried = true
	open := slices.DeleteFunc(d.openMessages(t), except)
	texts := make([]string, len(p.texts))
	for i := range texts {
		texts[i] = p.texts[i].text
	}
	p.proofs = receipts.Judge(texts, t.Pieces, len(open), func(text []receipts.Words) []receipts.Proof { return d.judge(t, text, open) })
}

// nothing is held back.
func nothing(*state.Message) bool { return false }

// tryUnnamed judges what the last answer said by respondToUser without a name, when
// this one shows that it was no word on the way: it calls nothing more. What this
// answer says of a message itself counts more.
// Rule 8.8.
func (d obligations) tryUnnamed(t *state.Task, items []conversation.Item, named []conversation.MessageID) (found []receipts.Proof) {
	if worksOn(items) {
		return nil
	}
	var text []receipts.Words
	var last state.Unnamed
	for _, u := range t.Unnamed {
		text, last = append(text, u.Words), u
	}
	if len(text) == 0 {
		return nil
	}
	open := slices.DeleteFunc(d.openMessages(t), func(m *state.Message) bool { return m.Read > last.Seq })
	for _, r := range d.judge(t, text, open) {
		if !slices.Contains(named, r.Message) {
			r.Item = int(t.Unnamed[r.Item].Part)
			found = append(found, r)
		}
	}
	return found
}

// worksOn is true for an answer that calls a tool, a delegate or a question.
func worksOn(items []conversation.Item) bool {
	return slices.ContainsFunc(items, func(i conversation.Item) bool {
		return i.Kind == conversation.ItemCall && i.Tool != conversation.ToolRespond && i.Tool != conversation.ToolCover
	})
}

// judge finds what a text answers.
// Rules 8.7, 8.9.
func (d obligations) judge(t *state.Task, text []receipts.Words, messages []*state.Message) []receipts.Proof {
	open := make([]receipts.Open, len(messages))
	for i, m := range messages {
		open[i] = receipts.Open{Message: m.ID, Words: m.Words, Nudged: m.Nudged > 0 || m.Clarified}
	}
	if d.coverage() == policy.CoverageSeen {
		return receipts.Seen(text, open)
	}
	return receipts.Try(text, open, t.AnsweredWords())
}
