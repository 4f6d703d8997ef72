package delivery

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
)

// receiver answers each command when the test says so.
type receiver struct {
	q       *Queue
	mailbox chan any // of the queue's owner
	told    []string
	answers []func(error)
}

func newReceiver() *receiver {
	r := &receiver{mailbox: make(chan any, 100)}
	r.q = New(Options{
		Tell: func(c conversation.Command, done func(error)) {
			r.told = append(r.told, c.(conversation.Say).Text)
			r.answers = append(r.answers, done)
		},
		Post:  func(m any) { r.mailbox <- m },
		Pause: time.Second, MaxPause: 3 * time.Second,
	})
	return r
}

func (r *receiver) put(id string, low bool, done func(*conversation.Error)) {
	r.q.Enqueue(&Delivery{ID: id, Command: conversation.Say{Text: id}, LowPriority: low, Done: done})
}

// work hands the queue what has arrived for it.
func (r *receiver) work() {
	for synctest.Wait(); len(r.mailbox) > 0; {
		r.q.Handle(<-r.mailbox)
	}
}

func (r *receiver) answer(err error) {
	r.work()
	done := r.answers[0]
	r.answers = r.answers[1:]
	done(err)
	r.work()
}

func (r *receiver) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	r.work()
	if !slices.Equal(r.told, want) {
		t.Errorf("%s: told %v, not %v", when, r.told, want)
	}
}

var busy = conversation.Errorf(conversation.Overloaded, "busy")

func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver()
		var refused *conversation.Error
		r.put("a", false, func(err *conversation.Error) { refused = err })
		r.put("b", false, nil)
		r.put("a", false, nil) // it is in the queue
		r.expect(t, "one at a time", "a")
		r.answer(conversation.Errorf(conversation.Forbidden, "no"))
		if refused == nil || refused.Code != conversation.Forbidden {
			t.Errorf("refused with %v", refused)
		}
		r.expect(t, "refused for good", "a", "b")
		r.answer(busy)
		r.put("c", false, nil)
		r.expect(t, "waits to repeat", "a", "b")
		time.Sleep(time.Second)
		r.expect(t, "repeated before what came later", "a", "b", "b")
		r.answer(busy)
		time.Sleep(time.Second)
		r.expect(t, "the pause grows", "a", "b", "b")
		time.Sleep(time.Second)
		r.answer(nil)
		r.answer(nil)
		r.expect(t, "all are taken", "a", "b", "b", "b", "c")
		if !r.q.Empty() {
			t.Error("not empty")
		}
	})
}

// What adds work may be refused for long; others pass it.
func TestLowPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver()
		r.put("low", true, nil)
		r.put("answer", false, nil)
		r.expect(t, "on its way", "low")
		r.answer(busy)
		r.expect(t, "it is passed", "low", "answer")
		r.answer(nil)
		r.expect(t, "it follows", "low", "answer", "low")
		r.answer(busy)
		r.put("cancel", false, nil)
		r.expect(t, "passed while it waits to be repeated", "low", "answer", "low", "cancel")
		r.answer(nil)
		r.answer(nil)
		r.expect(t, "all are taken", "low", "answer", "low", "cancel", "low")
	})
}
