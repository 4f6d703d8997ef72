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
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		gate := w.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindMessageAccepted))
		first := w.tell(talk, say("a", "hello"))
		w.silent(first)

		// What depends on it waits too, although it changes nothing.
		again := w.tell(talk, say("a", "hello"))
		other := w.tell(talk, say("a", "something else"))
		var seen conversation.View
		w.e.View(talk, ada, func(v conversation.View, _ error) { w.journal.Add("answer view"); seen = v })
		w.silent(again)
		w.silent(other)
		if i := w.journal.Index("answer view"); i >= 0 {
			t.Error("a view left before the commit that it shows")
		}
		if w.journal.Index("publish message_accepted") >= 0 || len(w.model.Calls()) > 0 {
			t.Errorf("something was seen before the commit: %v", w.journal.Lines())
		}

		gate.Release()
		w.ok(first)
		if !w.ok(again).Duplicate {
			t.Error("the repetition is not marked as one")
		}
		w.refused(other, conversation.Conflict)
		if seen.Head != 4 || len(seen.Tasks) != 1 {
			t.Errorf("the view is of %d, tasks %v", seen.Head, seen.Tasks)
		}
		order := []int{
			w.journal.Index("answer send"), w.journal.Index("publish message_accepted"), w.journal.Index("model 1.1"),
		}
		if !slices.IsSorted(order) || order[0] < 0 {
			t.Errorf("order %v in %v", order, w.journal.Lines())
		}
		w.reply(actorstest.Text("hi"))
	})
}

func TestGathering(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		gate := w.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindMessageAccepted))
		var answers []*answer
		for i := range 10 {
			answers = append(answers, w.tell(talk, say(fmt.Sprint(i), "text")))
		}
		for _, a := range answers {
			w.silent(a)
		}
		before := len(w.store.Commits())
		gate.Release()
		var last conversation.Seq
		for i, a := range answers {
			r := w.ok(a)
			if r.Seq <= last || r.Message != conversation.MessageID(fmt.Sprintf("m%d-%s", i+1, talk.Session)) {
				t.Errorf("message %d is %+v", i, r)
			}
			last = r.Seq
		}
		if n := len(w.store.Commits()) - before; n != 2 {
			t.Errorf("%d commits for one message and nine behind it, not 2", n)
		}
		w.whole(talk)
		w.reply(actorstest.Text("one"))
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
			inWorld(t, nil, func(t *testing.T, w *world) {
				w.create(talk)
				w.store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) { return c.err, false })
				if err := w.refused(w.tell(talk, say("a", "hello")), c.code); !err.Retryable() {
					t.Error("the refusal is not retryable")
				}
				if w.e.registry.active(talk) {
					t.Error("the session kept its memory")
				}
				if n := len(w.model.Calls()); n != 0 {
					t.Errorf("%d model calls for a message that was not stored", n)
				}
				w.store.FailCommit(nil)
				time.Sleep(w.cfg.FullPause) // the store is taken for full that long
				if r := w.ok(w.tell(talk, say("a", "hello"))); r.Duplicate || r.Disposition != conversation.Started {
					t.Errorf("the repetition got %+v", r)
				}
				w.reply(actorstest.Text("hi"))
				w.whole(talk)
			})
		})
	}
}

// A message that would make the full store fuller is refused at the door; the
// result of running work is not, and neither is a cancel.
func TestFullDoor(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "hello")))
		other := conversation.SessionKey{Tenant: "acme", Session: "bbbbbbbbbbbbbbbb"}
		w.create(other)
		w.store.Fill(persistencetest.Soft)
		w.refused(w.tell(other, say("a", "hello")), conversation.StorageFull)
		w.refused(w.tell(talk, say("b", "more")), conversation.StorageFull)
		if !w.e.registry.active(talk) {
			t.Fatal("a message to a full store took the running session's memory")
		}
		w.ok(w.tell(talk, conversation.Cancel{By: conversation.ByUser}))
		if w.count(talk, conversation.KindTaskStatus) != 2 {
			t.Errorf("%v", kinds(w.stored(talk)))
		}
		w.store.Fill(persistencetest.Roomy)
		w.ok(w.tell(talk, say("b", "more")))
		w.reply(actorstest.Text("at last"))
	})
}

var errLine = errors.New("the line is dead")

func TestUnknownOutcome(t *testing.T) {
	for _, applied := range []bool{true, false} {
		t.Run(fmt.Sprintf("written=%v", applied), func(t *testing.T) {
			inWorld(t, nil, func(t *testing.T, w *world) {
				w.create(talk)
				once := false
				w.store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) {
					if once {
						return nil, false
					}
					once = true
					return errLine, applied
				})
				w.ok(w.tell(talk, say("a", "hello")))
				if w.count(talk, conversation.KindMessageAccepted) != 1 {
					t.Errorf("%v", kinds(w.stored(talk)))
				}
				w.reply(actorstest.Text("hi")) // with the new epoch
				w.whole(talk)
				if w.count(talk, conversation.KindResponse) != 1 {
					t.Errorf("%v", kinds(w.stored(talk)))
				}
			})
		})
	}
	t.Run("never known", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.create(talk)
			w.store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) { return errLine, false })
			a := w.tell(talk, say("a", "hello"))
			w.silent(a)
			time.Sleep(w.cfg.SettleTimeout + time.Second)
			w.refused(a, conversation.Unavailable)
			w.store.FailCommit(nil)
			w.ok(w.tell(talk, say("a", "hello")))
			w.reply(actorstest.Text("hi"))
		})
	})
	t.Run("somebody else took it", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.create(talk)
			w.store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) { return errLine, false })
			a := w.tell(talk, say("a", "hello"))
			w.silent(a)
			if _, err := w.store.Acquire(t.Context(), talk, conversation.AcquireHow{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			w.refused(a, conversation.Unavailable)
		})
	})
}

// N-10: a fenced session stops and does not take the session back by itself;
// its sub-sessions stop with it.
func TestFenced(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "hello")))
		w.reply(actorstest.Use("x", conversation.ToolDelegate, `{"agent":"researcher","objective":"look"}`))
		sub := conversation.SessionKey{Tenant: talk.Tenant, Session: talk.Session + "/d1"}
		if !w.e.registry.active(sub) {
			t.Fatal("the sub-session is not in memory")
		}
		head, err := w.store.Acquire(t.Context(), talk, conversation.AcquireHow{})
		if err != nil {
			t.Fatal(err)
		}
		w.refused(w.tell(talk, say("b", "still there?")), conversation.Unavailable)
		if w.e.registry.active(talk) || w.e.registry.active(sub) {
			t.Error("fenced, and still in memory")
		}
		if len(w.model.Open()) != 0 {
			t.Error("a fenced session's model call goes on")
		}
		if now, _ := w.store.Head(t.Context(), talk); now.Epoch != head.Epoch {
			t.Errorf("epoch %d after %d: it took the session back by itself", now.Epoch, head.Epoch)
		}
		if w.journal.Index("publish message_accepted") < 0 || len(w.pub.Events(talk)) != len(w.stored(talk)) {
			t.Error("something was shown that is not stored")
		}
	})
}

func TestPanic(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		w.e.deps.Publisher = &brokenPublisher{w.pub, true}
		a := w.tell(talk, say("a", "hello"))
		w.ok(a) // it was durable and answered before the publisher broke
		synctest.Wait()
		if w.e.registry.active(talk) {
			t.Error("the session goes on with memory that cannot be trusted")
		}
		w.e.deps.Publisher = w.pub
		if !w.ok(w.tell(talk, say("a", "hello"))).Duplicate {
			t.Error("what was answered is lost")
		}
		w.reply(actorstest.Text("hi"))
	})
}

type brokenPublisher struct {
	conversation.Publisher
	broken bool
}

func (b *brokenPublisher) Publish(conversation.SessionKey, []conversation.Event) { panic("broken") }

func TestSeenIsCoalesced(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		before := len(w.store.Commits())
		var answers []*answer
		for range 5 {
			answers = append(answers, w.tell(talk, conversation.Seen{User: ada, Seq: 1}))
		}
		w.silent(answers[0])
		// Others do not wait for it.
		if v := w.view(talk); v.Head != 1 {
			t.Errorf("head %d", v.Head)
		}
		time.Sleep(w.cfg.SeenEvery)
		for _, a := range answers {
			w.ok(a)
		}
		if n := len(w.store.Commits()) - before; n != 1 {
			t.Errorf("%d commits", n)
		}
		for s, err := range w.store.Sessions(t.Context(), conversation.Page{Tenant: talk.Tenant, For: ada}) {
			if err != nil || s.Seen != 1 {
				t.Errorf("seen %d, %v", s.Seen, err)
			}
		}
	})
}

func TestSnapshots(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.SnapshotEvery = 20
		w.cfg.SnapshotOnIdle = 5
		w.model.Auto = func(conversation.Request) []conversation.Item { return []conversation.Item{actorstest.Text("ok")} }
	}, func(t *testing.T, w *world) {
		w.create(talk)
		for i := range 20 {
			w.ok(w.tell(talk, say(fmt.Sprint(i), "hello")))
		}
		n := 0
		for _, c := range w.store.Commits() {
			if c.Commit.Snapshot != nil {
				n++
				if _, err := conversation.Restore(talk, &w.cfg.Rules, c.Commit.Snapshot); err != nil {
					t.Error(err)
				}
			}
		}
		if events := len(w.stored(talk)); n < events/20-2 || n > events/20 {
			t.Errorf("%d snapshots in %d events", n, events)
		}
		before := len(w.store.Commits())
		time.Sleep(w.cfg.Idle + time.Second)
		synctest.Wait()
		if w.e.registry.active(talk) {
			t.Fatal("still in memory")
		}
		head, _ := w.store.Head(t.Context(), talk)
		if commits := w.store.Commits(); len(commits) > before && head.SnapshotAt != head.Last {
			t.Errorf("the snapshot is at %d of %d", head.SnapshotAt, head.Last)
		}
		if w.ok(w.tell(talk, say("more", "hello"))).Duplicate {
			t.Error("a new message is taken for a repetition")
		}
	})
}

// A snapshot that cannot be used is replaced with the next commit: else every load
// would read the whole log until the next one is due.
func TestUselessSnapshotIsReplaced(t *testing.T) {
	store := &racing{}
	inWorld(t, func(w *world) {
		w.cfg.SnapshotEvery = 20
		w.model.Auto = func(conversation.Request) []conversation.Item { return []conversation.Item{actorstest.Text("ok")} }
		store.Store, w.through = w.store, store
	}, func(t *testing.T, w *world) {
		w.create(talk)
		for i := range 10 {
			w.ok(w.tell(talk, say(fmt.Sprint(i), "hello")))
		}
		w.forget(talk)
		store.onAcquire(func(h *conversation.Head) {
			if h.SnapshotAt == 0 || h.Last-h.SnapshotAt >= 15 {
				t.Errorf("the snapshot is at %d of %d", h.SnapshotAt, h.Last)
			}
			h.Snapshot = []byte("from another time")
		})
		before := len(w.store.Commits())
		w.ok(w.tell(talk, conversation.Update{Title: new("a title")}))
		if commits := w.store.Commits()[before:]; len(commits) != 1 || commits[0].Commit.Snapshot == nil {
			t.Errorf("%d commits, and the first has no snapshot", len(commits))
		}
	})
}
