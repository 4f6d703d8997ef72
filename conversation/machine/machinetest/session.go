package machinetest

import (
	"context"
	"time"

	"parley/conversation"
	"parley/conversation/machine"
	"parley/conversation/transcript"
)

// Session is one session of a World, and the hand that plays its model and its
// tools where the World has none.
type Session struct {
	Key     conversation.SessionKey
	Machine *machine.Session

	world      *World
	epoch      conversation.Epoch
	transcript *transcript.Transcript // as far as it was asked for
	asked      *conversation.AskModel // the model call that is open
	request    conversation.Request   // of it, once it has begun
}

// Request returns the request of the open model call as it was when the call
// began; ok is false when no call is open.
func (s *Session) Request() (r conversation.Request, ok bool) {
	return s.request, s.asked != nil
}

// Answer is the answer to the open model call. It panics when there is none.
func (s *Session) Answer(items ...conversation.Item) {
	s.end(conversation.ModelAnswered{
		Step: s.asked.Step, Attempt: s.asked.Attempt, Model: "test", Answer: conversation.ModelAnswer{Items: items}, Shown: s.request.Open,
	})
	s.world.Rest()
}

// Fail is the failure of the open model call. Another attempt, if there is to be
// one, comes when it is due: see World.Pass. It panics when no call is open.
func (s *Session) Fail(f conversation.Failure, permanent bool) {
	s.end(conversation.ModelFailed{Step: s.asked.Step, Attempt: s.asked.Attempt, Model: "test", Failure: f, Permanent: permanent})
	s.world.Rest()
}

func (s *Session) end(c conversation.Command) {
	s.asked = nil
	s.world.Tell(s.Key, c, nil)
}

// Return is the result of an open tool call that took so long.
func (s *Session) Return(call conversation.CallID, result string, took time.Duration) {
	s.world.Tell(s.Key, conversation.ToolDone{Call: call, Status: conversation.CallOK, Result: result, Took: took}, nil)
	s.world.Rest()
}

// Go has the World's Model answer the open model call, if it wants to.
func (s *Session) Go() {
	s.ask()
	s.world.Rest()
}

// begin begins a model call, unless another attempt or a cancel came between.
func (s *Session) begin(e conversation.AskModel) {
	if s.asked == nil || *s.asked != e {
		return
	}
	if s.transcript == nil {
		s.transcript = transcript.New()
	}
	s.each(conversation.Range{After: s.transcript.Head()}, s.transcript.Add)
	s.request = s.transcript.RequestWith(s.Key, s.world.Rules, s.Machine.Own(), e)
	s.ask()
}

func (s *Session) ask() {
	if s.asked == nil || s.world.Model == nil {
		return
	}
	c := s.world.Model(s, s.request)
	if c == nil {
		return
	}
	s.end(c)
	if failed, ok := c.(conversation.ModelFailed); ok && !failed.Permanent {
		s.world.Now = s.world.Now.Add(time.Minute) // the back-off is over
		s.world.tell(s.Key, conversation.Tick{})
	}
}

// Text is an answer's text.
func Text(text string) conversation.Item {
	return conversation.Item{Kind: conversation.ItemText, Text: text}
}

// Call is an answer's call of a tool; the machine gives it an id.
func Call(tool, args string) conversation.Item {
	return conversation.Item{Kind: conversation.ItemCall, Tool: tool, Args: args}
}

// Events are all events of the log.
func (s *Session) Events() []conversation.Event {
	var all []conversation.Event
	s.each(conversation.Range{}, func(e conversation.Event) { all = append(all, e) })
	return all
}

// event is the one at seq; the zero Event when there is none.
func (s *Session) event(seq conversation.Seq) (found conversation.Event) {
	if seq == 0 {
		return found
	}
	s.each(conversation.Range{After: seq - 1, Before: seq + 1}, func(e conversation.Event) {
		if e.Seq == seq {
			found = e
		}
	})
	return found
}

// part is the part at seq; the zero Part when there is none.
func (s *Session) part(seq conversation.Seq) conversation.Part {
	switch b := s.event(seq).Body.(type) {
	case conversation.PartialResponse:
		return b.Part
	case conversation.Response:
		return b.Part
	}
	return conversation.Part{}
}

// each reads events in order, from r.After on.
func (s *Session) each(r conversation.Range, f func(conversation.Event)) {
	for record, err := range s.world.Store.Records(context.Background(), s.Key, r) {
		if err != nil {
			panic(err)
		}
		for _, e := range record.Events {
			if e.Seq > r.After {
				f(e)
			}
		}
	}
}
