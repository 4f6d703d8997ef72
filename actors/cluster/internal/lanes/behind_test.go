package lanes

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
)

// by is a job whose answers the test gives: each send waits for one.
type by struct {
	l     *Lanes
	lines []string
	sent  []func(error)
}

func (w *by) do(name string) {
	w.l.Do(k, &Job{
		Send: func(_ conversation.Member, _ Turn, done func(error)) { w.sent = append(w.sent, done) },
		Done: func(error) {
			w.lines = append(w.lines, name)
			if name == "asks" { // the answer is given just now: it counts as not given
				w.behind(b, "behind asks")
			}
		},
	})
}

// behind notes when it is done; false = there is nothing to wait for.
func (w *by) behind(from conversation.Member, name string) bool {
	return w.l.Behind(k, from, func() { w.lines = append(w.lines, name) })
}

func (w *by) answer(i int, err error) { w.sent[i](err) }

// What is done behind the answers is done once, when all that was asked of others before is
// answered, and said; what is asked later is not waited for.
func TestBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nobody conversation.Member
		owner := a
		w := &by{l: New(Options{
			Owner: func(conversation.SessionKey) (conversation.Member, bool) { return owner, true }, Timeout: time.Minute, MaxJobs: 100, MaxBytes: 1000,
		})}
		check := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(w.lines, want) {
				t.Errorf("%q, want %q", w.lines, want)
			}
			w.lines = nil
		}
		waits := func(from conversation.Member, name string, want bool) {
			t.Helper()
			if got := w.behind(from, name); got != want {
				t.Errorf("behind the answers of others than %q it waits: %v", from.Node, got)
			}
		}
		waits(nobody, "nothing was asked", false)
		w.do("one")
		w.do("two")
		waits(a, "of who was asked", false)
		waits(b, "of another", true)
		waits(nobody, "of the store", true)
		w.do("three")
		w.answer(1, nil)
		check("two")
		w.answer(0, nil)
		check("one", "of another", "of the store")
		waits(b, "once more", true)
		w.answer(2, nil)
		check("three", "once more")
		waits(b, "all is answered", false)

		w.do("asks") // it asks while it is answered
		w.answer(3, nil)
		check("asks", "behind asks")

		w.do("again") // it may be done, though its answer was lost
		owner = b
		w.answer(4, &UnreachableError{To: a})
		waits(a, "of who may have done it", true)
		time.Sleep(time.Second)
		synctest.Wait()
		waits(b, "of who is asked now", true)
		w.answer(5, nil)
		check("again", "of who may have done it", "of who is asked now")

		w.do("late")
		w.answer(6, &AwayError{})
		waits(b, "behind late", true)
		w.do("never sent")
		w.l.Close()
		check("late", "behind late", "never sent")
		for i := range w.l.shards {
			if n := len(w.l.shards[i].lanes); n > 0 && !w.l.shards[i].closed {
				t.Errorf("%d lanes are left", n)
			}
		}
	})
}

// A lane that is left behind takes no other one of the same session with it.
func TestLanesAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &by{l: New(Options{
			Owner: func(conversation.SessionKey) (conversation.Member, bool) { return a, true }, Timeout: time.Minute, MaxJobs: 100, MaxBytes: 1000,
		})}
		for i := range 3 {
			w.do("x")
			w.answer(i, nil)
		}
		if n := len(w.l.shard(k).lanes); n != 0 {
			t.Errorf("%d lanes are left", n)
		}
	})
}
