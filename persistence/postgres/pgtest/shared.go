package pgtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// shared is the server that all tests of a package share, started by the first that
// asks for a database.
var shared struct {
	once   sync.Once
	server *Server
	err    error
	made   atomic.Int64
}

// Main runs the tests of a package and ends the server that they have shared.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			return max(code, 1)
		}
	}
	return code
}

// Database makes an empty database in the server that all tests of the package share, and
// returns its DSN. The test is skipped, visibly, where there is no PostgreSQL. The
// server does not wait for the disk: what is measured there is not what is measured elsewhere.
func Database(t testing.TB) string {
	t.Helper()
	needed(t)
	shared.once.Do(func() { shared.server, shared.err = Start(context.Background(), Settings{}) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server.NewDatabase(t)
}

// NewDatabase makes an empty database in the server and returns its DSN.
func (s *Server) NewDatabase(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", shared.made.Add(1))
	if _, err := s.Ask(t.Context(), "", "create database "+name+sorted); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A server that the test has stopped has taken the database along.
		_, _ = s.Ask(context.Background(), "", "drop database if exists "+name+" with (force)")
	})
	return s.DSN(name)
}

// sorted has a database compare texts as people do, as most servers' databases do.
const sorted = " template template0 locale_provider icu icu_locale 'en-US'"

// Open starts a server for one test alone, which may stop it. Skipped as Database is.
func Open(t testing.TB, settings Settings) *Server {
	t.Helper()
	needed(t)
	s, err := Start(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the server's log: %s", s.log())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func needed(t testing.TB) {
	t.Helper()
	if why := Missing(); why != "" {
		t.Skip("NOT RUN: ", why)
	}
}
