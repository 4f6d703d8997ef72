package machine

import (
	"strings"

	"parley/conversation"
	"parley/conversation/machine/internal/state"
)

// Parts: what is shown to the user, keyed by (source, index). docs/MACHINE.md, section 3.

// pending is the text of an answer while settle finds out whether it is the
// task's final one. It lives within one Decide.
type pending struct {
	task   *state.Task
	texts  []pendingText
	silent bool // the answer was a no-reply sentinel and nothing else
}

type pendingText struct {
	text  string
	draft conversation.DraftID
}

// Rule 3.8.
func (p *pending) take(t *state.Task) ([]pendingText, bool) {
	if p.task != t {
		return nil, false
	}
	texts, silent := p.texts, p.silent
	*p = pending{}
	return texts, silent
}

// showPending shows the text of the answer as partial: the task goes on.
// Rule 3.2.
func (d *decision) showPending(t *state.Task) progress {
	texts, _ := d.pending.take(t)
	for _, p := range texts {
		d.showText(t, p)
	}
	return progress(len(texts) > 0)
}

// showText shows plain text of an answer as a partial part.
func (d *decision) showText(t *state.Task, p pendingText) {
	part := d.state.NextPart(t, p.text, t.ReplyTarget(), p.draft)
	d.emit(t, conversation.PartialResponse{Part: part})
	d.answered(t, part.InReplyTo, part.Index)
}

// answered resolves a message that a part names; only the first part does.
func (d *decision) answered(t *state.Task, id conversation.MessageID, part conversation.PartIndex) {
	if m := t.Message(id); m != nil && m.Read != 0 {
		d.resolve(t, id, conversation.ResolvedAnswered, &part, "")
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
		// A delegate's answer is one text: its parent gets that text and no other.
		if (!s.policy.PartsEnabled || s.state.Key.Session.Depth() > 0) && len(texts) > 0 {
			texts[0].text += "\n\n" + p.text
			continue
		}
		texts = append(texts, p)
	}
	return texts, sentinel && len(texts) == 0
}
