package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"parley/persistence/postgres/pgtest"
)

// doctor says of a shared store and a cluster what a start would: tables that a start makes
// are no fault, and what a node shows to the others is looked at.
func TestDoctorOfAClusterSaysWhatAStartWould(t *testing.T) {
	server := pgtest.Open(t, pgtest.Settings{})
	installation := func(more ...string) at {
		return at{t.TempDir(), []string{"DATABASE_URL=" + server.NewDatabase(t)}, append([]string{"--listen", "127.0.0.1:0", "--set", "store.postgres=env:DATABASE_URL"}, more...)}
	}
	var listener net.ListenConfig
	taken, err := listener.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	nobody := filepath.Join(t.TempDir(), "nobody")
	for name, c := range map[string]struct {
		at   at
		code int
		says string
	}{
		"empty, and a start makes the tables":   {installation(), exitOK, "-   database      tables are missing"},
		"empty, and a start may not make them":  {installation("--set", "store.migrate=false"), exitFailed, "BAD database"},
		"a node":                                {installation("--set", "cluster.listen=127.0.0.1:0", "--set", "cluster.insecure=true"), exitOK, "ok  cluster "},
		"a node whose certificate is not there": {installation("--set", "cluster.listen=127.0.0.1:0", "--set", "cluster.tls_cert="+nobody, "--set", "cluster.tls_key="+nobody, "--set", "cluster.tls_ca="+nobody), exitFailed, "BAD cluster "},
		"a node whose port is taken":            {installation("--set", "cluster.listen="+taken.Addr().String(), "--set", "cluster.insecure=true"), exitFailed, "BAD cluster address"},
	} {
		t.Run(name, func(t *testing.T) {
			if code, out := c.at.run(t, "doctor"); code != c.code || !strings.Contains(out, c.says) {
				t.Errorf("code %d, want %d; it says\n%s\nwant %q in it", code, c.code, out, c.says)
			}
		})
	}
	fresh := installation()
	for range 2 { // it has made no tables the first time
		if _, out := fresh.run(t, "doctor"); !strings.Contains(out, "schema 0,") {
			t.Error(out)
		}
	}
}
