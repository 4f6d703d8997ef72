package actors

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
)

// N-06: a cancel with a client's id is answered as the first time, also by a
// session that has been away, and by one that must ask the store for the id. What
// runs by then goes on.
func TestCancelIsRepeated(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		stop := conversation.Cancel{By: conversation.ByUser, Author: ada, ClientMsgID: "stop", Reason: "enough"}
		h.ok(h.tell(mainKey, say("a", "hello")))
		h.call()
		first := h.ok(h.tell(mainKey, stop))
		h.ok(h.tell(mainKey, say("b", "hello again")))
		again := func(when string) {
			t.Helper()
			r := h.ok(h.tell(mainKey, stop))
			if !r.Duplicate || r.Task != first.Task {
				t.Errorf("%s: %+v", when, r)
			}
			h.refused(h.tell(mainKey, conversation.Cancel{By: conversation.ByUser, Author: ada, ClientMsgID: "stop"}), conversation.Conflict)
			h.refused(h.tell(mainKey, say("stop", "enough")), conversation.Conflict)
			if n := h.count(mainKey, conversation.KindTaskCancelling); n != 1 {
				t.Errorf("%s: %d cancels", when, n)
			}
		}
		again("at once")
		h.reply(actorstest.Text("hi"))
		time.Sleep(h.cfg.Idle + time.Minute)
		synctest.Wait()
		again("after a rest")
		for i := range 300 { // more than a session remembers by itself
			h.ok(h.tell(mainKey, conversation.AddPart{Author: ada, ClientMsgID: conversation.ClientMsgID(fmt.Sprint("n", i)), Text: "x"}))
		}
		h.ok(h.tell(mainKey, say("c", "and again")))
		h.call()
		again("long after")
		h.reply(actorstest.Text("hi"))
	})
}

// M-14, M-18: a plain message of an outside runtime is repeatable by its client's
// id, and nothing else of it is a key.
func TestPlainPartIsRepeated(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		note := conversation.AddPart{Author: ada, ClientMsgID: "n", Text: "a note"}
		a, b := h.tell(mainKey, note), h.tell(mainKey, note)
		first, second := h.ok(a), h.ok(b)
		if first.Duplicate || !second.Duplicate || first.Message != second.Message {
			t.Errorf("%+v, then %+v", first, second)
		}
		for i := range 300 {
			h.ok(h.tell(mainKey, conversation.AddPart{Author: ada, ClientMsgID: conversation.ClientMsgID(fmt.Sprint("n", i)), Text: "x"}))
		}
		if r := h.ok(h.tell(mainKey, note)); !r.Duplicate || r.Message != first.Message || r.Seq != first.Seq {
			t.Errorf("long after: %+v, first %+v", r, first)
		}
		h.refused(h.tell(mainKey, conversation.AddPart{Author: ada, ClientMsgID: "n", Text: "another"}), conversation.Conflict)
		h.refused(h.tell(mainKey, say("n", "a note")), conversation.Conflict)
		if n := h.count(mainKey, conversation.KindPartialResponse); n != 301 {
			t.Errorf("%d parts", n)
		}
	})
}

// The name of an erased session is free: under its key a new session is opened, with
// an id of its own, and who opens it again finds that one. Nothing that is told to the
// erased one reaches it.
func TestCreateAfterErase(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		open := func(created bool) conversation.SessionKey {
			t.Helper()
			var key conversation.SessionKey
			var made bool
			var failed error
			h.e.Create(mainKey, conversation.Create{Owner: ada}, func(k conversation.SessionKey, ok bool, err error) { key, made, failed = k, ok, err })
			synctest.Wait()
			if failed != nil || made != created {
				t.Fatalf("created %v, %v", made, failed)
			}
			return key
		}
		var before []conversation.SessionKey
		for n := range 5 {
			key := open(true)
			if n == 0 && key != mainKey || slices.Contains(before, key) {
				t.Fatalf("session %d of the name is %s, after %v", n, key, before)
			}
			if again := open(false); again != key {
				t.Fatalf("opened again it is %s instead of %s", again, key)
			}
			h.ok(h.tell(key, say("a", fmt.Sprint("hello ", n)))) // the same client id, another text
			for _, old := range before {
				h.refused(h.tell(old, say("b", "late")), conversation.NotFound)
			}
			h.forget(key)
			if again := open(false); again != key {
				t.Fatalf("opened from the store it is %s instead of %s", again, key)
			}
			if err := h.e.Erase(t.Context(), key, ada); err != nil {
				t.Fatal(err)
			}
			before = append(before, key)
		}
		if gone := h.pub.Erased(); !slices.Equal(gone, before) {
			t.Errorf("followers of %v were told that it is gone, of %v", gone, before)
		}
	})
}

// However sessions of one name are opened and erased at the same time: all who open
// it between two erasures get the same session, which nobody has erased before.
func TestCreateBesideErase(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		type opened struct {
			key     conversation.SessionKey
			created bool
		}
		var mu sync.Mutex
		made := map[conversation.SessionKey]int{}
		for round := range 30 {
			var all []opened
			open := func() {
				h.e.Create(mainKey, conversation.Create{Owner: ada}, func(key conversation.SessionKey, created bool, err error) {
					mu.Lock()
					defer mu.Unlock()
					switch refused := conversation.AsError(err); {
					case err == nil:
						all = append(all, opened{key, created})
						if created {
							made[key]++
						}
					case !refused.Retryable():
						t.Errorf("round %d: %v", round, err)
					}
				})
			}
			open()
			synctest.Wait()
			if len(all) != 1 {
				t.Fatalf("round %d: %d were answered", round, len(all))
			}
			last := all[0].key
			for i := range 8 {
				if i == 4 {
					go func() {
						if err := h.e.Erase(t.Context(), last, ada); err != nil {
							t.Error(err)
						}
					}()
				}
				go open()
			}
			synctest.Wait()
			distinct := map[conversation.SessionKey]bool{}
			for _, o := range all {
				distinct[o.key] = true
			}
			if len(distinct) > 2 {
				t.Errorf("round %d: %v", round, all)
			}
		}
		for key, n := range made {
			if n != 1 {
				t.Errorf("%s was made %d times", key, n)
			}
		}
		if len(made) < 30 {
			t.Errorf("%d sessions were made: too few were erased, the test shows little", len(made))
		}
	})
}
