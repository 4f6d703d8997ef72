package cluster_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"parley/actors/cluster"
	"parley/conversation"
	"parley/conversation/member"
	"parley/persistence/persistencetest"
)

// tooNew is a store whose records only a newer program can read.
type tooNew struct{ conversation.Store }

func (tooNew) Records(_ context.Context, key conversation.SessionKey, _ conversation.Range) iter.Seq2[conversation.Record, error] {
	return func(yield func(conversation.Record, error) bool) {
		yield(conversation.Record{}, fmt.Errorf("event 1 of %s: %w", key, conversation.ErrTooNew))
	}
}

func knows(f member.Feature) func(*cluster.Options) {
	return func(o *cluster.Options) { o.Feature = f }
}

// A session that the node of an older program cannot read is served by one that can, whoever
// is asked; if there is none, clients are told what is needed.
func TestNewerMemberServesWhatOneCannotRead(t *testing.T) {
	const sessions = 8
	store := persistencetest.NewMemory()
	first := start(t, store, "first", knows(1))
	for i := range sessions {
		if _, err := first.create(key(i)); err != nil {
			t.Fatal(err)
		}
	}
	first.stop(t)

	old := startOn(t, store, tooNew{store}, "old", knows(1), nil)
	refused := func(err error) {
		t.Helper()
		if e := conversation.AsError(err); e == nil || e.Code != conversation.Unavailable || !strings.Contains(e.Message, "newer version") {
			t.Errorf("nobody can read it: %v", err)
		}
	}
	_, err := old.say(key(0), "m", "hello")
	refused(err)
	_, err = old.view(key(0))
	refused(err)

	next := start(t, store, "next", knows(2))
	until(t, "the older program has heard of the newer one", func() bool {
		return slices.ContainsFunc(old.Members(), func(m member.Peer) bool { return m.Member == next.Member() && m.Sessions })
	})
	for i, asked := range []*clustered{old, next} {
		for n := range sessions {
			r, err := asked.say(key(n), fmt.Sprint("m", i), "hello")
			if err != nil {
				t.Fatalf("session %d by %s: %v", n, asked.Member(), err)
			}
			if v, err := asked.view(key(n)); err != nil || v.Head < r.Seq {
				t.Fatalf("session %d by %s: head %d after seq %d, %v", n, asked.Member(), v.Head, r.Seq, err)
			}
		}
	}
	if old.engine.Owned() != 0 || next.engine.Owned() != sessions {
		t.Errorf("in memory: %d where nothing can be read, %d beside it", old.engine.Owned(), next.engine.Owned())
	}
}

// A session that is served beside the ring is given back to its owner by the ring again and again;
// that cannot read it, and the next who asks is served as before: nobody is refused, and the session
// does not go to and fro between the two.
func TestNewerMemberIsAskedAgain(t *testing.T) {
	store := persistencetest.NewMemory()
	first := start(t, store, "first", knows(1))
	loads := &acquisitions{Store: store}
	old := startOn(t, store, tooNew{store}, "old", knows(1), nil)
	next := startOn(t, store, loads, "next", knows(2), nil)
	until(t, "all know each other", func() bool { return len(old.Members()) == 3 && len(next.Members()) == 3 })
	var k conversation.SessionKey
	for n := 0; ; n++ {
		k = key(n)
		if _, here := old.Placement().Local(k); here {
			break
		}
	}
	create := conversation.Create{Owner: "ada", Agent: conversation.External}
	made := make(chan error, 1)
	next.engine.CreateAsOwner(k, create, func(_ conversation.SessionKey, _ bool, err error) { made <- err })
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	const rounds = 6
	for i := range rounds {
		if err := next.engine.HandOver(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := []*clustered{first, old, next}[i%3].say(k, fmt.Sprint("m", i), "hello"); err != nil {
			t.Errorf("message %d: %v", i, err)
		}
	}
	t.Logf("%d loads", loads.n.Load())
	if n := loads.n.Load(); n > 1+2*rounds {
		t.Errorf("the newer member has taken it %d times for %d messages", n, rounds)
	}
}

// acquisitions counts what was taken from a store.
type acquisitions struct {
	conversation.Store
	n atomic.Int64
}

func (a *acquisitions) Acquire(ctx context.Context, key conversation.SessionKey, how conversation.AcquireHow) (conversation.Head, error) {
	head, err := a.Store.Acquire(ctx, key, how)
	if err == nil {
		a.n.Add(1)
	}
	return head, err
}
