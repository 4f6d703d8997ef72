package exchange

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"parley/conversation"
)

const session, task = "S", conversation.TaskID("t1-S")

// play is what happens in a session, in order: events and what streams beside them.
type play []any // conversation.EventBody, conversation.Ephemeral

// log is the stored part of a play: with seqs.
func (p play) log() (events []conversation.Event) {
	for _, x := range p {
		if b, is := x.(conversation.EventBody); is {
			seq := conversation.Seq(len(events) + 1)
			events = append(events, conversation.Event{Seq: seq, At: time.UnixMilli(int64(seq)).UTC(), Task: task, Body: b})
		}
	}
	return events
}

// notes folds a play from step i of it on, as a follower does that comes then: what was
// stored before, the texts that stream, and what comes.
func (p play) notes(from int, after Number) (told []Note) {
	f := &Follower{fold: NewFold(0, after, false), after: after}
	take := func(notes []Note) {
		for i := range notes {
			n := notes[i]
			if f.clip(&n) {
				told = append(told, n)
			}
		}
	}
	events, n := p.log(), 0
	drafts := map[conversation.DraftID]string{}
	var order []conversation.DraftID
	for i, x := range p {
		if i == from {
			for _, d := range order {
				if text := drafts[d]; text != "" {
					take(f.fold.Draft(conversation.DraftView{Task: task, Draft: d, Text: text}))
				}
			}
		}
		switch b := x.(type) {
		case conversation.EventBody:
			take(f.fold.Event(&events[n]))
			n++
			switch b := b.(type) {
			case conversation.PartialResponse:
				delete(drafts, b.Draft)
			case conversation.StepStarted:
				clear(drafts)
				order = nil
			}
		case conversation.Delta:
			if drafts[b.Draft] == "" {
				order = append(order, b.Draft)
			}
			drafts[b.Draft] += b.Text
			if i >= from {
				take(f.fold.Stream(b))
			}
		}
	}
	return told
}

// screen is what a client shows after notes: each item's text, and how it ended.
type screen struct {
	order []string
	text  map[string]string
	state map[string]string
	wrong []string
	last  Number
}

func (s *screen) add(notes []Note) {
	for _, n := range notes {
		if n.Seen > 0 {
			continue // it says one thing of each note
		}
		if n.Own {
			if n.At <= s.last {
				s.wrong = append(s.wrong, fmt.Sprintf("%s at %d comes after %d", n.Kind, n.At, s.last))
			}
			s.last = n.At
		}
		id := ""
		if n.Item != nil {
			id = n.Item.ID
		}
		switch n.Kind {
		case TextBegan:
			if s.state[id] != "" {
				s.wrong = append(s.wrong, id+" begins twice")
			}
			s.order = append(s.order, id)
			s.state[id] = "open"
		case TextGrew:
			if s.state[id] != "open" {
				s.wrong = append(s.wrong, id+" grows and is "+s.state[id])
			}
			s.text[id] += n.Delta
		case TextEnded:
			if s.state[id] != "open" {
				s.wrong = append(s.wrong, id+" ends and is "+s.state[id])
			}
			s.state[id] = "ended"
			if got := s.text[id]; got != n.Item.Text {
				s.wrong = append(s.wrong, fmt.Sprintf("%s was shown as %q, and is %q", id, got, n.Item.Text))
			}
		case TextDropped:
			if s.state[id] != "open" {
				s.wrong = append(s.wrong, id+" is dropped and is "+s.state[id])
			}
			s.state[id] = "dropped"
		}
	}
}

func newScreen() *screen { return &screen{text: map[string]string{}, state: map[string]string{}} }

// write makes a play of a task: steps, each of some attempts, each of some texts that stream.
func write(r *rand.Rand) play {
	p := play{conversation.MessageAccepted{Message: "m1-S", Text: "go"}, conversation.TaskStatusChanged{Trigger: "m1-S", New: conversation.TaskRunning}}
	words := []string{"alpha ", "β", "gamma\n", "𝄞", "delta ", "e"}
	part, said := 0, 1
	for step := 1; step <= 1+r.IntN(3); step++ {
		attempts := 1 + r.IntN(2)
		for attempt := 1; attempt <= attempts; attempt++ {
			p = append(p, conversation.StepStarted{Step: conversation.StepNumber(step), Attempt: attempt})
			texts := make([]string, r.IntN(4))
			for item := range texts {
				id := conversation.Draft(conversation.StepNumber(step), attempt, item)
				for range 1 + r.IntN(6) {
					word := words[r.IntN(len(words))]
					p = append(p, conversation.Delta{Task: task, Draft: id, At: utf8.RuneCountInString(texts[item]), Text: word})
					texts[item] += word
					if r.IntN(4) == 0 { // others speak meanwhile
						said++
						p = append(p, conversation.MessageAccepted{Message: conversation.MessageID(fmt.Sprintf("m%d-S", said)), Text: "and"})
					}
				}
			}
			if attempt < attempts {
				continue // interrupted: a new attempt begins
			}
			p = append(p, conversation.StepFinished{Step: conversation.StepNumber(step), Attempt: attempt, Outcome: conversation.StepOK})
			if r.IntN(3) == 0 { // said by a tool of the engine, while a text is open
				p = append(p, conversation.PartialResponse{Part: conversation.Part{
					Message: conversation.MessageID(fmt.Sprintf("p%d-S", part+1)), Source: "m1-S", Index: conversation.PartIndex(part), Text: "Bézier: " + words[r.IntN(len(words))],
				}})
				part++
			}
			for item, text := range texts {
				more := "" // the last text may be longer than what streamed of it
				if item == len(texts)-1 {
					more = []string{"", "more"}[r.IntN(2)]
				}
				p = append(p, conversation.PartialResponse{Part: conversation.Part{
					Message: conversation.MessageID(fmt.Sprintf("p%d-S", part+1)), Source: "m1-S", Index: conversation.PartIndex(part),
					Text: text + more, Draft: conversation.Draft(conversation.StepNumber(step), attempt, item),
				}})
				part++
			}
		}
	}
	return append(p, conversation.TaskStatusChanged{Old: conversation.TaskRunning, New: conversation.TaskComplete})
}

// A client that is cut off anywhere, also in the middle of a text, and comes back at any
// later moment with the last number that it has seen, has seen each text once and whole.
func TestResumeAnywhere(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for round := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, round))
		p := write(r)
		whole := p.notes(0, 0)
		all := newScreen()
		if all.add(whole); len(all.wrong) > 0 {
			t.Fatalf("seed %d round %d: %s", seed, round, strings.Join(all.wrong, "; "))
		}
		for range 20 {
			cut := r.IntN(len(whole) + 1)
			s := newScreen()
			s.add(whole[:cut])
			seen := s.last
			// It may have been cut off in the middle of what it was sent last.
			come := len(p)
			if r.IntN(2) == 0 {
				come = first(p, seen) + r.IntN(len(p)-first(p, seen)+1)
			}
			s.add(p.notes(come, seen))
			if len(s.wrong) > 0 {
				t.Fatalf("seed %d round %d: cut after note %d (number %d), back at %d of %d: %s", seed, round, cut, seen, come, len(p), strings.Join(s.wrong, "; "))
			}
			for id, state := range all.state {
				if state == "ended" && (s.state[id] != "ended" || s.text[id] != all.text[id]) {
					t.Fatalf("seed %d round %d: cut after note %d (number %d), back at %d of %d: %s is %s %q, want %q", seed, round, cut, seen, come, len(p), id, s.state[id], s.text[id], all.text[id])
				}
			}
			for id, state := range s.state {
				if state == "open" {
					t.Fatalf("seed %d round %d: %s is open at the end", seed, round, id)
				}
			}
		}
	}
}

// A client that was told all that is stored up to an event, and no text that streams, is told the
// rest from there on: also a text that streamed then, from its beginning.
func TestNumberAtAnEvent(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for round := range uint64(100) {
		p := write(rand.New(rand.NewPCG(seed, round)))
		all := newScreen()
		all.add(p.notes(0, 0))
		events := p.log()
		for seq := conversation.Seq(1); int(seq) <= len(events); seq++ {
			for _, come := range []int{at(p, seq) + 1, len(p)} {
				s, f := newScreen(), NewFold(0, 0, false)
				for i := range events[:seq] {
					s.add(f.Event(&events[i]))
				}
				if s.last > NumberAt(seq) {
					t.Fatalf("seed %d round %d: a note of event %d has the number %d, behind %d", seed, round, seq, s.last, NumberAt(seq))
				}
				s.last = NumberAt(seq)
				s.add(p.notes(come, NumberAt(seq)))
				for id, state := range all.state {
					if state == "ended" && (s.state[id] != "ended" || s.text[id] != all.text[id]) {
						s.wrong = append(s.wrong, fmt.Sprintf("%s is %s %q, want %q", id, s.state[id], s.text[id], all.text[id]))
					}
				}
				if len(s.wrong) > 0 {
					t.Fatalf("seed %d round %d: told up to %d, back at %d of %d: %s", seed, round, seq, come, len(p), strings.Join(s.wrong, "; "))
				}
			}
		}
	}
}

// at is the step of a play that is an event.
func at(p play, seq conversation.Seq) int {
	for i, x := range p {
		if _, is := x.(conversation.EventBody); is {
			if seq--; seq == 0 {
				return i
			}
		}
	}
	return len(p)
}

// first is the first step of a play at which a client that has seen a number may come back:
// what it has seen has happened.
func first(p play, seen Number) int {
	f := NewFold(0, 0, false)
	events, n := p.log(), 0
	for i, x := range p {
		var notes []Note
		switch b := x.(type) {
		case conversation.EventBody:
			notes = f.Event(&events[n])
			n++
		case conversation.Ephemeral:
			notes = f.Stream(b)
		}
		for j := range notes {
			if notes[j].Own && notes[j].At > seen {
				if _, stored := x.(conversation.EventBody); stored && seen.Seq() == f.Seq() {
					return i + 1 // the event is stored: some of it was seen
				}
				return i
			}
		}
	}
	return len(p)
}

// A number in the middle of a piece of text, of a client that counts its pieces otherwise, is
// gone on with behind it.
func TestResumeWithinAPiece(t *testing.T) {
	p := play{conversation.PartialResponse{Part: conversation.Part{Message: "p1-S", Text: "Grüße"}}}
	for n, want := range map[int]string{0: "Grüße", 2: "üße", 4: "e", 5: ""} {
		after, got := place(1, slotGrew, n), ""
		for _, note := range p.notes(0, after) {
			if note.Kind == TextGrew {
				got += note.Delta
			}
		}
		if got != want {
			t.Errorf("behind %d letters: %q, want %q", n, got, want)
		}
	}
}
