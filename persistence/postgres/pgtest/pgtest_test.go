package pgtest_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/persistence/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func ask(t *testing.T, s *pgtest.Server, sql string) string {
	t.Helper()
	got, err := s.Ask(t.Context(), "", sql)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDatabasesAreEmptyAndApart(t *testing.T) {
	one, two := pgtest.Database(t), pgtest.Database(t)
	if one == two || !strings.HasPrefix(one, "postgres://") {
		t.Errorf("two databases: %q and %q", one, two)
	}
}

// The directory of a process that was killed goes with the next server.
func TestWhatWasLeftBehind(t *testing.T) {
	pgtest.Database(t) // skipped where there is no PostgreSQL
	ended := exec.Command("true")
	must(t, ended.Run())
	mine := func(pid int) string {
		dir, err := os.MkdirTemp("", "pgtest-") //nolint:usetesting // it has to stand where the directories of servers do
		must(t, err)
		t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
		must(t, os.WriteFile(filepath.Join(dir, "starter"), []byte(strconv.Itoa(pid)), 0o600))
		return dir
	}
	dead, alive := mine(ended.Process.Pid), mine(os.Getpid())
	pgtest.Open(t, pgtest.Settings{})
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("the directory of a process that has ended: %v", err)
	}
	if _, err := os.Stat(alive); err != nil {
		t.Errorf("the directory of a living one: %v", err)
	}
}

// What was committed is there after every way of stopping.
func TestStopAndStart(t *testing.T) {
	s := pgtest.Open(t, pgtest.Settings{})
	address := s.Address()
	ask(t, s, "create table t (n int)")
	for n, stop := range []func() error{s.Fast, s.Immediate} {
		ask(t, s, "insert into t values (1)")
		must(t, stop())
		if _, err := s.Ask(t.Context(), "", "select 1"); err == nil {
			t.Error("a stopped server answers")
		}
		must(t, s.Resume(t.Context()))
		if got := ask(t, s, "select count(*) from t"); got != string(rune('1'+n)) {
			t.Errorf("after stop %d there are %s rows", n, got)
		}
	}
	if s.Address() != address {
		t.Errorf("the server was on %s and is on %s", address, s.Address())
	}
	if err := s.Resume(t.Context()); err == nil {
		t.Error("a running server was started again")
	}
}

// A frozen server keeps its connections and answers nothing.
func TestFreeze(t *testing.T) {
	s := pgtest.Open(t, pgtest.Settings{})
	must(t, s.Freeze())
	c, err := net.Dial("tcp", s.Address())
	must(t, err) // the system takes it, not the server
	must(t, c.Close())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.Ask(ctx, "", "select 1"); err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("a frozen server answered: %v", err)
	}
	must(t, s.Thaw())
	if got := ask(t, s, "select 1"); got != "1" {
		t.Errorf("after the thaw: %q", got)
	}
}

// A synchronous standby has all that was acknowledged, and takes over; the primary of
// before comes back as its standby, and takes over again.
func TestPromotion(t *testing.T) {
	a := pgtest.Open(t, pgtest.Settings{})
	ask(t, a, "create table t (n int)")
	b, err := a.Standby(t.Context(), true)
	must(t, err)
	t.Cleanup(func() { must(t, b.Close()) })
	ask(t, a, "insert into t values (1)")
	if got := ask(t, b, "select pg_is_in_recovery()"); got != "t" {
		t.Errorf("the standby says %q", got)
	}
	must(t, a.Immediate())
	must(t, b.Promote(t.Context()))
	ask(t, b, "insert into t values (2)")
	must(t, a.Follow(t.Context(), b, false))
	must(t, b.Fast())
	must(t, a.Promote(t.Context()))
	if got := ask(t, a, "insert into t values (3); select count(*) from t"); got != "3" {
		t.Errorf("after two promotions there are %s rows", got)
	}
	if dsn := pgtest.DSN("x", a, b); !strings.Contains(dsn, a.Address()+","+b.Address()) || !strings.Contains(dsn, "read-write") {
		t.Error("the DSN of a pair does not name both")
	}
}
