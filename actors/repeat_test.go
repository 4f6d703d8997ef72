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
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		stop := conversation.Cancel{By: conversation.ByUser, Author: ada, ClientMsgID: "stop", Reason: "enough"}
		w.ok(w.tell(talk, say("a", "hello")))
		w.call()
		first := w.ok(w.tell(talk, stop))
		w.ok(w.tell(talk, say("b", "hello again")))
		again := func(when string) {
			t.Helper()
			r := w.ok(w.tell(talk, stop))
			if !r.Duplicate || r.Task != first.Task {
				t.Errorf("%s: %+v", when, r)
			}
			w.refused(w.tell(talk, conversation.Cancel{By: conversation.ByUser, Author: ada, ClientMsgID: "stop"}), conversation.Conflict)
			w.refused(w.tell(talk, say("stop", "enough")), conversation.Conflict)
			if n := w.count(talk, conversation.KindTaskCancelling); n != 1 {
				t.Errorf("%s: %d cancels", when, n)
			}
		}
		again("at once")
		w.reply(actorstest.Text("hi"))
		time.Sleep(w.cfg.Idle + time.Minute)
		synctest.Wait()
		again("after a rest")
		for i := range 300 { // more than a session remembers by itself
			w.ok(w.tell(talk, conversation.AddPart{Author: ada, ClientMsgID: conversation.ClientMsgID(fmt.Sprint("n", i)), Text: "x"}))
		}
		w.ok(w.tell(talk, say("c", "and again")))
		w.call()
		again("long after")
		w.reply(actorstest.Text("hi"))
	})
}

// M-14, M-18: a plain message of an outside runtime is repeatable by its client's
// id, and nothing else of it is a key.
func TestPlainPartIsRepeated(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		note := conversation.AddPart{Author: ada, ClientMsgID: "n", Text: "a note"}
		a, b := w.tell(talk, note), w.tell(talk, note)
		first, second := w.ok(a), w.ok(b)
		if first.Duplicate || !second.Duplicate || first.Message != second.Message {
			t.Errorf("%+v, then %+v", first, second)
		}
		for i := range 300 {
			w.ok(w.tell(talk, conversation.AddPart{Author: ada, ClientMsgID: conversation.ClientMsgID(fmt.Sprint("n", i)), Text: "x"}))
		}
		if r := w.ok(w.tell(talk, note)); !r.Duplicate || r.Message != first.Message || r.Seq != first.Seq {
			t.Errorf("long after: %+v, first %+v", r, first)
		}
		w.refused(w.tell(talk, conversation.AddPart{Author: ada, ClientMsgID: "n", Text: "another"}), conversation.Conflict)
		w.refused(w.tell(talk, say("n", "a note")), conversation.Conflict)
		if n := w.count(talk, conversation.KindPartialResponse); n != 301 {
			t.Errorf("%d parts", n)
		}
	})
}

// The key of an erased session is taken for ever: whoever names a session by it is
// told so, instead of being told that there is none.
func TestCreateAfterErase(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		if err := w.e.Erase(t.Context(), talk, ada); err != nil {
			t.Fatal(err)
		}
		var failed error
		w.e.Create(talk, conversation.Create{Owner: ada}, func(_ bool, err error) { failed = err })
		synctest.Wait()
		if failed == nil || conversation.AsError(failed).Code != conversation.Conflict {
			t.Errorf("%v", failed)
		}
		w.refused(w.tell(talk, say("a", "hello")), conversation.NotFound)
	})
}
