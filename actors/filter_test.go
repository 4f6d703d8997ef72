package actors

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"parley/conversation"
	"parley/persistence/persistencetest"
)

// countedFinds is a store that counts how often it is asked for keys.
type countedFinds struct {
	conversation.Store
	finds atomic.Int64
}

func (s *countedFinds) Find(ctx context.Context, key conversation.SessionKey, keys []conversation.Key) ([]conversation.Seq, error) {
	s.finds.Add(1)
	return s.Store.Find(ctx, key, keys)
}

func withCountedFinds(t *testing.T, f func(t *testing.T, h *harness, store *countedFinds)) {
	t.Helper()
	store := &countedFinds{}
	withHarness(t, func(h *harness) { store.Store, h.through = h.store, store }, func(t *testing.T, h *harness) { f(t, h, store) })
}

func note(i int) conversation.AddPart {
	return conversation.AddPart{Author: ada, ClientMsgID: conversation.ClientMsgID(fmt.Sprint("n", i)), Text: "x"}
}

// A key that the store's filter does not know is new: the command is decided at once,
// also while a commit is under way, and the disk is not asked.
func TestFilterInsteadOfALookUp(t *testing.T) {
	withCountedFinds(t, func(t *testing.T, h *harness, store *countedFinds) {
		h.create(mainKey)
		for i := range 300 { // more than a session remembers by itself
			h.ok(h.tell(mainKey, note(i)))
		}
		gate := h.store.Hold(persistencetest.BeforeWrite, nil)
		first := h.tell(mainKey, note(300))
		sourced := h.tell(mainKey, conversation.AddPart{Author: ada, Source: "build-7", Text: "done"})
		last := h.tell(mainKey, note(301))
		synctest.Wait()
		before := len(h.store.Commits())
		gate.Release()
		for _, a := range []*answer{first, sourced, last} {
			if r := h.ok(a); r.Duplicate {
				t.Errorf("%+v is new", r)
			}
		}
		if n := len(h.store.Commits()) - before; n != 2 {
			t.Errorf("three commands made %d commits: one waited for the other", n)
		}
		if n := store.finds.Load(); n != 0 {
			t.Errorf("the store was asked %d times for new keys", n)
		}
		if r := h.ok(h.tell(mainKey, note(0))); !r.Duplicate || store.finds.Load() != 1 {
			t.Errorf("one of 301 ago: %+v after %d questions", r, store.finds.Load())
		}
	})
}

// What is repeated while its commit is under way, or waits for its turn, is in no filter
// yet, and the session does not remember it either: parts with a source it never does,
// and of clients' ids the last 256. It is known all the same.
func TestRepetitionBeforeItsCommitHasEnded(t *testing.T) {
	sourced := conversation.AddPart{Author: ada, Source: "build-7", Text: "done"}
	for name, of := range map[string]struct {
		say  conversation.AddPart
		more int // other commands between the two
	}{
		"a part with a source": {sourced, 0},
		"a client's id":        {note(0), 300},
		"of a part far behind": {sourced, 300},
	} {
		for _, moment := range []persistencetest.Moment{persistencetest.BeforeWrite, persistencetest.AfterWrite} {
			for _, place := range []string{"in flight", "pending"} {
				t.Run(fmt.Sprint(name, " ", place, " ", moment), func(t *testing.T) {
					withCountedFinds(t, func(t *testing.T, h *harness, _ *countedFinds) {
						h.create(mainKey)
						for i := range 257 { // from now on the session has forgotten ids
							h.ok(h.tell(mainKey, note(1000+i)))
						}
						gate := h.store.Hold(moment, nil)
						if place == "pending" {
							h.tell(mainKey, note(999))
							synctest.Wait()
						}
						first := h.tell(mainKey, of.say)
						synctest.Wait()
						var others []*answer
						for i := range of.more {
							others = append(others, h.tell(mainKey, note(1+i)))
						}
						again := h.tell(mainKey, of.say)
						h.silent(again)
						gate.Release()
						a, b := h.ok(first), h.ok(again)
						if a.Duplicate || !b.Duplicate || a.Seq != b.Seq {
							t.Errorf("%+v, then %+v", a, b)
						}
						for _, other := range others {
							h.ok(other)
						}
						h.assertComplete(mainKey)
					})
				})
			}
		}
	}
}
