package actors

import (
	"fmt"
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

// The key of an erased session stays taken: a user who opens a session by it is
// told so, instead of being told that there is none.
func TestCreateAfterErase(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		if err := h.e.Erase(t.Context(), mainKey, ada); err != nil {
			t.Fatal(err)
		}
		var failed error
		h.e.Create(mainKey, conversation.Create{Owner: ada}, func(_ bool, err error) { failed = err })
		synctest.Wait()
		if failed == nil || conversation.AsError(failed).Code != conversation.Conflict {
			t.Errorf("%v", failed)
		}
		h.refused(h.tell(mainKey, say("a", "hello")), conversation.NotFound)
	})
}
