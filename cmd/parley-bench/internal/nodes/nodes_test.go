package nodes

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley-bench/internal/checker"
	"parley/cmd/parley-bench/internal/load"
	"parley/persistence/postgres/pgtest"
)

// TestMain makes the test binary the tool with the side effect, too: a child of nodes.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "journal" {
		if (&checker.Journal{File: os.Args[2]}).Run(context.Background()) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// server is the program that the tests of this package start.
func server(t *testing.T) string {
	t.Helper()
	path, cleanup, err := load.BuildServer("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cleanup)
	return path
}

// Each fault once, on three nodes and a gateway. "make chaos" does more of them, at random.
func TestChaos(t *testing.T) {
	if why := pgtest.Missing(); why != "" || testing.Short() {
		t.Skip("NOT RUN: it takes a minute, and PostgreSQL; ", why)
	}
	var out strings.Builder
	c := Chaos{Server: server(t), Nodes: 3, Clients: 8, Lease: 2 * time.Second, Finish: time.Minute}
	if err := c.run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "nothing lost, doubled, reordered or stale; no task in ERROR") {
		t.Errorf("it says %s", out.String())
	}
	t.Log(out.String())
}

// One node, without a database: what it does when it is killed, frozen and ended, and
// what is found when it ends by itself.
func TestNode(t *testing.T) {
	failed := make(chan error, 8)
	ctx, cancel := context.WithCancel(t.Context())
	c := &cluster{lease: 200 * time.Millisecond, failed: failed, running: ctx}
	c.watch = &watchers{over: c.over}
	n, err := newNode(t.TempDir(), "node-1", server(t), "", func(int) []string { return []string{"drain.timeout=1s"} })
	if err != nil {
		t.Fatal(err)
	}
	c.sessions = []*node{n}
	t.Cleanup(func() {
		cancel()
		n.kill()
		c.watch.group.Wait()
	})
	if err := c.start(ctx, n); err != nil {
		t.Fatal(err)
	}
	var f figures
	for _, s := range []step{{what: killed, hold: 0.1}, {what: paused, hold: 0.5}, {what: left, hold: 0.1}} {
		if err := c.do(ctx, s, &f); err != nil {
			t.Fatal(err)
		}
	}
	if err := firstOf(failed); err != nil || len(f.drained) != 1 || n.run != 3 || n.addr() == "" || n.current(time.Hour) != "" {
		t.Errorf("%v, %+v, run %d", err, f, n.run)
	}
	if err := c.live(ctx); err != nil {
		t.Error(err)
	}
	// A node alone does not end after a freeze: found.
	if err := c.do(ctx, step{what: frozen, hold: 1}, &f); err == nil || !strings.Contains(err.Error(), "still runs") {
		t.Errorf("a node that must end goes on: %v", err)
	}
	n.kill()
	if err := c.start(ctx, n); err != nil {
		t.Fatal(err)
	}
	p := n.now()
	_ = p.server.Signal(os.Kill) // not by us
	<-p.ended
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "node-1 ended by itself with code -1") {
		t.Errorf("an end that nobody asked for: %v", err)
	}
	if n.addr() != "" || c.Any(nil) != "" {
		t.Error("it has an address")
	}
}

// A socket that closes while its node lives is found.
func TestWatchers(t *testing.T) {
	var said error
	w := &watchers{over: func(err error) { said = err }}
	n := &node{name: "node-1"}
	// Nobody listens there: the socket is gone before it was there.
	w.watch(t.Context(), n, &process{server: &load.Server{Addr: "127.0.0.1:1"}, ended: make(chan struct{})})
	w.group.Wait()
	if said == nil || !strings.Contains(said.Error(), "node-1 lives and has closed a socket") {
		t.Errorf("it says %v", said)
	}
	said = nil
	ended := make(chan struct{})
	close(ended)
	w.watch(t.Context(), n, &process{server: &load.Server{Addr: "127.0.0.1:1"}, ended: ended})
	w.watch(t.Context(), n, &process{server: &load.Server{Addr: "127.0.0.1:1"}, ended: make(chan struct{}), ending: true})
	w.group.Wait()
	if said != nil || w.held.Load() != 1 {
		t.Errorf("a false alarm: %v, %d", said, w.held.Load())
	}
}

// The pair of databases changes places, and nothing that the database noted is lost.
func TestDatabase(t *testing.T) {
	if why := pgtest.Missing(); why != "" {
		t.Skip("NOT RUN: ", why)
	}
	d, err := openDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	})
	ask := func(sql string) {
		t.Helper()
		if _, err := d.ask(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	ask("create table sessions (session text, epoch bigint, last_seq bigint, owner text)")
	if err := d.audited(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask("set application_name = 'node-1.1'; insert into sessions values ('s1', 1, 0); update sessions set last_seq = 2; update sessions set owner = 'x'")
	before := d.primary
	if err := errors.Join(d.promote(t.Context()), d.rejoin(t.Context())); err != nil {
		t.Fatal(err)
	}
	ask("set application_name = 'node-2.1'; update sessions set epoch = 2")
	rows, err := d.audit(t.Context())
	if err != nil || d.primary == before || len(rows) != 3 || rows[2] != (auditRow{"s1", 2, 2, "node-2.1"}) {
		t.Errorf("%v, %+v", err, rows)
	}
	c := &cluster{lease: 100 * time.Millisecond, database: d}
	for _, f := range []fault{dbFast, dbImmediate, dbFlap} {
		if err := c.without(t.Context(), f, time.Millisecond); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		ask("update sessions set last_seq = last_seq + 1")
	}
}
