package members

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"parley/conversation"
	"parley/conversation/member"
	"parley/persistence/clustertest"
	"parley/persistence/postgres/internal/opening"
	"parley/persistence/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// prepared is a database with its tables.
func prepared(t *testing.T, dsn string) *pgxpool.Config {
	t.Helper()
	c, err := opening.Config(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := opening.Prepare(t.Context(), c, opening.Terms{Migrate: true}); err != nil {
		t.Fatal(err)
	}
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func open(t *testing.T, config *pgxpool.Config, cluster string) *List {
	t.Helper()
	l, err := Open(config, cluster)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func TestMembers(t *testing.T) {
	clustertest.RunMembers(t, func(t *testing.T) func(string) member.Table {
		config := prepared(t, pgtest.Database(t))
		return func(cluster string) member.Table { return open(t, config, cluster) }
	})
}

func TestSingletons(t *testing.T) {
	clustertest.RunSingletons(t, func(t *testing.T) func(string) clustertest.SingletonTable {
		config := prepared(t, pgtest.Database(t))
		return func(cluster string) clustertest.SingletonTable { return open(t, config, cluster) }
	})
}

func who(node string) member.Info {
	return member.Info{Member: conversation.Member{Node: conversation.NodeID(node)}, Address: "x:1", Sessions: true}
}

func joined(t *testing.T, l *List, node string, lease time.Duration) member.Info {
	t.Helper()
	w := who(node)
	m, err := l.Join(t.Context(), w, lease)
	if err != nil {
		t.Fatal(err)
	}
	w.Member = m
	return w
}

func renewed(t *testing.T, l *List, w member.Info) map[conversation.NodeID]member.Peer {
	t.Helper()
	list, err := l.Renew(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	if list.Log == "" {
		t.Error("the list does not say which logs it stands beside")
	}
	all := map[conversation.NodeID]member.Peer{}
	for _, p := range list.Members {
		all[p.Node] = p
	}
	return all
}

func exec(t *testing.T, config *pgxpool.Config, sql string) {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), config.ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// The clock of the server that takes over may be behind or ahead of the one before.
func TestTheClockOfAnotherServer(t *testing.T) {
	for name, shift := range map[string]string{"behind": "+ interval '50 minutes'", "ahead": "- interval '50 minutes'"} {
		t.Run(name, func(t *testing.T) {
			config := prepared(t, pgtest.Database(t))
			l := open(t, config, "main")
			a, _ := joined(t, l, "a", 200*time.Millisecond), joined(t, l, "b", 200*time.Millisecond)
			exec(t, config, "update members set renewed = renewed "+shift+"; update member_clusters set heard = heard "+shift+", back = back "+shift)
			if all := renewed(t, l, a); all["a"].Dead || all["b"].Dead || all["b"].Silent > 2*time.Hour {
				t.Errorf("after the clock was changed: %+v", all)
			}
			// What is silent from now on is dead, as ever.
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for !renewed(t, l, a)["b"].Dead {
				<-tick.C
			}
		})
	}
}

// Rows of nodes that never come back do not stay, and an outage drops nobody.
func TestDeadMembersAreForgotten(t *testing.T) {
	config := prepared(t, pgtest.Database(t))
	l := open(t, config, "main")
	a, b := joined(t, l, "a", time.Second), joined(t, l, "b", time.Second)
	exec(t, config, "update members set renewed = renewed - interval '2 hours'; update member_clusters set heard = heard - interval '2 hours', back = back - interval '2 hours'")
	if all := renewed(t, l, a); len(all) != 2 {
		t.Fatalf("after an outage of two hours the list is %+v", all)
	}
	exec(t, config, "update members set renewed = renewed - interval '2 hours' where node = 'b'; update member_clusters set back = back - interval '2 hours'")
	if all := renewed(t, l, a); len(all) != 1 {
		t.Errorf("a node that was dead for two hours is there: %+v", all)
	}
	if _, err := l.Renew(t.Context(), b); !errors.Is(err, member.ErrDeposed) {
		t.Errorf("it comes back: %v", err)
	}
}

// An owner is found by its incarnation, whichever cluster it is of.
func TestIncarnationsAreOfTheDatabase(t *testing.T) {
	config := prepared(t, pgtest.Database(t))
	a, b := joined(t, open(t, config, "main"), "a", time.Hour), joined(t, open(t, config, "other"), "a", time.Hour)
	if a.Incarnation == b.Incarnation {
		t.Errorf("two members are %v and %v", a.Member, b.Member)
	}
}

// A database that does not answer keeps nobody waiting for longer than he wants, and the
// list goes on when it answers again; so after a stop.
func TestTheDatabaseIsAway(t *testing.T) {
	server := pgtest.Open(t, pgtest.Settings{})
	l := open(t, prepared(t, server.DSN("")), "main")
	a := joined(t, l, "a", time.Minute)
	for name, c := range map[string]struct{ away, back func() error }{
		"frozen":  {server.Freeze, server.Thaw},
		"stopped": {server.Fast, func() error { return server.Resume(t.Context()) }},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.away(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if _, err := l.Renew(ctx, a); err == nil || errors.Is(err, member.ErrDeposed) {
				t.Errorf("renewed: %v", err)
			}
			if err := c.back(); err != nil {
				t.Fatal(err)
			}
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				_, err := l.Renew(ctx, a)
				cancel()
				if err == nil {
					return
				}
				if errors.Is(err, member.ErrDeposed) || t.Context().Err() != nil {
					t.Fatal(err)
				}
				<-tick.C
			}
		})
	}
}

// A lease is renewed while the standby that commits wait for is away: no node stands still
// and none is taken for dead because the others cannot commit.
func TestRenewWaitsForNoStandby(t *testing.T) {
	primary := pgtest.Open(t, pgtest.Settings{})
	standby, err := primary.Standby(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Close(); err != nil {
			t.Error(err)
		}
	})
	l := open(t, prepared(t, primary.DSN("")), "c")
	me := joined(t, l, "a", time.Minute)
	if err := standby.Immediate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := l.Renew(ctx, me); err != nil {
		t.Errorf("without its standby: %v", err)
	}
}
