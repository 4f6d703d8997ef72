package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/conversation/chats"
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
	much := func([]byte, []byte) (uint64, error) { return apart + 1, nil }
	u := &Upkeep{Needs: Needs{
		Store: p, Views: &sync.RWMutex{}, Full: func() bool { return false }, Log: slog.New(slog.DiscardHandler),
	}, stored: much}
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

// Of many erased sessions those that follow each other are compacted as one range, so
// that a clearing does not rewrite the same tables once for each of them. Where that
// fails they are compacted one by one.
func TestManyAreClearedTogether(t *testing.T) {
	const many = 1000
	p, err := pebble.Open("store", &pebble.Options{FS: vfs.NewMem(), Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	key := func(n int) conversation.SessionKey {
		return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("s%03d", n/2) + strings.Repeat("-", n%2))}
	}
	erase := func() {
		for n := range many {
			for _, k := range [][]byte{layout.KeyUncleared(nil, key(n)), layout.KeyTombstone(nil, key(n))} {
				if err := p.Set(k, layout.AppendTombstone(nil, 2, time.UnixMilli(1)), pebble.Sync); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	type span struct{ from, to []byte }
	var spans []span
	var stuck []byte
	damage := errors.New("a damaged table")
	u := &Upkeep{Needs: Needs{
		Store: p, Views: &sync.RWMutex{}, Full: func() bool { return false }, Log: slog.New(slog.DiscardHandler),
	}}
	u.stored = func(from, to []byte) (uint64, error) {
		if bytes.Compare(from, to) >= 0 {
			t.Errorf("asked what is stored from %q to %q", from, to)
		}
		if behind := layout.SessionPrefix(nil, key(700)); bytes.Equal(to, behind) {
			return apart + 1, nil
		}
		return apart, nil
	}
	u.compact = func(_ context.Context, from, to []byte) error {
		spans = append(spans, span{from, to})
		if stuck != nil && bytes.Compare(from, stuck) <= 0 && bytes.Compare(stuck, to) < 0 {
			return damage
		}
		return nil
	}
	erase()
	if err := u.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(spans) != 2 || bytes.Compare(spans[0].to, layout.SessionPrefix(nil, key(700))) > 0 {
		t.Errorf("%d sessions were compacted from and to %q, want two ranges, the second one from %v on", many, spans, key(700))
	}
	for n := range many {
		for _, k := range [][]byte{layout.KeyHead(nil, key(n)), append(layout.SubsPrefix(nil, key(n)), 'd', 0, 1, layout.KindHead)} {
			if !slices.ContainsFunc(spans, func(s span) bool { return bytes.Compare(s.from, k) <= 0 && bytes.Compare(k, s.to) < 0 }) {
				t.Fatalf("nothing has compacted %q", k)
			}
		}
	}
	if left, err := u.uncleared(); err != nil || len(left) > 0 {
		t.Errorf("%d are left, %v", len(left), err)
	}
	erase()
	stuck = layout.KeyHead(nil, key(500))
	if err := u.Clear(t.Context()); !errors.Is(err, damage) {
		t.Errorf("what is in the way is not reported: %v", err)
	}
	if left, err := u.uncleared(); err != nil || len(left) != 1 || left[0] != key(500) {
		t.Errorf("%v are left, %v", left, err)
	}
}

// What channels remember of erased sessions is covered and compacted too, where there was
// something; those with little between them as one range.
func TestWhatChannelsRememberIsCleared(t *testing.T) {
	p, err := pebble.Open("store", &pebble.Options{FS: vfs.NewMem(), Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	key := func(id conversation.SessionID) conversation.SessionKey {
		return conversation.SessionKey{Tenant: "acme", Session: id}
	}
	row := func(id conversation.SessionID) []byte {
		return layout.KeyChatRow(nil, chats.Key{Tenant: "acme", Channel: "slack", Chat: "c"}, id)
	}
	for id, left := range map[conversation.SessionID][]byte{"s1": layout.UnclearedChats, "s2": nil, "s3": layout.UnclearedChats, "s7": layout.UnclearedChats} {
		err := errors.Join(p.Set(layout.KeyUncleared(nil, key(id)), left, pebble.Sync), p.Set(row(id), nil, pebble.Sync),
			p.Set(layout.KeyTombstone(nil, key(id)), layout.AppendTombstone(nil, 2, time.UnixMilli(1)), pebble.Sync))
		if err != nil {
			t.Fatal(err)
		}
	}
	var compacted []string
	u := &Upkeep{Needs: Needs{
		Store: p, Views: &sync.RWMutex{}, Full: func() bool { return false }, Log: slog.New(slog.DiscardHandler),
	}}
	u.stored = func(_, to []byte) (uint64, error) {
		if bytes.Equal(to, layout.ChatsPrefix(nil, key("s7"))) {
			return apart + 1, nil
		}
		return apart, nil
	}
	u.compact = func(_ context.Context, from, to []byte) error {
		in := ""
		for _, id := range []conversation.SessionID{"s1", "s2", "s3", "s7"} {
			if bytes.Compare(from, row(id)) <= 0 && bytes.Compare(row(id), to) < 0 {
				in += string(id)
			}
		}
		compacted = append(compacted, in)
		return nil
	}
	if err := u.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(compacted, " "); got != " s1s2s3 s7" { // first the sessions themselves
		t.Errorf("what channels remember was compacted of %q", got)
	}
	for id, stays := range map[conversation.SessionID]bool{"s1": false, "s2": true, "s3": false, "s7": false} {
		_, closer, err := p.Get(row(id))
		if err == nil {
			_ = closer.Close()
		}
		if (err == nil) != stays {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// The memory table is flushed when many range tombstones have come into it, of
// erasures that were too large to be done key by key.
func TestManyRangesAreFlushed(t *testing.T) {
	logs := 0
	p, err := pebble.Open("store", &pebble.Options{FS: vfs.NewMem(), Logger: quiet{},
		EventListener: &pebble.EventListener{WALCreated: func(pebble.WALCreateInfo) { logs++ }}}) // one for each memory table
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	full := false
	u := &Upkeep{Needs: Needs{Store: p, Full: func() bool { return full }, Log: slog.New(slog.DiscardHandler)}}
	for _, c := range []struct {
		full    bool
		n, logs int
	}{{false, 0, 1}, {false, mostRanges - 2, 1}, {false, 0, 1}, {false, 2, 2}, {false, 2, 2}, {true, mostRanges, 2}, {false, 2, 3}} {
		full = c.full
		if c.n > 0 { // a memory table with nothing in it is not flushed
			if err := p.Set([]byte("k"), nil, pebble.Sync); err != nil {
				t.Fatal(err)
			}
		}
		if u.Ranges(c.n); logs != c.logs {
			t.Errorf("after %+v there were %d memory tables", c, logs)
		}
	}
}
