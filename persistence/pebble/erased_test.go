package pebble

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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
	"parley/persistence/pebble/internal/upkeep"
)

// secret is what one session says and no other: nothing that compresses.
const secret = "kq7ZwX2vR9tB4nJ8mC1yG5hD0sLpF3aE"

// secretAuthor is who says it: the name stands in a key, and so in what deletes the key.
const secretAuthor = "pW4xN8bV1cM6zQ3rT7yU2iK9oJ5hG0fD"

// say commits one message.
func say(t *testing.T, db *DB, id conversation.SessionID, text string) {
	t.Helper()
	if err := said(t.Context(), db, id, text); err != nil {
		t.Fatal(err)
	}
}

func said(ctx context.Context, db *DB, id conversation.SessionID, text string) error {
	key := conversation.SessionKey{Tenant: "acme", Session: id}
	h, err := db.Acquire(ctx, key, conversation.AcquireHow{Create: true})
	if err != nil {
		return err
	}
	c := turn(key, &h, time.UnixMilli(1_700_000_000_000).UTC(), text)
	if text == secret {
		c.Keys[0].Key.Author = secretAuthor
	}
	return db.Commit(ctx, key, c)
}

// filesWith lists the files of a directory that hold the text, by the kind of file.
func filesWith(t *testing.T, dir, text string) (kinds []string) {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name.Name()))
		if os.IsNotExist(err) || name.IsDir() {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(text)) {
			kinds = append(kinds, strings.TrimPrefix(filepath.Ext(name.Name()), "."))
		}
	}
	return kinds
}

// deleted waits until Pebble is at rest and has removed all files that it does not
// need any more. A compaction of its own may still hold them, and the last reader
// of a table has it removed behind its back.
func deleted(t *testing.T, db *DB) {
	t.Helper()
	for {
		m := db.p.Metrics()
		if m.Compact.NumInProgress == 0 && m.Flush.NumInProgress == 0 &&
			m.Table.ZombieCount == 0 && m.Table.ObsoleteCount == 0 && m.WAL.ObsoleteFiles == 0 {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("the files are still there at the end of the test")
		}
		runtime.Gosched()
	}
	db.p.TestOnlyWaitForCleaning()
}

// clearings makes a store tell when a clearing has ended.
func clearings(db *DB) <-chan error {
	ended := make(chan error, 100) // more than there can be
	needs := db.upkeep.Needs
	needs.Cleared = func(err error) { ended <- err }
	db.upkeep.Close()
	db.upkeep = upkeep.Start(needs)
	return ended
}

func bottom(t *testing.T, db *DB) {
	t.Helper()
	if err := db.p.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
		t.Fatal(err)
	}
}

func flushed(t *testing.T, db *DB) {
	t.Helper()
	if err := db.p.Flush(); err != nil {
		t.Fatal(err)
	}
}

// Where the text of a session can be when the session is erased.
var placesOfText = []struct {
	name string
	kind string // of the file that has it before the erasure
	make func(t *testing.T, db *DB)
}{
	{"log", "log", func(t *testing.T, db *DB) { say(t, db, "s1", secret) }},
	{"log, among others", "log", func(t *testing.T, db *DB) {
		for n := range 60 {
			say(t, db, conversation.SessionID(fmt.Sprintf("r%d", n)), "other words")
		}
		say(t, db, "s1", secret)
	}},
	{"level 0", "sst", func(t *testing.T, db *DB) {
		say(t, db, "s1", secret)
		flushed(t, db)
	}},
	{"last level, alone", "sst", func(t *testing.T, db *DB) {
		say(t, db, "s1", secret)
		bottom(t, db)
	}},
	{"last level, among others", "sst", func(t *testing.T, db *DB) {
		for n := range 60 {
			say(t, db, conversation.SessionID(fmt.Sprintf("r%d", n)), "other words")
			say(t, db, conversation.SessionID(fmt.Sprintf("t%d", n)), "other words")
		}
		say(t, db, "s1", secret)
		bottom(t, db)
	}},
	{"level 0 above others", "sst", func(t *testing.T, db *DB) {
		for n := range 60 {
			say(t, db, conversation.SessionID(fmt.Sprintf("r%d", n)), "other words")
		}
		bottom(t, db)
		say(t, db, "s1", secret)
		flushed(t, db)
		say(t, db, "z", "later words")
		flushed(t, db)
	}},
	{"sub-session", "sst", func(t *testing.T, db *DB) {
		say(t, db, "s1", "nothing")
		say(t, db, "s1-", "a name between")
		say(t, db, "s1/d1", secret)
		bottom(t, db)
	}},
	{"what channels remember", "sst", func(t *testing.T, db *DB) {
		say(t, db, "s1", "nothing")
		for n := range 60 {
			key := chats.Key{Tenant: "acme", Channel: "slack", Chat: chats.Chat(fmt.Sprint("slack:", n))}
			session, text := conversation.SessionID(fmt.Sprintf("s%d", n)), "other words"
			if n == 1 {
				text = secret
			}
			for over := range chats.Revision(2) {
				if err := db.Chats().Save(t.Context(), "acme", []chats.Row{{Key: key, Revision: over, Session: session, Value: []byte(text)}},
					[]chats.Entry{{Session: session, Value: []byte(text)}}); err != nil {
					t.Fatal(err)
				}
			}
			if n == 30 {
				bottom(t, db)
			}
		}
		flushed(t, db)
	}},
}

// Erased text is in no file of the directory: after the clearing that follows an
// erasure, while others write; after a stop right behind the erasure; and after a
// start that finds what a killed process left.
func TestErasedTextLeavesTheDisk(t *testing.T) {
	key := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	for _, c := range placesOfText {
		t.Run(c.name, func(t *testing.T) {
			open := func(dir string, pause time.Duration) *DB {
				o := testOptions(t)
				o.ErasePause = pause
				db, err := Open(dir, o)
				if err != nil {
					t.Fatal(err)
				}
				return db
			}
			made := func(t *testing.T, pause time.Duration) (dir string, db *DB) {
				dir = t.TempDir()
				db = open(dir, pause)
				c.make(t, db)
				deleted(t, db)
				if kinds := filesWith(t, dir, secret); !slices.Contains(kinds, c.kind) {
					t.Fatalf("before the erasure the text is in %q, want a %s file", kinds, c.kind)
				}
				return dir, db
			}
			erase := func(t *testing.T, db *DB) {
				if err := db.Delete(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			}
			gone := func(t *testing.T, dir, when string) {
				t.Helper()
				for _, word := range []string{secret, secretAuthor} {
					if kinds := filesWith(t, dir, word); len(kinds) > 0 {
						t.Errorf("%s %s is in %q", when, word, kinds)
					}
				}
			}
			t.Run("running", func(t *testing.T) {
				dir, db := made(t, time.Millisecond)
				ended := clearings(db)
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				busy := make(chan struct{})
				go func() {
					defer close(busy)
					for n := 0; ctx.Err() == nil; n++ {
						_ = said(ctx, db, conversation.SessionID(fmt.Sprintf("busy%d", n)), "loud words")
					}
				}()
				erase(t, db)
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				stop()
				<-busy // a read holds the tables that it began with
				deleted(t, db)
				gone(t, dir, "after the clearing")
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				gone(t, dir, "after the stop")
			})
			t.Run("stopped", func(t *testing.T) {
				dir, db := made(t, time.Hour)
				erase(t, db)
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				gone(t, dir, "after the stop")
			})
			t.Run("killed", func(t *testing.T) {
				dir, db := made(t, time.Hour)
				erase(t, db)
				killed := filepath.Join(t.TempDir(), "store")
				copyRunning(dir, killed)
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				db = open(killed, time.Millisecond)
				ended := clearings(db)
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				deleted(t, db)
				gone(t, killed, "after the clearing of the next start")
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// A snapshot that is older than an erasure keeps the text in the tables, and a
// compaction that meets it leaves the text there for good. So a clearing waits for
// the views that were open; iterators only keep the old files until they are closed.
func TestClearingWaitsForViews(t *testing.T) {
	dir := t.TempDir()
	o := testOptions(t)
	o.ErasePause = time.Hour
	db, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for n := range 60 {
		say(t, db, conversation.SessionID(fmt.Sprintf("r%d", n)), "other words")
	}
	say(t, db, "s1", secret)
	bottom(t, db)
	it, err := db.p.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	closed := sync.OnceValue(it.Close)
	defer closed()
	it.First()
	inView, left := make(chan struct{}), make(chan struct{})
	leave := sync.OnceFunc(func() { close(left) })
	defer leave()
	go func() {
		_ = db.view(t.Context(), "test", func(*pebble.Snapshot) error {
			close(inView)
			<-left
			return nil
		})
	}()
	<-inView
	if err := db.Delete(t.Context(), conversation.SessionKey{Tenant: "acme", Session: "s1"}); err != nil {
		t.Fatal(err)
	}
	cleared := make(chan error)
	go func() { cleared <- db.upkeep.Clear(t.Context()) }()
	for db.views.TryRLock() { // until the clearing waits for its turn
		db.views.RUnlock()
		select {
		case err := <-cleared:
			t.Fatalf("the clearing has not waited for a view: %v", err)
		default:
		}
	}
	leave()
	if err := <-cleared; err != nil {
		t.Fatal(err)
	}
	if err := closed(); err != nil {
		t.Fatal(err)
	}
	deleted(t, db)
	if kinds := filesWith(t, dir, secret); len(kinds) > 0 {
		t.Errorf("the text is in %q", kinds)
	}
}

// No log is kept to be written over, and none is left behind by a stop, with text.
func TestNoLogIsKept(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	logs := func() (n int) {
		names, err := filepath.Glob(filepath.Join(dir, "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	for n := range 8 {
		say(t, db, "s1", fmt.Sprint("words ", n))
		flushed(t, db)
		deleted(t, db)
		if logs() != 1 {
			t.Errorf("after flush %d there are %d logs", n, logs())
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if logs() != 1 {
		t.Errorf("after the stop there are %d logs", logs())
	}
}

// What is cleared is remembered nowhere.
func TestClearedIsForgotten(t *testing.T) {
	db := openMem(t, vfs.NewMem(), testOptions(t))
	say(t, db, "s1", "words")
	if err := db.Delete(t.Context(), conversation.SessionKey{Tenant: "acme", Session: "s1"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := db.upkeep.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		prefix := []byte{layout.TableUncleared}
		err := walk(db.p, prefix, layout.After(prefix), func(k, _ []byte) (bool, error) {
			t.Errorf("key %x is left", k)
			return true, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
