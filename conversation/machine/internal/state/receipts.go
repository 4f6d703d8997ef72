package state

import (
	"bytes"
	"encoding/json"
	"slices"

	"parley/conversation"
	"parley/conversation/machine/internal/receipts"
)

// What a task remembers to judge whether a text answers a message: words, never texts.

// answer is a part that answered a message.
type answer struct {
	Part  conversation.PartIndex
	Words receipts.Words
}

// Unnamed is a part that respondToUser showed without the name of a message. It is
// judged when the next answer shows that the work is done.
type Unnamed struct {
	Part  conversation.PartIndex
	Seq   conversation.Seq // what was read before it is what it may answer
	Step  conversation.StepNumber
	Words receipts.Words
}

// How many of them are remembered; each in receipts.PartWords words at most.
const (
	maxAnswered = 16
	maxUnnamed  = 16
)

// AnsweredWords are the words of the last parts that answered messages of the task.
// Rule 8.7.
func (t *Task) AnsweredWords() []receipts.Words {
	words := make([]receipts.Words, len(t.Answered))
	for i, a := range t.Answered {
		words[i] = a.Words
	}
	return words
}

// applyResolved lets go of a message. What answered it is remembered: said once more,
// it answers no other message.
func (t *Task) applyResolved(b conversation.MessageResolved) {
	t.drop(b.Message)
	if b.How != conversation.ResolvedAnswered || b.Part == nil || b.Evidence == conversation.EvidenceSeen {
		return
	}
	if n := len(t.Answered); n > 0 && t.Answered[n-1].Part == *b.Part {
		return // one part, several messages
	}
	a := answer{Part: *b.Part}
	if i := slices.IndexFunc(t.Unnamed, func(u Unnamed) bool { return u.Part == *b.Part }); i >= 0 {
		a.Words = t.Unnamed[i].Words
	} else if p := t.LastPart; p != nil && p.Index == *b.Part {
		a.Words = receipts.OfPart(p.Text)
	}
	if len(a.Words) > 0 {
		if t.Answered = append(t.Answered, a); len(t.Answered) > maxAnswered {
			t.Answered = slices.Clone(t.Answered[len(t.Answered)-maxAnswered:])
		}
	}
}

// applyNudge: the reminder is unseen, and each message that it names was reminded of.
func (t *Task) applyNudge(b conversation.CoverageNudge) {
	t.Nudges, t.UnseenInput = b.Nudge, true
	for _, id := range b.Messages {
		if m := t.Message(id); m != nil {
			if len(b.Questions) > 0 {
				m.Clarified = true
			} else {
				m.Nudged++
			}
		}
	}
}

// notePieces remembers the words of an answer that may be gone on with.
// Rule 8.6.
func (t *Task) notePieces(b conversation.StepFinished) {
	if b.Stop != conversation.StopLength {
		return
	}
	var open []receipts.Words
	for _, m := range t.Messages {
		open = append(open, m.Words)
	}
	for _, item := range b.Items {
		if item.Kind == conversation.ItemText {
			t.Pieces = receipts.OfPieces(t.Pieces, item.Text, open...)
		}
	}
}

// noteSaying remembers what an answer says by respondToUser, until its parts come.
func (t *Task) noteSaying(b conversation.StepFinished) {
	t.Saying = nil
	for _, item := range b.Items {
		if item.Kind != conversation.ItemCall || item.Tool != conversation.ToolRespond {
			continue
		}
		var args struct {
			Message   string
			InReplyTo json.RawMessage
		}
		// A name that is none names something else, so such a text is not judged.
		if json.Unmarshal([]byte(item.Args), &args) == nil && len(bytes.Trim(args.InReplyTo, `" `)) == 0 {
			t.Saying = append(t.Saying, TextKey(args.Message))
		}
	}
}

// forgetUnnamed keeps what the last answer said; what one before it said was judged
// by now, or never will be.
func (t *Task) forgetUnnamed() {
	t.Saying = nil
	if t.Unnamed = slices.DeleteFunc(slices.Clone(t.Unnamed), func(u Unnamed) bool { return u.Step != t.LastStep }); len(t.Unnamed) == 0 {
		t.Unnamed = nil
	}
}

// noteUnnamed remembers a part that respondToUser showed without a name.
func (t *Task) noteUnnamed(e conversation.Event, p conversation.Part) {
	if !p.Guessed || !slices.Contains(t.Saying, TextKey(p.Text)) {
		return
	}
	if len(t.Unnamed) < maxUnnamed {
		t.Unnamed = append(t.Unnamed, Unnamed{Part: p.Index, Seq: e.Seq, Step: t.LastStep, Words: receipts.OfPart(p.Text)})
	}
}
