package pebble

import (
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/persistence/pebble/internal/layout"
)

// A record that is missing in the middle of a log, or at one of its ends, is an
// error of the read that comes to it, never a shorter history.
func TestMissingRecord(t *testing.T) {
	const commits = 12
	k := crashKey(0)
	var lasts []conversation.Seq
	for seq := following(0); len(lasts) < commits; seq = following(seq) {
		lasts = append(lasts, seq)
	}
	end := lasts[commits-1]
	for _, lost := range []int{0, 5, commits - 1} {
		db := openMem(t, vfs.NewMem(), testOptions(t))
		h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		for range commits {
			if err := db.Commit(t.Context(), k, crashCommit(k, h.Epoch, h.Last)); err != nil {
				t.Fatal(err)
			}
			h.Last = following(h.Last)
		}
		if err := db.p.Delete(layout.KeyRecord(nil, k, lasts[lost]), pebble.Sync); err != nil {
			t.Fatal(err)
		}
		before, from := conversation.Seq(0), lasts[lost]
		if lost > 0 {
			before = lasts[lost-1]
		}
		for name, c := range map[string]struct {
			r    conversation.Range
			gap  bool
			want []conversation.Seq // the ends of the records that are read before
		}{
			"all":                {conversation.Range{}, true, lasts[:lost]},
			"backwards":          {conversation.Range{Reverse: true}, true, reversed(lasts[lost+1:])},
			"from the gap":       {conversation.Range{After: before}, true, nil},
			"within the gap":     {conversation.Range{After: from - 1, Before: from + 1}, true, nil},
			"backwards from it":  {conversation.Range{Before: from + 1, Reverse: true}, true, nil},
			"up to the gap":      {conversation.Range{Before: before + 1}, false, lasts[:lost]},
			"behind the gap":     {conversation.Range{After: from}, false, lasts[lost+1:]},
			"backwards up to it": {conversation.Range{After: from, Reverse: true}, false, reversed(lasts[lost+1:])},
		} {
			records, err := listOf(db.Records(t.Context(), k, c.r))
			var got []conversation.Seq
			for _, r := range records {
				got = append(got, r.Events[len(r.Events)-1].Seq)
			}
			if errors.Is(err, errGap) != c.gap || errors.Is(err, conversation.ErrDamaged) != c.gap || err != nil && !c.gap || !slices.Equal(got, c.want) {
				t.Errorf("record %d of %d lost (up to %d of %d), %s: read %v, %v; want %v, gap %v", lost, commits, from, end, name, got, err, c.want, c.gap)
			}
		}
	}
}

func reversed(s []conversation.Seq) []conversation.Seq {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}

// A stored value that cannot be read is damage, which stays until a person has acted:
// it is not tried again as a failed read is.
func TestDamagedValues(t *testing.T) {
	k := crashKey(0)
	for name, damaged := range map[string]struct {
		key  []byte
		read func(db *DB) error
	}{
		"head": {layout.KeyHead(nil, k), func(db *DB) error { _, err := db.Head(t.Context(), k); return err }},
		"key": {layout.KeyUnique(nil, k, conversation.Key{Source: "n", Part: 1}), func(db *DB) error {
			_, err := db.Find(t.Context(), k, []conversation.Key{{Source: "n", Part: 1}})
			return err
		}},
		"record": {layout.KeyRecord(nil, k, following(0)), func(db *DB) error {
			_, err := listOf(db.Records(t.Context(), k, conversation.Range{}))
			return err
		}},
	} {
		db := openMem(t, vfs.NewMem(), testOptions(t))
		h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
		if err == nil {
			err = db.Commit(t.Context(), k, crashCommit(k, h.Epoch, 0))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := damaged.read(db); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := db.p.Set(damaged.key, []byte{1}, pebble.Sync); err != nil {
			t.Fatal(err)
		}
		if err := damaged.read(db); !errors.Is(err, conversation.ErrDamaged) {
			t.Errorf("a damaged %s: %v", name, err)
		}
	}
}

// The heads of sessions that nobody uses do not fill the memory.
func TestHeadsAreForgotten(t *testing.T) {
	o := testOptions(t)
	o.Heads = 64
	db := openMem(t, vfs.NewMem(), o)
	for i := range 4 * o.Heads {
		k := crashKey(i)
		h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
		if err == nil {
			err = db.Commit(t.Context(), k, crashCommit(k, h.Epoch, 0))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := db.cache.Count(); n == 0 || n > int64(o.Heads) {
		t.Errorf("%d heads are kept of %d sessions, at most %d may be", n, 4*o.Heads, o.Heads)
	}
}

// A task stands in the list of tasks once, also in a store that an older program left
// with an entry of another time.
func TestTaskOfAnotherTime(t *testing.T) {
	db := openMem(t, vfs.NewMem(), testOptions(t))
	k := crashKey(0)
	h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	c := crashCommit(k, h.Epoch, 0)
	if err := db.Commit(t.Context(), k, c); err != nil {
		t.Fatal(err)
	}
	row := c.Tasks[0]
	stray := layout.KeyTaskTime(nil, k.Tenant, row.CreatedAt.UnixMilli()+1, row.Task)
	if err := db.p.Set(stray, append([]byte{byte(row.Status)}, k.Session...), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if list, err := listOf(db.Tasks(t.Context(), conversation.TaskFilter{Tenant: k.Tenant})); err != nil || len(list) != 1 {
		t.Errorf("%d tasks are listed, %v", len(list), err)
	}
}
