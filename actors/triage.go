package actors

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"parley/actors/internal/mail"
	"parley/actors/internal/modelcall"
	"parley/conversation"
)

// triage asks a model for the order of the waiting messages. There is one call at
// a time; messages that arrive meanwhile are asked about when it has ended.
type triage struct {
	about  conversation.Triage
	next   *conversation.Triage // the waiting messages have changed since
	cancel context.CancelFunc
}

// triageEnd is a message: the call has ended. Without an answer the order stays.
type triageEnd struct {
	mail.DeadLetterOK
	t      *triage
	answer *conversation.ModelAnswer
}

// triage asks an agent for the order of the waiting messages. Its answer names
// them by number, and each one named is moved to its place; other words in it have
// no effect.
func (s *session) triage(f conversation.Triage) {
	if s.triaging != nil {
		s.triaging.next = &f
		return
	}
	e, self := s.e, s.self
	model, ok := e.deps.Models[e.rules.Agents[f.Agent].Model]
	if !ok || len(f.Waiting) == 0 {
		return
	}
	var list strings.Builder
	list.WriteString("These messages wait. Answer with their numbers in the order in which they should be worked on, and nothing else.\n")
	for i, m := range f.Waiting {
		fmt.Fprintf(&list, "%d. %s\n", i+1, m.Excerpt)
	}
	request := conversation.Request{
		Session: s.key.Session, Agent: f.Agent, System: e.rules.Agents[f.Agent].Prompt,
		Entries: []conversation.Entry{{Role: conversation.RoleUser, Text: list.String()}},
	}
	t := &triage{about: f}
	t.cancel = modelcall.Once(e.models, "triage", e.cfg.ModelIdle, model, request, func(answer *conversation.ModelAnswer, _ error) {
		e.send(self, &triageEnd{t: t, answer: answer})
	})
	s.triaging = t
}

// triaged moves the messages, in the name of the owner. A move of a message that
// does not wait any more is refused.
func (s *session) triaged(m *triageEnd) {
	if s.phase == phaseUnloaded || s.triaging != m.t {
		return
	}
	t := s.triaging
	s.triaging = nil
	owner := s.machine.Summary().Owner
	if m.answer != nil {
		// The last one first, each to the front: so they end in order.
		for _, i := range slices.Backward(ordinals(m.answer.Items, len(t.about.Waiting))) {
			s.tellSelf(conversation.Move{By: owner, Message: t.about.Waiting[i].Message})
		}
	}
	if t.next != nil && s.draining == drainNot {
		s.triage(*t.next)
	}
}

// stop cancels the call; its end is ignored. t may be nil.
func (t *triage) stop() {
	if t != nil {
		t.cancel()
	}
}

// ordinals reads the numbers 1…n of a text, each once, as indexes.
func ordinals(items []conversation.Item, n int) []int {
	var order []int
	for _, item := range items {
		for _, word := range strings.FieldsFunc(item.Text, func(r rune) bool { return !unicode.IsDigit(r) }) {
			var i int
			if _, err := fmt.Sscan(word, &i); err == nil && i >= 1 && i <= n && !slices.Contains(order, i-1) {
				order = append(order, i-1)
			}
		}
	}
	return order
}
