package erasure

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/conversation/wire"
	"parley/persistence/pebble/internal/layout"
)

func key(id conversation.SessionID) conversation.SessionKey {
	return conversation.SessionKey{Tenant: "acme", Session: id}
}

// An erasure takes the session and what is below it, from the lists too, and nothing
// else, key by key or by ranges; by ranges only what has more keys than allowed.
func TestFill(t *testing.T) {
	for name, c := range map[string]struct{ fewer, ranges int }{
		"as many keys as allowed": {0, 0}, "one more than allowed": {1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			keys := 0 // of s1 and of the two below it
			p, err := pebble.Open("store", &pebble.Options{FS: vfs.NewMem()})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = p.Close() }()
			at := time.UnixMilli(1_700_000_000_000).UTC()
			var head *layout.Head
			var stays [][]byte
			for id, rows := range map[conversation.SessionID]int{"s1": 12, "s1/d1": 5, "s1/d1/d1": 1, "s1-": 3, "s10": 3, "s2": 1} {
				h := &layout.Head{Row: wire.HeadRow{Epoch: 1, WakeAt: at}, Activity: at.UnixMilli(), Listed: key(id).Session.Depth() == 0}
				if id == "s1" {
					head = h
				}
				made := [][]byte{layout.KeyHead(nil, key(id)), layout.KeyDue(nil, key(id), at.UnixMilli())}
				values := [][]byte{layout.AppendHead(nil, h, wire.AppendHead(nil, h.Row)), nil}
				if h.Listed {
					made, values = append(made, layout.KeyActivity(nil, key(id), at.UnixMilli())), append(values, nil)
				}
				for n := range rows {
					task := conversation.TaskID(fmt.Sprintf("t%d-%s", n, id))
					made = append(made, layout.KeyTask(nil, key(id), task))
					values = append(values, wire.AppendTaskRow(nil, conversation.TaskRow{Key: key(id), Task: task, CreatedAt: at}))
					if h.Listed {
						made, values = append(made, layout.KeyTaskTime(nil, "acme", at.UnixMilli(), task)), append(values, []byte("\x01"))
					}
				}
				for i, k := range made {
					if err := p.Set(k, values[i], pebble.Sync); err != nil {
						t.Fatal(err)
					}
				}
				if key(id).Session.Root() == "s1" {
					keys += 1 + rows
				} else {
					stays = append(stays, made...)
				}
			}
			b := p.NewBatch()
			e, err := Fill(b, p, key("s1"), head, keys-c.fewer)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Apply(b, pebble.Sync); err != nil {
				t.Fatal(err)
			}
			if e.Ranges != c.ranges || fmt.Sprint(e.Sessions) != fmt.Sprint([]conversation.SessionKey{key("s1"), key("s1/d1"), key("s1/d1/d1")}) {
				t.Errorf("%+v, want %d ranges", e, c.ranges)
			}
			var left [][]byte
			it, err := p.NewIter(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = it.Close() }()
			for ok := it.First(); ok; ok = it.Next() {
				left = append(left, slices.Clone(it.Key()))
			}
			slices.SortFunc(stays, func(a, b []byte) int { return slices.Compare(a, b) })
			if !slices.EqualFunc(left, stays, slices.Equal) {
				t.Errorf("%q is left instead of %q", left, stays)
			}
		})
	}
}

// A session is erased by ranges where its keys cannot all be read.
func TestFillWithoutReading(t *testing.T) {
	p, err := pebble.Open("store", &pebble.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	if keys, ok := few(unreadable{p}, [][]byte{layout.SessionPrefix(nil, key("s1"))}, 10); ok || len(keys) > 0 {
		t.Errorf("%q was read", keys)
	}
}

// unreadable is a reader whose iterators cannot be made.
type unreadable struct{ pebble.Reader }

func (unreadable) NewIter(*pebble.IterOptions) (*pebble.Iterator, error) {
	return nil, pebble.ErrClosed
}
