package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/persistence/postgres/pgtest"
)

// plain is a commit of one event with a key.
func plain(key conversation.SessionKey, h conversation.Head) conversation.Commit {
	seq := h.Last + 1
	return conversation.Commit{
		Epoch: h.Epoch, After: h.Last, ID: conversation.CommitID(fmt.Sprintf("%s.%d.%d", key.Session, h.Epoch, seq)),
		Events: []conversation.Event{{Seq: seq, At: time.UnixMilli(int64(seq)).UTC(), Body: conversation.MessageAccepted{
			Message: "m1-s", ClientMsgID: conversation.ClientMsgID(fmt.Sprintf("c%d", seq)), Author: "alice", Text: "Hello", Disposition: conversation.Joined, Via: conversation.ViaHTTP}}},
		Keys:    []conversation.KeyAt{{Key: conversation.Key{Author: "alice", Client: conversation.ClientMsgID(fmt.Sprintf("c%d", seq))}, Seq: seq}},
		Summary: conversation.Summary{Title: "Title", Agent: "a", Owner: "alice", CreatedAt: time.UnixMilli(1), Activity: time.UnixMilli(int64(seq))},
	}
}

// A server that crashes and comes back, again and again: who commits notices a pause.
// What was acknowledged is there once and in its order, and nothing is there twice.
func TestCommitsOutliveCrashesOfTheServer(t *testing.T) {
	server := pgtest.Open(t, pgtest.Settings{Sync: true})
	dsn := server.NewDatabase(t)
	if _, err := Prepare(t.Context(), dsn, true, nil); err != nil {
		t.Fatal(err)
	}
	s := openOn(t, dsn, func(o *StoreOptions) { o.Patience = time.Minute })
	const sessions, crashes = 12, 3
	stop := make(chan struct{})
	written := make([]int, sessions)
	var all sync.WaitGroup
	progress := make(chan struct{}, 1)
	for i := range sessions {
		key := conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("s%d", i))}
		h, err := s.Acquire(t.Context(), key, conversation.AcquireHow{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := s.Commit(t.Context(), key, plain(key, h)); err != nil {
					t.Errorf("%s: commit after %d: %v", key, h.Last, err)
					return
				}
				h.Last++
				written[i]++
				select {
				case progress <- struct{}{}:
				default:
				}
			}
		})
	}
	for range crashes {
		for range 3 * sessions {
			<-progress
		}
		if err := server.Immediate(); err != nil {
			t.Error(err)
		}
		if err := server.Resume(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for range 3 * sessions {
		<-progress
	}
	close(stop)
	all.Wait()
	for i := range sessions {
		key := conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("s%d", i))}
		n := 0
		for rec, err := range s.Records(t.Context(), key, conversation.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; rec.Events[0].Seq != conversation.Seq(n) {
				t.Fatalf("%s: seq %d is record %d", key, rec.Events[0].Seq, n)
			}
		}
		if n != written[i] {
			t.Errorf("%s: %d commits were acknowledged, %d are there", key, written[i], n)
		}
	}
	if err := s.Health(); err != nil {
		t.Errorf("health after it is over: %v", err)
	}
}

// While the server is away nothing is lost or invented: a commit that gives up says that
// its outcome is unknown, and the store says why it is not well.
func TestOutcomeIsUnknownWhenPatienceRunsOut(t *testing.T) {
	server := pgtest.Open(t, pgtest.Settings{})
	dsn := server.NewDatabase(t)
	if _, err := Prepare(t.Context(), dsn, true, nil); err != nil {
		t.Fatal(err)
	}
	s := openOn(t, dsn, func(o *StoreOptions) { o.Patience = 300 * time.Millisecond })
	key := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	h, err := s.Acquire(t.Context(), key, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	err = s.Commit(t.Context(), key, plain(key, h))
	for _, known := range []error{nil, conversation.ErrFenced, conversation.ErrConflict, conversation.ErrFull, conversation.ErrUnread, conversation.ErrClosed, context.Canceled} {
		if errors.Is(err, known) {
			t.Errorf("a commit to a frozen server: %v", err)
		}
	}
	if s.Health() == nil {
		t.Error("the store says that it is well")
	}
	if !s.MayHold(key, plain(key, h).Keys[0].Key) {
		t.Error("a key that may be stored is said not to be")
	}
	if err := server.Thaw(); err != nil {
		t.Fatal(err)
	}
	for tries := 0; s.Health() != nil; tries++ { // it asks: nothing else does
		if tries == 50 {
			t.Fatalf("the store stays unwell: %v", s.Health())
		}
	}
	again, err := s.Acquire(t.Context(), key, conversation.AcquireHow{IfEpoch: h.Epoch})
	for tries := 0; err != nil && !errors.Is(err, conversation.ErrFenced) && tries < 50; tries++ {
		again, err = s.Acquire(t.Context(), key, conversation.AcquireHow{IfEpoch: h.Epoch})
	}
	if err != nil {
		t.Fatal(err)
	}
	if written := again.LastCommit == plain(key, h).ID; written != (again.Last == 1) {
		t.Errorf("the commit's id is there: %v, and the last seq is %d", written, again.Last)
	}
	if err := s.Commit(t.Context(), key, plain(key, again)); err != nil && again.Last == 0 {
		t.Errorf("the commit again: %v", err)
	}
}
