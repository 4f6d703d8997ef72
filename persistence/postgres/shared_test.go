package postgres

import (
	"errors"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/member"
	"parley/persistence/clustertest"
	"parley/persistence/postgres/pgtest"
)

func TestTwoNodesShareAStore(t *testing.T) {
	dsn := pgtest.Database(t)
	if _, err := Prepare(t.Context(), dsn, true, nil); err != nil {
		t.Fatal(err)
	}
	clustertest.RunShared(t, func(t *testing.T) clustertest.Shared {
		a, b := openOn(t, dsn, nil), openOn(t, dsn, nil)
		empty(t, a)
		return clustertest.Shared{A: a, B: b, List: listOn(t, dsn)}
	})
}

// All handles on a database know the same secret, and those on another one another.
func TestSecretOfADatabase(t *testing.T) {
	dsn := prepared(t)
	a, b, other := Secret(openOn(t, dsn, nil)), Secret(openOn(t, dsn, nil)), Secret(openOn(t, prepared(t), nil))
	if len(a) < 32 || string(a) != string(b) || string(a) == string(other) {
		t.Errorf("%d bytes, the same %v, another one %v", len(a), string(a) == string(b), string(a) != string(other))
	}
}

func listOn(t *testing.T, dsn string) Members {
	t.Helper()
	list, err := OpenMembers(dsn, "main")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(list.Close)
	return list
}

// An acquisition whose answer was lost is made again: whose the session was before is not
// forgotten over that.
func TestPriorOfARepeatedAcquisition(t *testing.T) {
	dsn := prepared(t)
	s, list := openOn(t, dsn, nil), listOn(t, dsn)
	join := func(node conversation.NodeID) conversation.Member {
		t.Helper()
		m, err := list.Join(t.Context(), member.Info{Member: conversation.Member{Node: node}}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	key := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	died := join("a")
	if _, err := s.Acquire(t.Context(), key, conversation.AcquireHow{Create: true, Owner: died}); err != nil {
		t.Fatal(err)
	}
	how := conversation.AcquireHow{Owner: join("a")} // it has started again
	for i, again := range []bool{false, true, true} {
		got, err := s.take1(t.Context(), key, how, false, again)
		if err != nil || !got.taken || got.head.Prior != conversation.PriorDead {
			t.Errorf("attempt %d: taken %v, prior %d, %v", i, got.taken, got.head.Prior, err)
		}
	}
	if h, err := s.Acquire(t.Context(), key, how); err != nil || h.Prior != conversation.PriorSame {
		t.Errorf("another acquisition: prior %d, %v", h.Prior, err)
	}
}

// A member that has written to a session takes it again, and the answer to that is lost before the
// database has heard of it. The session is its own: that somebody died with it before was counted
// when it was taken the first time.
func TestPriorOfARepeatedAcquisitionOfOnesOwn(t *testing.T) {
	dsn := prepared(t)
	s, list := openOn(t, dsn, nil), listOn(t, dsn)
	died := joined(t, list, "a")
	key := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	if _, err := s.Acquire(t.Context(), key, conversation.AcquireHow{Create: true, Owner: died.Member}); err != nil {
		t.Fatal(err)
	}
	how := conversation.AcquireHow{Owner: joined(t, list, "a").Member} // it has started again
	h, err := s.Acquire(t.Context(), key, how)
	if err != nil || h.Prior != conversation.PriorDead {
		t.Fatalf("of a member that has died: prior %d, %v", h.Prior, err)
	}
	err = s.Commit(t.Context(), key, conversation.Commit{
		Epoch: h.Epoch, ID: "c1", Events: []conversation.Event{{Seq: 1, At: time.Now(), Body: conversation.SessionClosed{}}},
		Summary: conversation.Summary{Owner: "ada", CreatedAt: time.Now(), Activity: time.Now()},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		got, err := s.take1(t.Context(), key, how, false, true)
		if err != nil || !got.taken || got.head.Prior != conversation.PriorSame {
			t.Errorf("attempt %d: taken %v, prior %d, %v", i, got.taken, got.head.Prior, err)
		}
	}
}

func TestTickets(t *testing.T) {
	clustertest.RunTickets(t, func(t *testing.T) func() member.Tickets {
		dsn := prepared(t)
		return func() member.Tickets { return openOn(t, dsn, nil) }
	})
}

// Clusters of two names on one database do not take sessions from each other while their owner
// lives, and who asks is told that it is another cluster's. Members of one cluster are told whose
// it is, and no more.
func TestTwoClustersOnOneDatabase(t *testing.T) {
	dsn := prepared(t)
	s := openOn(t, dsn, nil)
	empty(t, s)
	join := func(cluster string, node conversation.NodeID) conversation.Member {
		t.Helper()
		list, err := OpenMembers(dsn, cluster)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(list.Close)
		m, err := list.Join(t.Context(), member.Info{Member: conversation.Member{Node: node}, Address: "x:1", Feature: member.Newest}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	owner, mate, stranger, namesake := join("one", "a"), join("one", "b"), join("two", "c"), join("two", "a")
	k := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	if _, err := s.Acquire(t.Context(), k, conversation.AcquireHow{Create: true, Owner: owner}); err != nil {
		t.Fatal(err)
	}
	for by, foreign := range map[conversation.Member]bool{mate: false, stranger: true, namesake: true} {
		_, err := s.Acquire(t.Context(), k, conversation.AcquireHow{Owner: by})
		owned := new(conversation.OwnedError)
		if !errors.As(err, &owned) || owned.By != owner || errors.Is(err, member.ErrOtherCluster) != foreign {
			t.Errorf("%s acquires what %s has: %v", by, owner, err)
		}
	}
}
