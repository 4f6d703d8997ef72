package pebble

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/persistence/pebble/internal/layout"
)

// layout1 unpacks the directory of a store that a program of layout 1 has left:
// sessions, sub-sessions, a part key without an index, and three erased sessions.
func layout1(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	packed, err := os.Open("testdata/layout1.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }()
	unzip, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(unzip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(h.Name)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// dump is every key and value, but for those of the tables that a step may change.
func dump(t *testing.T, db *DB, but ...byte) string {
	t.Helper()
	var out strings.Builder
	err := walk(db.p, nil, nil, func(k, v []byte) (bool, error) {
		if !bytes.Contains(but, k[:1]) {
			fmt.Fprintf(&out, "%x ff%x\n", k, v)
		}
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// lines drops those of the golden dump that begin with one of the prefixes.
func lines(t *testing.T, file string, but ...string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(raw)) {
		drop := strings.HasPrefix(line, "#")
		for _, prefix := range but {
			drop = drop || strings.HasPrefix(line, prefix)
		}
		if !drop {
			out.WriteString(line)
		}
	}
	return out.String()
}

// files is the directory's content.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found[name.Name()] = string(b)
	}
	return found
}

// times reads the tombstones.
func times(t *testing.T, db *DB) map[conversation.SessionID]time.Time {
	t.Helper()
	found := map[conversation.SessionID]time.Time{}
	prefix := []byte{layout.TableTombstone}
	err := walk(db.p, prefix, layout.After(prefix), func(k, v []byte) (bool, error) {
		key, _, _ := layout.CutSession(k[1:])
		_, at, ok := layout.CutTombstone(v)
		if !ok {
			t.Errorf("tombstone %x: %x", k, v)
		}
		found[key.Session] = at
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// M-31, M-12: a store of an older layout is read without being changed, and taken to
// the new layout by a start: everything else is as it was, an erased session stays
// erased and its tombstone has a time. A second start changes nothing more.
func TestUpgradeOfLayout1(t *testing.T) {
	dir := layout1(t)
	db, err := OpenReadOnly(dir, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := dump(t, db), lines(t, "testdata/layout1.txt"); got != want {
		t.Errorf("for reading only, the store holds\n%s\nwant\n%s", got, want)
	}
	if v, err := db.Layout(); err != nil || v != 1 {
		t.Errorf("layout %d, %v", v, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before := files(t, dir)
	checked, err := Check(dir, func(int64, int64) {})
	if err != nil || checked.Layout != 1 {
		t.Errorf("a check says %+v, %v", checked, err)
	}
	if !maps.Equal(files(t, dir), before) {
		t.Error("the check has changed the store")
	}
	var first map[conversation.SessionID]time.Time
	for start := range 2 {
		var log strings.Builder
		o := testOptions(t)
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		o.ErasePause = time.Hour
		before := time.Now().Truncate(time.Millisecond)
		if db, err = Open(dir, o); err != nil {
			t.Fatal(err)
		}
		if v, err := db.Layout(); err != nil || v != layout.Version {
			t.Errorf("start %d: layout %d, %v", start, v, err)
		}
		if got, want := dump(t, db, layout.TableTombstone, layout.TableUncleared, layout.TableMeta), lines(t, "testdata/layout1.txt", "00", "06"); got != want {
			t.Errorf("start %d: the store holds\n%s\nwant\n%s", start, got, want)
		}
		found := times(t, db)
		if start == 0 {
			first = found
		}
		for _, id := range []conversation.SessionID{"s4", "s5", "s8"} {
			if at := found[id]; at.Before(before) && start == 0 || !at.Equal(first[id]) || len(found) != 3 {
				t.Errorf("start %d: tombstones %v", start, found)
			}
			_, err := db.Acquire(t.Context(), conversation.SessionKey{Tenant: "acme", Session: id}, conversation.AcquireHow{Create: true})
			if !errors.Is(err, conversation.ErrNotFound) {
				t.Errorf("start %d: %s can be made again: %v", start, id, err)
			}
		}
		if said := strings.Contains(log.String(), "the store was upgraded"); said != (start == 0) {
			t.Errorf("start %d said\n%s", start, &log)
		}
		seqs, err := db.Find(t.Context(), conversation.SessionKey{Tenant: "acme", Session: "s1"}, []conversation.Key{{Source: "old"}})
		if err != nil || seqs[0] != 3 {
			t.Errorf("start %d: the part key without an index names %v, %v", start, seqs, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// M-31: an upgrade that was killed in the middle is done again: the version is still
// the old one, and what has its time keeps it.
func TestUpgradeAfterKill(t *testing.T) {
	dir := layout1(t)
	p, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: format, Logger: pebbleLogger{&health{log: slog.New(slog.DiscardHandler)}}})
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMilli(1_700_000_000_000).UTC()
	key := conversation.SessionKey{Tenant: "acme", Session: "s5"}
	if err := errors.Join(p.Set(layout.KeyTombstone(nil, key), layout.AppendTombstone(nil, 7, at), pebble.Sync), p.Close()); err != nil {
		t.Fatal(err)
	}
	db, err := Open(dir, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	found := times(t, db)
	if !found["s5"].Equal(at) || !found["s4"].After(at) || !found["s8"].After(at) {
		t.Errorf("tombstones %v", found)
	}
	if v, err := db.Layout(); err != nil || v != layout.Version {
		t.Errorf("layout %d, %v", v, err)
	}
}

// M-31: a store of layout 2 does not say which tasks wait for an outside
// runtime. A start finds the RUNNING ones of outside sessions, and no others, in the
// list of all tasks; the store then keeps its own word of them.
func TestUpgradeOfLayout2(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	key := func(id string) conversation.SessionKey {
		return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(id)}
	}
	commit := func(id string, agent conversation.AgentName, status conversation.TaskStatus, second conversation.Seq) {
		t.Helper()
		head, err := db.Acquire(t.Context(), key(id), conversation.AcquireHow{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		now := crashTime0(second)
		if err := db.Commit(t.Context(), key(id), conversation.Commit{
			Epoch: head.Epoch, ID: conversation.CommitID("c-" + id),
			Events:  []conversation.Event{{Seq: 1, At: now, Body: conversation.SessionCreated{Agent: agent, Owner: "alice"}}},
			Tasks:   []conversation.TaskRow{{Task: conversation.TaskID("t1-" + id), Status: status, Agent: agent, Owner: "alice", CreatedAt: now, UpdatedAt: now, First: 1, Last: 1}},
			Summary: conversation.Summary{Agent: agent, Owner: "alice", CreatedAt: now, Activity: now},
		}); err != nil {
			t.Fatal(err)
		}
	}
	commit("younger", "outside", conversation.TaskRunning, 9)
	commit("older", "outside", conversation.TaskRunning, 3)
	commit("ended", "outside", conversation.TaskComplete, 1)
	commit("queued", "outside", conversation.TaskQueued, 2)
	commit("ours", "coordinator", conversation.TaskRunning, 4)
	if err := errors.Join(db.p.Set(layout.KeySchema, layout.AppendU32(nil, 2), pebble.Sync), db.Close()); err != nil {
		t.Fatal(err)
	}
	for start := range 2 {
		if db, err = Open(dir, testOptions(t)); err != nil {
			t.Fatal(err)
		}
		var found []string
		for c, err := range db.Claimable(t.Context(), "acme") {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, fmt.Sprint(c.Key.Session, " ", c.Task, " ", c.Agent, " ", c.Runtime))
		}
		if got := strings.Join(found, "; "); got != "older t1-older outside ; younger t1-younger outside " {
			t.Errorf("start %d: may be claimed: %s", start, got)
		}
		if v, err := db.Layout(); err != nil || v != layout.Version {
			t.Errorf("start %d: layout %d, %v", start, v, err)
		}
		report, err := db.Verify(t.Context(), VerifyHow{})
		if err != nil || report.All() != 0 {
			t.Errorf("start %d: %v, %v", start, report.Problems, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
