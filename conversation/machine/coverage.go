package machine

import (
	"slices"

	"parley/conversation"
	"parley/conversation/machine/internal/plan"
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
// nothing has answered. The model is asked once what became of several, by calls alone;
// then for each that is still open, alone, so often and no more.
// Rules 2.8, 8.3, 8.13.
func (d obligations) nudge(t *state.Task) nudging {
	if !d.nudges(t) {
		return notNudged
	}
	if d.pending.task == t && d.pending.silent {
		return notNudged // NO_REPLY counts as covered
	}
	var open []*state.Message
	for _, m := range d.openMessages(t) {
		if !d.pending.answers(m.ID) && !(d.pending.task == t && d.pending.unclear == m.ID) {
			open = append(open, m)
		}
	}
	nudge := conversation.CoverageNudge{Nudge: t.Nudges + 1}
	if len(open) > 1 && slices.ContainsFunc(open, func(m *state.Message) bool { return !m.Closing }) && d.closes() {
		nudge.Form = conversation.NudgeClosing
		if d.rules.Judge != nil {
			nudge.Form = conversation.NudgeJudged
		}
		for _, m := range open {
			nudge.Messages = append(nudge.Messages, m.ID)
		}
	} else if i := slices.IndexFunc(open, func(m *state.Message) bool { return m.Nudged < d.policy.MaxNudges }); i >= 0 {
		nudge.Form, nudge.Messages = conversation.NudgeAlone, []conversation.MessageID{open[i].ID}
	}
	if len(nudge.Messages) == 0 {
		return notNudged
	}
	d.showPending(t)
	d.emit(t, nudge)
	return nudged
}

// nudges is true where what is still open is asked about.
func (d obligations) nudges(t *state.Task) bool {
	return d.coverage() == policy.CoverageStrict && d.policy.MaxNudges > 0 && !t.NudgeFailed
}

// closes is true where a closing nudge may help: its model has not ignored the last one.
func (d obligations) closes() bool {
	return d.rules.Judge != nil || !d.state.Heard.IgnoresClosing(d.state.Agent)
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
	if t.Alone != "" {
		open = slices.DeleteFunc(open, func(m *state.Message) bool { return m.ID != t.Alone })
	}
	if len(open) == 0 {
		return
	}
	text := make([]receipts.Words, len(p.texts))
	for i := range text {
		text[i] = receipts.Of(p.texts[i].text, receipts.PartWords)
	}
	text[0] = t.Pieces.And(text[0], receipts.PartWords)
	if t.Alone != "" {
		d.tryAlone(t, open[0], text)
		return
	}
	verdict, proofs := d.judge(text, open)
	if p.proofs = proofs; len(proofs) > 0 {
		return
	}
	// What may be the answer is shown. Other text that the task has said word by word is not
	// shown again: the model is asked again.
	said := func(one pendingText) bool { return d.nudges(t) && t.SaidBefore(d.state.Heard, one.text) }
	if verdict == receipts.Unclear || verdict == receipts.Doubtful && !slices.ContainsFunc(p.texts, said) {
		p.unclear = open[0].ID
		return
	}
	p.texts = slices.DeleteFunc(p.texts, said)
}

// tryAlone judges what the model has said when it was asked for one message alone. What
// speaks of another message is no answer, and what was shown before is not shown again: the
// part that was there is the answer.
// Rule 8.12.
func (d obligations) tryAlone(t *state.Task, m *state.Message, text []receipts.Words) {
	p := &d.pending
	all := p.texts
	p.texts = nil
	if verdict := receipts.JudgeAlone(text, m.Words, d.state.Heard.Told()); verdict != receipts.Answers {
		if verdict != receipts.Repeated && !slices.ContainsFunc(all, func(one pendingText) bool { return t.SaidBefore(d.state.Heard, one.text) }) {
			p.texts, p.unclear = all, m.ID
			return
		}
		d.resolve(t, m.ID, conversation.ResolvedUnanswered, "")
		return
	}
	// A text that was there may also be the answer to a message of which the model could not
	// be made to speak.
	unknown := slices.ContainsFunc(d.openMessages(t), func(o *state.Message) bool { return o.ID != m.ID && o.Nudged > 0 })
	var there conversation.PartIndex
	for _, one := range all {
		if part, said := t.Said(one.text, m.Words); said {
			there = part
		} else {
			p.texts = append(p.texts, one)
		}
	}
	evidence := conversation.EvidenceAsked
	if p.named {
		evidence = conversation.EvidenceNamed
	}
	switch {
	case len(p.texts) == 0 && unknown:
		d.resolve(t, m.ID, conversation.ResolvedUnanswered, "")
		return
	case len(p.texts) == 0:
		d.answered(t, m.ID, there, evidence)
		return
	}
	p.proofs = []receipts.Proof{{Message: m.ID, Evidence: evidence, Item: len(p.texts) - 1}}
}

// replied is the message that a question was asked about (4.5) and that the last part is
// shown as the reply to, if no other is open; nil = there is none.
func (d obligations) replied(t *state.Task) *state.Message {
	open := slices.DeleteFunc(d.openMessages(t), func(m *state.Message) bool { return !t.MayAnswer(m) })
	if len(open) != 1 || !open[0].Clarified || t.LastPart == nil || t.LastPart.InReplyTo != open[0].ID {
		return nil
	}
	return open[0]
}

// tryReply judges the last part as the answer to such a message, as it would have been tried
// without the question.
// Rule 4.5.
func (d obligations) tryReply(t *state.Task) {
	m := d.replied(t)
	if m == nil || d.pending.task == t && len(d.pending.texts) > 0 {
		return
	}
	if _, proofs := d.judge([]receipts.Words{receipts.Of(t.LastPart.Text, receipts.PartWords)}, []*state.Message{m}); len(proofs) > 0 {
		d.answered(t, m.ID, t.LastPart.Index, proofs[0].Evidence)
	}
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
	says := slices.ContainsFunc(items, func(i conversation.Item) bool {
		return d.isShown(i) && !receipts.Of(i.Text, receipts.PartWords).Acknowledge()
	})
	var parts []conversation.PartIndex
	for _, u := range t.Unnamed {
		if says && u.Words.Acknowledge() {
			continue // "On it." was no answer: this one is
		}
		text, last, parts = append(text, u.Words), u, append(parts, u.Part)
	}
	if len(text) == 0 {
		return nil
	}
	open := slices.DeleteFunc(d.openMessages(t), func(m *state.Message) bool { return m.Read > last.Seq })
	_, proofs := d.judge(text, open)
	for _, r := range proofs {
		if !slices.Contains(named, r.Message) {
			r.Item = int(parts[r.Item])
			found = append(found, r)
		}
	}
	return found
}

// closed takes what a model says of open messages when it was asked for calls alone. None
// of its text is shown, and no text of its calls that was shown before.
// Rule 8.13.
func (d obligations) closed(t *state.Task, finished conversation.StepFinished, asked []plan.Call) {
	evidence := conversation.EvidenceNamed
	if t.Step.Form == conversation.NudgeJudged {
		evidence = conversation.EvidenceJudged
	}
	d.emit(t, finished)
	for _, call := range asked {
		switch a := call.Do.(type) {
		case plan.Answered:
			part := a.Part
			if !a.ByPart {
				part = t.Closest(t.Message(a.Message).Words)
			}
			d.answered(t, a.Message, part, evidence)
		case plan.Show:
			d.answeredLate(t, a)
		default:
			d.calls().carryOut(t, call)
		}
	}
}

// answeredLate shows an answer to a message, unless that was shown before.
func (d obligations) answeredLate(t *state.Task, a plan.Show) {
	m := t.Message(a.Message)
	if m == nil {
		return
	}
	if part, said := t.Said(a.Text, m.Words); said {
		d.answered(t, m.ID, part, conversation.EvidenceNamed)
		return
	}
	text := []receipts.Words{receipts.Of(a.Text, receipts.PartWords)}
	if receipts.JudgeAlone(text, m.Words, d.state.Heard.Told()) == receipts.Answers {
		d.calls().carryOut(t, plan.Call{Do: a})
	}
}

// worksOn is true for an answer that calls a tool, a delegate or a question.
func worksOn(items []conversation.Item) bool {
	return slices.ContainsFunc(items, func(i conversation.Item) bool {
		return i.Kind == conversation.ItemCall && i.Tool != conversation.ToolRespond && i.Tool != conversation.ToolCover
	})
}

// judge finds what a text answers: the only open message, or none. Of several nobody knows
// which.
// Rules 8.7, 8.9.
func (d obligations) judge(text []receipts.Words, open []*state.Message) (receipts.Verdict, []receipts.Proof) {
	last := len(text) - 1
	if d.coverage() == policy.CoverageSeen {
		proofs := make([]receipts.Proof, len(open))
		for i, m := range open {
			proofs[i] = receipts.Proof{Message: m.ID, Evidence: conversation.EvidenceSeen, Item: last}
		}
		return receipts.Answers, proofs
	}
	if len(open) != 1 {
		return receipts.Answers, nil
	}
	verdict := receipts.Judge(text, open[0].Words, d.state.Heard.Told())
	if verdict != receipts.Answers {
		return verdict, nil
	}
	evidence := conversation.EvidenceOnly
	if open[0].Nudged > 0 || open[0].Clarified {
		evidence = conversation.EvidenceAsked
	}
	return verdict, []receipts.Proof{{Message: open[0].ID, Evidence: evidence, Item: last}}
}
