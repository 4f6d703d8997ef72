package machine

import (
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/machine/internal/receipts"
	"parley/conversation/machine/internal/state"
)

// Parts: what is shown to the user, keyed by (source, index). docs/MACHINE.md, section 3.

// pending is the text of an answer while settle finds out whether it is the
// task's final one. It lives within one Decide.
type pending struct {
	task   *state.Task
	texts  []pendingText
	silent bool // the answer was a no-reply sentinel and nothing else
	named  bool // the answer names the message that it was asked for alone

	tried   bool
	proofs  []receipts.Proof         // what the texts answer, once they were tried
	unclear conversation.MessageID   // nobody knows whether they answer it; "" = none
	covered []conversation.MessageID // what they answer because the answer says so
}

type pendingText struct {
	text  string
	draft conversation.DraftID
}

// Rule 3.8.
func (p *pending) take(t *state.Task) pending {
	if p.task != t {
		return pending{}
	}
	taken := *p
	*p = pending{}
	return taken
}

// answers is true for a message that the texts were found to answer.
func (p *pending) answers(m conversation.MessageID) bool {
	return slices.ContainsFunc(p.proofs, func(r receipts.Proof) bool { return r.Message == m })
}

// showPending shows the text of the answer as partial: the task goes on.
// Rule 3.2.
func (d *decision) showPending(t *state.Task) progress {
	p := d.pending.take(t)
	d.showTexts(t, p, partial)
	return progress(len(p.texts) > 0)
}

func partial(p conversation.Part) conversation.EventBody {
	return conversation.PartialResponse{Part: p}
}
func cutShort(p conversation.Part) conversation.EventBody {
	p.Cut = true
	return conversation.PartialResponse{Part: p}
}
func final(p conversation.Part) conversation.EventBody { return conversation.Response{Part: p} }

// showTexts shows the texts of an answer, and decides what they answer. last makes
// the event of the last one; the others are partial.
func (d *decision) showTexts(t *state.Task, p pending, last func(conversation.Part) conversation.EventBody) {
	for i, text := range p.texts {
		part := d.said(t, text.text, text.draft)
		if i < len(p.texts)-1 {
			d.emit(t, partial(part))
		} else {
			d.emit(t, last(part))
			for _, m := range p.covered {
				d.answered(t, m, part.Index, conversation.EvidenceNamed)
			}
		}
		for _, r := range p.proofs {
			if r.Item == i {
				d.answered(t, r.Message, part.Index, r.Evidence)
			}
		}
	}
	if p.unclear != "" {
		d.resolve(t, p.unclear, conversation.ResolvedUnanswered, "")
	}
}

// said is the next part of what the model says, without the name of a message: the
// engine guesses one, for display alone.
// Rule 3.6.
func (d *decision) said(t *state.Task, text string, draft conversation.DraftID) conversation.Part {
	part := d.state.NextPart(t, text, d.addressee, draft)
	part.Guessed = part.InReplyTo != ""
	return part
}

// answered resolves a message that a part was found to answer; only the first part does.
func (d *decision) answered(t *state.Task, id conversation.MessageID, part conversation.PartIndex, evidence conversation.Evidence) {
	if m := t.Message(id); m != nil && m.Read != 0 {
		d.emit(t, conversation.MessageResolved{Message: id, How: conversation.ResolvedAnswered, Evidence: evidence, Part: &part})
	}
}

// texts picks what an answer shows: blank items are dropped before anything is
// numbered, sentinels by policy, and parts.enabled=false joins the rest.
// Rules 2.19, 3.1.
func (s *Session) texts(step conversation.StepNumber, attempt int, items []conversation.Item) (texts []pendingText, silent bool) {
	sentinel := false
	for i, item := range items {
		if item.Kind != conversation.ItemText || strings.TrimSpace(item.Text) == "" {
			continue
		}
		if s.policy.IsSentinel(item.Text) {
			sentinel = true
			continue
		}
		p := pendingText{text: item.Text}
		if item.Streamed {
			p.draft = conversation.Draft(step, attempt, i)
		}
		texts = s.joined(texts, p)
	}
	return texts, sentinel && len(texts) == 0
}

// joined adds a text, to the one before it where an answer is one part. A delegate's
// answer is one text: its parent gets that text and no other.
// Rule 3.8.
func (s *Session) joined(texts []pendingText, p pendingText) []pendingText {
	if (!s.policy.PartsEnabled || s.state.Key.Session.Depth() > 0) && len(texts) > 0 {
		texts[0].text += "\n\n" + p.text
		return texts
	}
	return append(texts, p)
}
