package persistencetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/conversation/member"
	"parley/persistence/chatstest"
	"parley/persistence/clustertest"
	"parley/persistence/persistencetest"
)

func TestMemory(t *testing.T) {
	persistencetest.Run(t, func(*testing.T) conversation.Store { return persistencetest.NewMemory() })
}

func TestChatsInMemory(t *testing.T) {
	chatstest.Run(t, func(*testing.T) chatstest.Both { return persistencetest.NewMemory() })
}

func TestChatsInMemoryAreTheModel(t *testing.T) {
	chatstest.RunModel(t, func(*rapid.T) (func() chatstest.Both, func(chatstest.Both) error) {
		m := persistencetest.NewMemory()
		return func() chatstest.Both { m.Reopen(); return m }, nil
	})
}

// The two kinds of failure, and a full disk.
func TestChatsInMemoryFail(t *testing.T) {
	m := persistencetest.NewMemory()
	store, boom := m.Chats(), errors.New("boom")
	key := chats.Key{Tenant: "acme", Channel: "slack", Chat: "slack:1"}
	save := func(over chats.Revision) error {
		return store.Save(t.Context(), "acme", []chats.Row{{Key: key, Revision: over, Value: []byte("v")}}, []chats.Entry{{}})
	}
	at := func() (chats.Revision, chats.Number) {
		row, err := store.Load(t.Context(), key)
		feed, failed := store.Feed(t.Context(), "acme")
		if errors.Join(err, failed) != nil {
			t.Fatal(err, failed)
		}
		return row.Revision, feed.Last
	}
	store.(*chatstest.Maps).FailSave(func(n int, _ []chats.Row, _ []chats.Entry) (error, bool) {
		return []error{nil, boom, boom}[min(n, 3)%3], n == 2
	})
	for _, c := range []struct {
		what string
		fill persistencetest.Fullness
		want error
		last chats.Number
	}{
		{"failed before it was written", persistencetest.Roomy, boom, 0},
		{"failed after it was written", persistencetest.Roomy, boom, 1},
		{"a full disk", persistencetest.Hard, conversation.ErrFull, 1},
		{"one that is nearly full", persistencetest.Soft, nil, 2},
	} {
		m.Fill(c.fill)
		over, _ := at()
		err := save(over)
		if rev, last := at(); !errors.Is(err, c.want) || last != c.last || rev != chats.Revision(last) {
			t.Errorf("%s: %v, revision %d, last entry %d", c.what, err, rev, last)
		}
	}
}

func TestMembersInMemory(t *testing.T) {
	clustertest.RunMembers(t, func(*testing.T) func(string) member.Table {
		clusters := map[string]*persistencetest.Memory{}
		return func(cluster string) member.Table {
			if clusters[cluster] == nil {
				clusters[cluster] = persistencetest.NewMemory()
			}
			return clusters[cluster]
		}
	})
}

func TestSingletonsInMemory(t *testing.T) {
	clustertest.RunSingletons(t, func(*testing.T) func(string) clustertest.SingletonTable {
		clusters := map[string]*persistencetest.Memory{}
		return func(cluster string) clustertest.SingletonTable {
			if clusters[cluster] == nil {
				clusters[cluster] = persistencetest.NewMemory()
			}
			return clusters[cluster]
		}
	})
}

var session = conversation.SessionKey{Tenant: "acme", Session: "s1"}

func commit(after conversation.Seq) conversation.Commit {
	return conversation.Commit{Epoch: 1, After: after, ID: "c", Events: []conversation.Event{
		{Seq: after + 1, Body: conversation.SessionClosed{Reason: "done"}},
	}}
}

func acquired(t *testing.T) *persistencetest.Memory {
	t.Helper()
	m := persistencetest.NewMemory()
	if _, err := m.Acquire(t.Context(), session, conversation.AcquireHow{Create: true}); err != nil {
		t.Fatal(err)
	}
	return m
}

func last(t *testing.T, m *persistencetest.Memory) conversation.Seq {
	t.Helper()
	h, err := m.Head(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	return h.Last
}

// Both kinds of failure, and the history of what was written.
func TestMemoryFailures(t *testing.T) {
	m := acquired(t)
	boom := errors.New("boom")
	m.FailCommit(func(n int, _ conversation.SessionKey, _ conversation.Commit) (error, bool) {
		switch n {
		case 1:
			return boom, false
		case 2:
			return boom, true
		}
		return nil, false
	})
	if err := m.Commit(t.Context(), session, commit(0)); !errors.Is(err, boom) || last(t, m) != 0 {
		t.Errorf("failed before it was written: %v, last %d", err, last(t, m))
	}
	if err := m.Commit(t.Context(), session, commit(0)); !errors.Is(err, boom) || last(t, m) != 1 {
		t.Errorf("failed after it was written: %v, last %d", err, last(t, m))
	}
	if err := m.Commit(t.Context(), session, commit(1)); err != nil {
		t.Error(err)
	}
	if n := len(m.Commits()); n != 2 {
		t.Errorf("%d commits in the history", n)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m.Reopen()
	if last(t, m) != 2 {
		t.Error("a reopened store is empty")
	}
}

// Gates work inside of a bubble, where a held commit counts as blocked.
func TestMemoryGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := acquired(t)
		for _, at := range []persistencetest.Moment{persistencetest.BeforeWrite, persistencetest.AfterWrite} {
			begun := last(t, m)
			g := m.Hold(at, func(_ conversation.SessionKey, c conversation.Commit) bool { return c.After == begun })
			done := make(chan error, 1)
			go func() { done <- m.Commit(t.Context(), session, commit(begun)) }()
			<-g.Held()
			synctest.Wait()
			select {
			case err := <-done:
				t.Fatalf("the commit went through a closed gate: %v", err)
			default:
			}
			if want := begun + conversation.Seq(at); last(t, m) != want {
				t.Errorf("moment %d: last seq %d at the gate, want %d", at, last(t, m), want)
			}
			g.Release()
			g.Release()
			if err := <-done; err != nil || last(t, m) != begun+1 {
				t.Errorf("moment %d: %v, last seq %d", at, err, last(t, m))
			}
		}

		g := m.Hold(persistencetest.BeforeWrite, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Commit(ctx, session, commit(2)) }()
		<-g.Held()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || last(t, m) != 2 {
			t.Errorf("a commit whose context ended at the gate: %v, last seq %d", err, last(t, m))
		}
	})
}

func TestMemoryShared(t *testing.T) {
	clustertest.RunShared(t, func(*testing.T) clustertest.Shared {
		m := persistencetest.NewMemory()
		return clustertest.Shared{A: m, B: m, List: m}
	})
}
