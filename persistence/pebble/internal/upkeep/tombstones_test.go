package upkeep

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/persistence/pebble/internal/layout"
)

// Old tombstones are dropped, but never by a clock alone: what the store knows of
// the time, with the time that it has been open, is a limit as well.
func TestCollectTombstones(t *testing.T) {
	const day = 24 * time.Hour
	t0 := time.UnixMilli(1_700_000_000_000).UTC()
	for _, c := range []struct {
		name     string
		keep     time.Duration
		full     bool
		erased   time.Time // the tombstone's; zero = of layout 1
		activity time.Time // the newest in the store; zero = there is no session
		now      time.Time
		running  time.Duration
		dropped  int
	}{
		{"old", 30 * day, false, t0, t0.Add(31 * day), t0.Add(31 * day), time.Hour, 1},
		{"young", 30 * day, false, t0, t0.Add(29 * day), t0.Add(29 * day), time.Hour, 0},
		{"the clock jumped", 30 * day, false, t0, t0.Add(day), t0.Add(31 * day), time.Hour, 0},
		{"the clock went back", 30 * day, false, t0, t0.Add(31 * day), t0.Add(-day), time.Hour, 0},
		{"nothing but itself", 30 * day, false, t0, time.Time{}, t0.Add(31 * day), time.Hour, 0},
		{"open for long", 30 * day, false, t0, time.Time{}, t0.Add(31 * day), 31 * day, 1},
		{"kept for ever", 0, false, t0, t0.Add(3000 * day), t0.Add(3000 * day), time.Hour, 0},
		{"disk full", 30 * day, true, t0, t0.Add(31 * day), t0.Add(31 * day), time.Hour, 0},
		{"without a time", 30 * day, false, time.Time{}, t0.Add(31 * day), t0.Add(31 * day), time.Hour, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := pebble.Open("store", &pebble.Options{FS: vfs.NewMem(), Logger: quiet{}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = p.Close() }()
			gone := layout.KeyTombstone(nil, conversation.SessionKey{Tenant: "acme", Session: "s1"})
			value := layout.AppendTombstone(nil, 3, c.erased)
			if c.erased.IsZero() {
				value = layout.AppendU64(nil, 3)
			}
			if err := p.Set(gone, value, pebble.Sync); err != nil {
				t.Fatal(err)
			}
			if !c.activity.IsZero() { // of another tenant, behind older ones
				for tenant, at := range map[conversation.TenantID]time.Time{"a": t0.Add(-day), "b": c.activity, "c": t0.Add(-2 * day)} {
					k := layout.KeyActivity(nil, conversation.SessionKey{Tenant: tenant, Session: "s2"}, at.UnixMilli())
					if err := p.Set(k, nil, pebble.Sync); err != nil {
						t.Fatal(err)
					}
				}
			}
			u := &Upkeep{Needs: Needs{Store: p, Keep: c.keep, Full: func() bool { return c.full }, Log: slog.New(slog.DiscardHandler), Hold: unheld}}
			n, err := u.collect(t.Context(), c.now, c.running)
			if err != nil || n != c.dropped {
				t.Errorf("%d dropped, %v; want %d", n, err, c.dropped)
			}
			left := 0
			if err := u.tombstones(func([]byte, time.Time) bool { left++; return true }); err != nil || left != 1-c.dropped {
				t.Errorf("%d are left, %v", left, err)
			}
		})
	}
}

func unheld(_ conversation.SessionKey, f func() error) error { return f() }

// A tombstone over which the way leads to a living session, or to a younger
// tombstone, stays; behind the last one they go, one at a time.
func TestCollectKeepsTheWay(t *testing.T) {
	p, err := pebble.Open("store", &pebble.Options{FS: vfs.NewMem(), Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	t0 := time.UnixMilli(1_700_000_000_000).UTC()
	key := func(id conversation.SessionID) conversation.SessionKey {
		return conversation.SessionKey{Tenant: "acme", Session: id}
	}
	put := func(k, v []byte) {
		t.Helper()
		if err := p.Set(k, v, pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []conversation.SessionID{"a", "a_2", "a_3", "b", "b_2"} {
		put(layout.KeyTombstone(nil, key(id)), layout.AppendTombstone(nil, 3, t0))
	}
	put(layout.KeyHead(nil, key("b_3")), []byte("a head"))
	var held []conversation.SessionID
	u := &Upkeep{Needs: Needs{Store: p, Keep: time.Hour, Full: func() bool { return false }, Log: slog.New(slog.DiscardHandler),
		Hold: func(key conversation.SessionKey, f func() error) error { held = append(held, key.Session); return f() }}}
	left := func() (ids []conversation.SessionID) {
		t.Helper()
		err := u.tombstones(func(k []byte, _ time.Time) bool {
			key, _, _ := layout.CutSession(k[1:])
			ids = append(ids, key.Session)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	for _, want := range []struct {
		dropped int
		left    string
	}{{1, "[a a_2 b b_2]"}, {1, "[a b b_2]"}, {1, "[b b_2]"}, {0, "[b b_2]"}} {
		n, err := u.collect(t.Context(), t0.Add(2*time.Hour), 2*time.Hour)
		if err != nil || n != want.dropped || fmt.Sprint(left()) != want.left {
			t.Fatalf("%d dropped, %v are left, %v; want %+v", n, left(), err, want)
		}
	}
	if fmt.Sprint(held[:5]) != "[a_2 a_3 a_4 b_2 b_3]" {
		t.Errorf("held while it was looked at: %v", held)
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}
