package actors

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/internal/alarm"
	"parley/conversation"
)

// heard is a session of which a test hears each ring of its timer.
type heard struct {
	session
	rings func()
}

func (s *heard) Receive(ctx actor.Context) {
	if _, ring := ctx.Message().(*alarm.Timeout); ring {
		s.rings()
	}
	s.session.Receive(ctx)
}

// Work that is due and cannot be done now, because the store is being asked for
// something, is tried again after a pause, not at once: the session would do nothing else.
func TestDueWorkThatMustWait(t *testing.T) {
	const tooOften = 1000
	slow := &slowFind{}
	withHarness(t, func(h *harness) {
		slow.Store, slow.wait = h.store, make(chan struct{})
		h.through = slow
	}, func(t *testing.T, h *harness) {
		var rings atomic.Int64
		h.e.props = actor.PropsFromProducer(func() actor.Actor {
			return &heard{session: session{e: h.e}, rings: func() {
				if rings.Add(1) == tooOften {
					close(slow.wait) // so that the test comes to its end
				}
			}}
		}, actor.WithDispatcher(h.e.workers))
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "work")))
		h.call().Fail(&conversation.ModelError{ // the next attempt is due in the middle of the look-up
			Failure: conversation.Failure{Code: conversation.RateLimited, Message: "the provider is busy"}, RetryAfter: 20 * time.Second,
		})
		synctest.Wait()
		asked := h.tell(mainKey, conversation.AddPart{Author: ada, Source: "build-7", Text: "x"})
		h.silent(asked)
		rings.Store(0)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := rings.Load(); n < 2 || n >= tooOften {
			t.Fatalf("the timer has rung %d times in a minute", n)
		}
		if n := len(h.model.Open()); n != 0 {
			t.Errorf("%d model calls run: nothing had to wait", n)
		}
		close(slow.wait)
		h.ok(asked)
		time.Sleep(2 * tickAgain)
		if call := h.call(); call.Request.Attempt != 2 {
			t.Errorf("attempt %d", call.Request.Attempt)
		}
	})
}
