package fanout

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"parley/gateway/protocol"
)

// What is offered waits until the queue is half empty, and then comes in order, behind all that
// went before; it never makes the queue longer than that, nor holds an answer back.
func TestOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := protocol.DefaultLimits()
		limits.QueueFrames = 10
		q := NewHub(nil).NewQueue(nil, limits)
		frame := func(n byte) func([]byte) []byte { return func(b []byte) []byte { return append(b, n) } }
		done := make(chan error, 1)
		go func() {
			for n := range byte(100) {
				if err := q.Offer(t.Context(), frame(n)); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		synctest.Wait()
		if q.frames > limits.QueueFrames/2+1 {
			t.Errorf("%d frames wait", q.frames)
		}
		q.Answer(frame(200)) // is not held back
		var got []byte
		for len(got) < 101 {
			taken := q.Take(t.Context(), nil)
			for b := taken.Data; len(b) > 0; {
				var payload []byte
				_, payload, b = protocol.NextFrame(b)
				got = append(got, payload...)
			}
			if taken.Frames == 0 {
				<-q.Wake()
			}
			synctest.Wait()
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		next := byte(0)
		for i, n := range got {
			switch {
			case n == 200 && i <= limits.QueueFrames:
			case n == next:
				next++
			default:
				t.Fatalf("%v", got)
			}
		}
	})
}

// Who offers is let go when the context ends, when the queue is given up and when it is finished.
func TestOfferEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, x := range map[string]struct {
			end  func(*Queue)
			want error
		}{
			"context":  {func(*Queue) {}, context.DeadlineExceeded},
			"given up": {(*Queue).Abandon, ErrQueueEnded},
			"finished": {func(q *Queue) { q.Finish(protocol.CloseFrame(1000, "")) }, ErrQueueEnded},
		} {
			limits := protocol.DefaultLimits()
			limits.QueueFrames = 1
			q := NewHub(nil).NewQueue(nil, limits)
			offered := make(chan error)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			go func() {
				var err error
				for err == nil {
					err = q.Offer(ctx, func(b []byte) []byte { return append(b, 'x') })
				}
				offered <- err
			}()
			synctest.Wait()
			x.end(q)
			if err := <-offered; !errors.Is(err, x.want) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
	})
}
