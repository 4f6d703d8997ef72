package cluster_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/actors/cluster"
	"parley/conversation"
	"parley/persistence/persistencetest"
)

// told keeps what a node has logged.
type told struct {
	mu  *sync.Mutex
	all *[]string
}

func listening() told { return told{&sync.Mutex{}, &[]string{}} }

func (l told) Enabled(context.Context, slog.Level) bool { return true }
func (l told) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l told) WithGroup(string) slog.Handler            { return l }

func (l told) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.Key + "=" + a.Value.String(); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	*l.all = append(*l.all, line)
	return nil
}

// says waits until a line with all words was logged.
func (l told) says(t *testing.T, who string, words ...string) {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(time.Minute); ; <-look.C {
		l.mu.Lock()
		lines := append([]string(nil), *l.all...)
		l.mu.Unlock()
		for _, line := range lines {
			has := true
			for _, w := range words {
				has = has && strings.Contains(line, w)
			}
			if has {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%s has not logged %q; it has logged\n%s", who, words, strings.Join(lines, "\n"))
		}
	}
}

// authority makes certificates for nodes on 127.0.0.1.
func authority(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	made, err := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if root, err = x509.ParseCertificate(made); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{made}, PrivateKey: key}},
		RootCAs:      pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

// until waits until something is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(time.Minute); !so(); <-look.C {
		if time.Now().After(end) {
			t.Fatal("waited in vain: " + what)
		}
	}
}

// A node that no other one reaches gets no sessions, is not ready, and says so at once to those
// who ask it all the same; both sides log why. The others serve as if it was not there. When
// they have gone it is the first, and serves.
func TestNodeThatNobodyReaches(t *testing.T) {
	ours, theirs := authority(t), authority(t)
	for name, c := range map[string]struct {
		change         func(*cluster.Options)
		stranger, good []string // what they log
	}{
		"its certificate is of another authority": {
			change:   func(o *cluster.Options) { o.TLS = theirs },
			stranger: []string{"not signed by the authority", "cluster.tls_ca"},
			good:     []string{"somebody was not let in", "does not take this node's certificate", "cluster.tls_ca"},
		},
		"it has no certificate": {
			change:   func(o *cluster.Options) { o.TLS = nil },
			stranger: []string{"perhaps only one of the two has certificates"},
			good:     []string{"it speaks without certificates"},
		},
		"its address is wrong": {
			change:   func(o *cluster.Options) { o.TLS, o.Advertise = ours, freePort(t) },
			stranger: []string{"takes no sessions and is not ready", "cluster.advertise"},
			good:     []string{"nobody listens there", "cluster.advertise is wrong"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := persistencetest.NewMemory()
			good, bad := listening(), listening()
			secure := func(o *cluster.Options) { o.TLS = ours }
			a := startLogged(t, store, "a", slog.New(good), secure)
			b := start(t, store, "b", secure)
			s := startLogged(t, store, "s", slog.New(bad), c.change)
			if a.sessions.Ready() != nil || b.sessions.Ready() != nil {
				t.Fatalf("those that reach each other are not ready: %v, %v", a.sessions.Ready(), b.sessions.Ready())
			}
			if err := conversation.AsError(s.sessions.Ready()); err == nil || err.Code != conversation.Unavailable {
				t.Fatalf("the stranger says of itself: %v", err)
			}
			for i := range 30 {
				if created, err := a.create(key(i)); err != nil || !created {
					t.Fatal(created, err)
				}
			}
			if _, err := s.create(key(31)); err == nil || !strings.Contains(err.Error(), "has not reached the other servers") {
				t.Errorf("a session by the stranger: %v", err)
			}
			if n := a.engine.Owned() + b.engine.Owned(); n != 30 || s.engine.Owned() != 0 {
				t.Errorf("in memory of those who serve: %d; of the stranger: %d", n, s.engine.Owned())
			}
			bad.says(t, "the stranger", c.stranger...)
			good.says(t, "the other", c.good...)
			a.stop(t)
			b.stop(t)
			until(t, "the stranger is the only one", func() bool { return s.sessions.Ready() == nil })
			if _, err := s.say(key(1), "m", "hello"); err != nil {
				t.Errorf("the stranger as the only one: %v", err)
			}
		})
	}
}
