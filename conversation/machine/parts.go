package machine

import (
	"strings"

	"parley/conversation"
)

// Parts: what is shown to the user, keyed by (source, index). machine.md, section 3.

// pending is the text of an answer while settle finds out whether it is the
// task's final one. It lives within one Decide.
type pending struct {
	task   *task
	texts  []pendingText
	silent bool // the answer was a no-reply sentinel and nothing else
}

type pendingText struct {
	text  string
	draft conversation.DraftID
}

func (p *pending) take(t *task) ([]pendingText, bool) {
	if p.task != t {
		return nil, false
	}
	texts, silent := p.texts, p.silent
	*p = pending{}
	return texts, silent
}

// showPending shows the text of the answer as partial: the task goes on.
func (s *Session) showPending(t *task) bool {
	texts, _ := s.out.pending.take(t)
	for _, p := range texts {
		s.showText(t, p)
	}
	return len(texts) > 0
}

// showText shows plain text of an answer as a partial part.
func (s *Session) showText(t *task, p pendingText) {
	part := s.nextPart(t, p.text, t.replyTarget(), p.draft)
	s.emit(t, conversation.PartialResponse{Part: part})
	s.answered(t, part.InReplyTo, part.Index)
}

// nextPart is the next part of the task's source.
func (s *Session) nextPart(t *task, text string, inReplyTo conversation.MessageID, draft conversation.DraftID) conversation.Part {
	return conversation.Part{
		Message: s.partID(s.state.Parts + 1), Source: conversation.SourceID(t.Trigger), Index: t.NextPart,
		Text: text, InReplyTo: inReplyTo, Draft: draft,
	}
}

// replyTarget is the message that plain text answers: the oldest unresolved one
// that the last step read, else the oldest unresolved one that the task has
// read, else the trigger.
func (t *task) replyTarget() conversation.MessageID {
	if id := t.targetAmong(func(*message) bool { return true }); id != "" {
		return id
	}
	return t.Trigger
}

func (t *task) targetAmong(eligible func(*message) bool) conversation.MessageID {
	var oldest conversation.MessageID
	for _, m := range t.Messages {
		if m.Read == 0 || !eligible(m) {
			continue
		}
		if m.ReadBy == t.LastStep {
			return m.ID
		}
		if oldest == "" {
			oldest = m.ID
		}
	}
	return oldest
}

// answered resolves a message that a part names; only the first part does.
func (s *Session) answered(t *task, id conversation.MessageID, part conversation.PartIndex) {
	if m := t.message(id); m != nil && m.Read != 0 {
		s.resolve(t, id, conversation.ResolvedAnswered, &part, "")
	}
}

func (s *Session) applyPart(e conversation.Event, t *task, p conversation.Part, promoted bool) {
	s.state.Activity = e.At
	if promoted {
		return
	}
	n := conversation.Ordinal(string(p.Message), 'p')
	s.state.Parts = max(s.state.Parts, n)
	if p.ClientMsgID != "" {
		s.state.remember(recent{Key: clientKey(p.Author, p.ClientMsgID), Text: textKey(p.Said()), Message: n, Seq: uint32(e.Seq)})
	}
	if t == nil || p.Source != conversation.SourceID(t.Trigger) {
		return
	}
	if m := t.message(t.Trigger); m != nil && m.Read == 0 && s.state.Agent == conversation.Outside {
		m.Read = e.Seq // no step says so where none of our models runs: its runtime has begun to answer it
	}
	t.NextPart = max(t.NextPart, p.Index+1)
	t.LastPart = &p
}

// texts picks what an answer shows: blank items are dropped before anything is
// numbered, sentinels by policy, and parts.enabled=false joins the rest.
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
		// A delegate's answer is one text: its parent is told that and no other.
		if (!s.policy.PartsEnabled || s.key.Session.Depth() > 0) && len(texts) > 0 {
			texts[0].text += "\n\n" + p.text
			continue
		}
		texts = append(texts, p)
	}
	return texts, sentinel && len(texts) == 0
}
