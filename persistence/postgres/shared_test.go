package postgres

import (
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

func TestTickets(t *testing.T) {
	clustertest.RunTickets(t, func(t *testing.T) func() member.Tickets {
		dsn := prepared(t)
		return func() member.Tickets { return openOn(t, dsn, nil) }
	})
}
