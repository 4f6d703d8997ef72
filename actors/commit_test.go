package actors

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/conversation/listing"
	"parley/conversation/machine"
	"parley/persistence/persistencetest"
)

// holds matches a commit that holds an event of this kind.
func holds(kind conversation.EventKind) func(conversation.SessionKey, conversation.Commit) bool {
	return func(_ conversation.SessionKey, c conversation.Commit) bool {
		return slices.ContainsFunc(c.Events, func(e conversation.Event) bool { return e.Body.Kind() == kind })
	}
}

// N-01: a message is acknowledged only after it is on disk, D-10: and shown only
// then. Answer first, then the events, then what they call for.
func TestReplyBarrier(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		gate := h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindMessageAccepted))
		first := h.tell(mainKey, say("a", "hello"))
		h.silent(first)

		// What depends on it waits too, although it changes nothing.
		again := h.tell(mainKey, say("a", "hello"))
		other := h.tell(mainKey, say("a", "something else"))
		var seen conversation.View
		h.e.View(mainKey, ada, func(v conversation.View, _ error) { h.journal.Add("answer view"); seen = v })
		h.silent(again)
		h.silent(other)
		if i := h.journal.Index("answer view"); i >= 0 {
			t.Error("a view left before the commit that it shows")
		}
		if h.journal.Index("publish message_accepted") >= 0 || len(h.model.Calls()) > 0 {
			t.Errorf("something was seen before the commit: %v", h.journal.Lines())
		}

		gate.Release()
		h.ok(first)
		if !h.ok(again).Duplicate {
			t.Error("the repetition is not marked as one")
		}
		h.refused(other, conversation.Conflict)
		if seen.Head != 4 || len(seen.Tasks) != 1 {
			t.Errorf("the view is of %d, tasks %v", seen.Head, seen.Tasks)
		}
		order := []int{
			h.journal.Index("answer send"), h.journal.Index("publish message_accepted"), h.journal.Index("model 1.1"),
		}
		if !slices.IsSorted(order) || order[0] < 0 {
			t.Errorf("order %v in %v", order, h.journal.Lines())
		}
		h.reply(actorstest.Text("hi"))
	})
}

func TestGathering(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		gate := h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindMessageAccepted))
		var answers []*answer
		for i := range 10 {
			answers = append(answers, h.tell(mainKey, say(fmt.Sprint(i), "text")))
		}
		for _, a := range answers {
			h.silent(a)
		}
		before := len(h.store.Commits())
		gate.Release()
		var last conversation.Seq
		for i, a := range answers {
			r := h.ok(a)
			if r.Seq <= last || r.Message != conversation.MessageID(fmt.Sprintf("m%d-%s", i+1, mainKey.Session)) {
				t.Errorf("message %d is %+v", i, r)
			}
			last = r.Seq
		}
		if n := len(h.store.Commits()) - before; n != 2 {
			t.Errorf("%d commits for one message and nine behind it, not 2", n)
		}
		h.assertComplete(mainKey)
		h.reply(actorstest.Text("one"))
	})
}

func TestFailedCommit(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		code conversation.Code
	}{
		{"full", conversation.ErrFull, conversation.StorageFull},
		{"conflict", conversation.ErrConflict, conversation.Unavailable},
		{"closed", conversation.ErrClosed, conversation.Unavailable},
		{"fenced", conversation.ErrFenced, conversation.Unavailable},
		{"duplicate", &conversation.DuplicateError{Key: conversation.Key{Author: ada, Client: "a"}, Seq: 2}, conversation.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			withHarness(t, nil, func(t *testing.T, h *harness) {
				h.create(mainKey)
				h.store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) { return c.err, false })
				if err := h.refused(h.tell(mainKey, say("a", "hello")), c.code); !err.Retryable() {
					t.Error("the refusal is not retryable")
				}
				if h.active(mainKey) {
					t.Error("the session kept its memory")
				}
				if n := len(h.model.Calls()); n != 0 {
					t.Errorf("%d model calls for a message that was not stored", n)
				}
				h.store.FailCommit(nil)
				time.Sleep(h.cfg.FullPause) // the store is taken for full that long
				if r := h.ok(h.tell(mainKey, say("a", "hello"))); r.Duplicate || r.Disposition != conversation.Started {
					t.Errorf("the repetition got %+v", r)
				}
				h.reply(actorstest.Text("hi"))
				h.assertComplete(mainKey)
			})
		})
	}
}

// After a failed commit the work that was open goes on soon, not with the next regular scan.
func TestFailedCommitGoesOn(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		time.Sleep(h.cfg.DueEvery + time.Millisecond) // the next scan is as far away as can be
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		stopped := h.call()
		h.store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) {
			return conversation.ErrConflict, false
		})
		h.refused(h.tell(mainKey, say("b", "and this")), conversation.Unavailable)
		h.store.FailCommit(nil)
		if !stopped.Over() {
			t.Error("the model call goes on although its session has left")
		}
		time.Sleep(2 * time.Second)
		h.reply(actorstest.Text("hi"))
		h.assertComplete(mainKey)
	})
}

// A message that would make the full store fuller is refused at the door; the
// result of running work is not, and neither is a cancel.
func TestFullDoor(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		other := conversation.SessionKey{Tenant: "acme", Session: "bbbbbbbbbbbbbbbb"}
		h.create(other)
		h.store.Fill(persistencetest.Soft)
		h.refused(h.tell(other, say("a", "hello")), conversation.StorageFull)
		h.refused(h.tell(mainKey, say("b", "more")), conversation.StorageFull)
		if !h.active(mainKey) {
			t.Fatal("a message to a full store took the running session's memory")
		}
		h.ok(h.tell(mainKey, conversation.Cancel{By: conversation.ByUser}))
		if h.count(mainKey, conversation.KindTaskStatus) != 2 {
			t.Errorf("%v", kinds(h.stored(mainKey)))
		}
		h.store.Fill(persistencetest.Roomy)
		h.ok(h.tell(mainKey, say("b", "more")))
		h.reply(actorstest.Text("at last"))
	})
}

var errLine = errors.New("the line is dead")

func TestUnknownOutcome(t *testing.T) {
	for _, applied := range []bool{true, false} {
		t.Run(fmt.Sprintf("written=%v", applied), func(t *testing.T) {
			withHarness(t, nil, func(t *testing.T, h *harness) {
				h.create(mainKey)
				once := false
				h.store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) {
					if once {
						return nil, false
					}
					once = true
					return errLine, applied
				})
				h.ok(h.tell(mainKey, say("a", "hello")))
				if h.count(mainKey, conversation.KindMessageAccepted) != 1 {
					t.Errorf("%v", kinds(h.stored(mainKey)))
				}
				h.reply(actorstest.Text("hi")) // with the new epoch
				h.assertComplete(mainKey)
				if h.count(mainKey, conversation.KindResponse) != 1 {
					t.Errorf("%v", kinds(h.stored(mainKey)))
				}
			})
		})
	}
	t.Run("never known", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			h.create(mainKey)
			h.store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) { return errLine, false })
			a := h.tell(mainKey, say("a", "hello"))
			h.silent(a)
			time.Sleep(h.cfg.SettleTimeout + time.Second)
			h.refused(a, conversation.Unavailable)
			h.store.FailCommit(nil)
			h.ok(h.tell(mainKey, say("a", "hello")))
			h.reply(actorstest.Text("hi"))
		})
	})
	t.Run("another writer took it", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			h.create(mainKey)
			h.store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) { return errLine, false })
			a := h.tell(mainKey, say("a", "hello"))
			h.silent(a)
			if _, err := h.store.Acquire(t.Context(), mainKey, conversation.AcquireHow{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			h.refused(a, conversation.Unavailable)
		})
	})
}

// N-10: a fenced session stops and does not take the session back by itself;
// its sub-sessions stop with it.
func TestFenced(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		h.reply(actorstest.Use("x", conversation.ToolDelegate, `{"agent":"researcher","objective":"look"}`))
		sub := conversation.SessionKey{Tenant: mainKey.Tenant, Session: mainKey.Session + "/d1"}
		if !h.active(sub) {
			t.Fatal("the sub-session is not in memory")
		}
		head, err := h.store.Acquire(t.Context(), mainKey, conversation.AcquireHow{})
		if err != nil {
			t.Fatal(err)
		}
		h.refused(h.tell(mainKey, say("b", "still there?")), conversation.Unavailable)
		if h.active(mainKey) || h.active(sub) {
			t.Error("fenced, and still in memory")
		}
		if len(h.model.Open()) != 0 {
			t.Error("a fenced session's model call goes on")
		}
		if now, _ := h.store.Head(t.Context(), mainKey); now.Epoch != head.Epoch {
			t.Errorf("epoch %d after %d: it took the session back by itself", now.Epoch, head.Epoch)
		}
		if h.journal.Index("publish message_accepted") < 0 || len(h.pub.Events(mainKey)) != len(h.stored(mainKey)) {
			t.Error("something was shown that is not stored")
		}
	})
}

// A panic while events are published ends nothing: followers read them from the log.
func TestPublisherPanics(t *testing.T) {
	withFuse(t, func(t *testing.T, h *harness, p *fuse) {
		h.create(mainKey)
		p.set("Publish", 1)
		h.ok(h.tell(mainKey, say("a", "hello"))) // it was durable and answered before
		if p.blown != 1 || !h.active(mainKey) {
			t.Error("a publisher's panic is not the session's")
		}
		h.assertComplete(mainKey)
		time.Sleep(time.Second)
		if h.count(mainKey, conversation.KindResponse) != 1 {
			t.Error("the session does not go on")
		}
		h.assertComplete(mainKey)
	})
}

func TestSeenIsCoalesced(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		before := len(h.store.Commits())
		var answers []*answer
		for range 5 {
			answers = append(answers, h.tell(mainKey, conversation.Seen{User: ada, Seq: 1}))
		}
		h.silent(answers[0])
		// Others do not wait for it.
		if v := h.view(mainKey); v.Head != 1 {
			t.Errorf("head %d", v.Head)
		}
		time.Sleep(h.cfg.SeenEvery)
		for _, a := range answers {
			h.ok(a)
		}
		if n := len(h.store.Commits()) - before; n != 1 {
			t.Errorf("%d commits", n)
		}
		for s, err := range h.store.Sessions(t.Context(), conversation.Page{Tenant: mainKey.Tenant, For: ada}) {
			if err != nil || s.Seen != 1 {
				t.Errorf("seen %d, %v", s.Seen, err)
			}
		}
	})
}

// What a user marks the session with is stored before the answer, and waits for no other
// commit; a read cursor that waits goes along.
func TestMarksAreStoredAtOnce(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		before, at := len(h.store.Commits()), time.Now()
		seen := h.tell(mainKey, conversation.Seen{User: ada, Seq: 1})
		h.silent(seen)
		for range 2 {
			h.ok(h.tell(mainKey, conversation.Mark{User: ada, Marking: listing.Marking{Set: listing.Pinned}}))
			h.ok(seen)
		}
		if n := len(h.store.Commits()) - before; n != 2 || time.Since(at) >= h.cfg.SeenEvery {
			t.Errorf("%d commits, after %s", n, time.Since(at))
		}
		h.ok(h.tell(mainKey, conversation.Close{}))
		h.ok(h.tell(mainKey, conversation.Mark{User: ada, Marking: listing.Marking{Set: listing.Archived, Unset: listing.Pinned}}))
		for s, err := range h.store.Sessions(t.Context(), conversation.Page{Tenant: mainKey.Tenant, For: ada}) {
			if err != nil || s.Seen != 1 || s.Marks != listing.Archived {
				t.Errorf("seen %d, marks %b, %v", s.Seen, s.Marks, err)
			}
		}
		if v := h.view(mainKey); v.Head != 2 {
			t.Errorf("head %d: marks are no events", v.Head)
		}
	})
}

// Of several read cursors of one user that are stored together the highest counts,
// whatever order they came in.
func TestSeenGoesForward(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, conversation.Update{Title: new("a title")}))
		before := len(h.store.Commits())
		for _, seq := range []conversation.Seq{1, 2, 1} {
			h.silent(h.tell(mainKey, conversation.Seen{User: ada, Seq: seq}))
		}
		time.Sleep(h.cfg.SeenEvery)
		synctest.Wait()
		if n := len(h.store.Commits()) - before; n != 1 {
			t.Fatalf("%d commits", n)
		}
		for s, err := range h.store.Sessions(t.Context(), conversation.Page{Tenant: mainKey.Tenant, For: ada}) {
			if err != nil || s.Seen != 2 {
				t.Errorf("seen %d, %v", s.Seen, err)
			}
		}
	})
}

func TestSnapshots(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.cfg.SnapshotEvery = 20
		h.cfg.SnapshotOnIdle = 5
		h.model.Auto = func(conversation.Request) []conversation.Item { return []conversation.Item{actorstest.Text("ok")} }
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		for i := range 20 {
			h.ok(h.tell(mainKey, say(fmt.Sprint(i), "hello")))
		}
		n := 0
		for _, c := range h.store.Commits() {
			if c.Commit.Snapshot != nil {
				n++
				if _, err := machine.Restore(mainKey, &h.cfg.Rules, c.Commit.Snapshot); err != nil {
					t.Error(err)
				}
			}
		}
		if events := len(h.stored(mainKey)); n < events/20-2 || n > events/20 {
			t.Errorf("%d snapshots in %d events", n, events)
		}
		before := len(h.store.Commits())
		time.Sleep(h.cfg.Idle + time.Second)
		synctest.Wait()
		if h.active(mainKey) {
			t.Fatal("still in memory")
		}
		head, _ := h.store.Head(t.Context(), mainKey)
		if commits := h.store.Commits(); len(commits) > before && head.SnapshotAt != head.Last {
			t.Errorf("the snapshot is at %d of %d", head.SnapshotAt, head.Last)
		}
		if h.ok(h.tell(mainKey, say("more", "hello"))).Duplicate {
			t.Error("a new message is taken for a repetition")
		}
	})
}

// A snapshot that cannot be used is replaced with the next commit: else every load
// would read the whole log until the next one is due.
func TestUselessSnapshotIsReplaced(t *testing.T) {
	store := &racing{}
	withHarness(t, func(h *harness) {
		h.cfg.SnapshotEvery = 20
		h.model.Auto = func(conversation.Request) []conversation.Item { return []conversation.Item{actorstest.Text("ok")} }
		store.Store, h.through = h.store, store
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		for i := range 10 {
			h.ok(h.tell(mainKey, say(fmt.Sprint(i), "hello")))
		}
		h.forget(mainKey)
		store.onAcquire(func(h *conversation.Head) {
			if h.SnapshotAt == 0 || h.Last-h.SnapshotAt >= 15 {
				t.Errorf("the snapshot is at %d of %d", h.SnapshotAt, h.Last)
			}
			h.Snapshot = []byte("from another time")
		})
		before := len(h.store.Commits())
		h.ok(h.tell(mainKey, conversation.Update{Title: new("a title")}))
		if commits := h.store.Commits()[before:]; len(commits) != 1 || commits[0].Commit.Snapshot == nil {
			t.Errorf("%d commits, and the first has no snapshot", len(commits))
		}
	})
}
