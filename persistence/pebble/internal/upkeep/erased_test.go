package upkeep

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/persistence/pebble/internal/layout"
)

// A session whose tables cannot be rewritten keeps its own text and no other's: the
// sessions behind it are cleared, and it is tried again with the next clearing.
func TestOneIsInTheWay(t *testing.T) {
	key := func(id conversation.SessionID) conversation.SessionKey {
		return conversation.SessionKey{Tenant: "acme", Session: id}
	}
	p, err := pebble.Open("store", &pebble.Options{FS: vfs.NewMem(), Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	for _, id := range []conversation.SessionID{"s1", "s2", "s3"} {
		if err := p.Set(layout.KeyUncleared(nil, key(id)), nil, pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	damage := errors.New("a damaged table")
	stuck := layout.SessionPrefix(nil, key("s1"))
	u := &Upkeep{Needs: Needs{
		Store: p, Views: &sync.RWMutex{}, Full: func() bool { return false }, Log: slog.New(slog.DiscardHandler),
	}}
	u.compact = func(_ context.Context, from, _ []byte) error {
		if bytes.Equal(from, stuck) {
			return damage
		}
		return nil
	}
	left := func() (ids []conversation.SessionID) {
		keys, err := u.uncleared()
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			ids = append(ids, k.Session)
		}
		return ids
	}
	for range 2 {
		if err := u.Clear(t.Context()); !errors.Is(err, damage) {
			t.Errorf("what is in the way is not reported: %v", err)
		}
		if ids := left(); len(ids) != 1 || ids[0] != "s1" {
			t.Errorf("the text of %q is left", ids)
		}
	}
	stuck = nil // mended
	if err := u.Clear(t.Context()); err != nil || len(left()) != 0 {
		t.Errorf("%v, the text of %q is left", err, left())
	}
}
