package pebble

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/persistence/chatstest"
	"parley/persistence/pebble/internal/layout"
	check "parley/persistence/pebble/internal/verify"
)

func TestChats(t *testing.T) {
	t.Run("memory file system", func(t *testing.T) {
		chatstest.Run(t, func(t *testing.T) chatstest.Both { return clean(t, openMem(t, vfs.NewMem(), testOptions(t))) })
	})
	t.Run("several committers", func(t *testing.T) {
		chatstest.Run(t, func(t *testing.T) chatstest.Both {
			o := testOptions(t)
			o.Committers, o.Heads = 3, 1
			return clean(t, openMem(t, vfs.NewMem(), o))
		})
	})
	t.Run("disk", func(t *testing.T) {
		chatstest.Run(t, func(t *testing.T) chatstest.Both {
			db, err := Open(t.TempDir(), testOptions(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			return clean(t, db)
		})
	})
}

func TestChatsAreTheModel(t *testing.T) {
	chatstest.RunModel(t, func(rt *rapid.T) (func() chatstest.Both, func(chatstest.Both) error) {
		fs := vfs.NewMem()
		o := Options{MemTableBytes: 256 << 10, CacheBytes: 1 << 20, OnFatal: func(err error) { rt.Fatalf("fatal: %v", err) }}
		open := func() chatstest.Both {
			db, err := openOn(fs, "store", o)
			if err != nil {
				rt.Fatalf("open: %v", err)
			}
			return db
		}
		return open, func(s chatstest.Both) error { return whole(s.(*DB), false) }
	})
}

var chatOfTest = chats.Key{Tenant: "acme", Channel: "telegram", Chat: "telegram:1"}

// chatted saves a row, over the revision, and an entry of a session.
func chatted(db *DB, over chats.Revision, session conversation.SessionID, text string) error {
	return db.Chats().Save(context.Background(), "acme", []chats.Row{{Key: chatOfTest, Revision: over, Session: session, Value: []byte(text)}},
		[]chats.Entry{{At: crashTime0(1), Session: session, Value: []byte(text)}})
}

// What Save and Trim and an erasure have returned stays after a power cut.
func TestChatsAfterPowerLoss(t *testing.T) {
	fs := vfs.NewCrashableMem()
	db := openMem(t, fs, testOptions(t))
	want := func(when string, rev chats.Revision, feed chats.Feed) {
		t.Helper()
		left, err := openOn(fs.CrashClone(vfs.CrashCloneCfg{}), "store", testOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		row, rowErr := left.Chats().Load(t.Context(), chatOfTest)
		is, err := left.Chats().Feed(t.Context(), "acme")
		if err := errors.Join(rowErr, err, left.Close()); err != nil || row.Revision != rev || is != feed {
			t.Errorf("%s: revision %d, feed %+v, %v", when, row.Revision, is, err)
		}
	}
	k := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	if _, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true}); err != nil {
		t.Fatal(err)
	}
	for over := range chats.Revision(3) {
		if err := chatted(db, over, "s1", "text"); err != nil {
			t.Fatal(err)
		}
		want("after a save", over+1, chats.Feed{First: 1, Last: chats.Number(over) + 1})
	}
	if err := db.Chats().Trim(t.Context(), "acme", 2); err != nil {
		t.Fatal(err)
	}
	want("after a trim", 3, chats.Feed{First: 3, Last: 3})
	if err := db.Delete(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	want("after the erasure", 0, chats.Feed{First: 4, Last: 3})
}

// Below the soft watermark chats go on, below the hard one they do not; an erasure and a
// trim, which make room, always do.
func TestChatsWatermarks(t *testing.T) {
	d := &disk{}
	d.total.Store(10000)
	d.free.Store(5000)
	db := onDisk(t, d, nil)
	k := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	if _, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true}); err != nil {
		t.Fatal(err)
	}
	rev := chats.Revision(0)
	for _, c := range []struct {
		free uint64
		want error
	}{{5000, nil}, {999, nil}, {401, nil}, {399, conversation.ErrFull}, {5000, nil}, {10, conversation.ErrFull}} {
		d.free.Store(c.free)
		db.guard.Check()
		err := chatted(db, rev, "s1", "text")
		if !errors.Is(err, c.want) {
			t.Errorf("%d bytes free: %v, want %v", c.free, err, c.want)
		}
		if err == nil {
			rev++
		}
	}
	if err := errors.Join(db.Chats().Trim(t.Context(), "acme", 2), db.Delete(t.Context(), k)); err != nil {
		t.Error(err)
	}
	if feed, err := db.Chats().Feed(t.Context(), "acme"); err != nil || feed != (chats.Feed{First: 5, Last: 4}) {
		t.Errorf("%+v, %v", feed, err)
	}
}

// Readers do not see what a power cut may still take away.
func TestChatsReadersWaitForTheSync(t *testing.T) {
	fs := holdSync(vfs.NewMem())
	db := openMem(t, fs, testOptions(t))
	fs.armed.Store(true)
	saved := make(chan error, 1)
	go func() { saved <- chatted(db, 0, "", "text") }()
	<-fs.entered
	for visible := false; !visible; runtime.Gosched() { // in memory, that is
		if _, closer, err := db.p.Get(layout.KeyFeedEnd(nil, "acme")); err == nil {
			visible = true
			_ = closer.Close()
		}
	}
	var durable atomic.Bool
	readers := map[string]func() (bool, error){
		"load": func() (bool, error) {
			r, err := db.Chats().Load(context.Background(), chatOfTest)
			return r.Revision > 0, err
		},
		"feed": func() (bool, error) { f, err := db.Chats().Feed(context.Background(), "acme"); return f.Last > 0, err },
		"entries": func() (bool, error) {
			e, err := db.Chats().Entries(context.Background(), "acme", 0, 1)
			return len(e) > 0, err
		},
		"rows": func() (bool, error) {
			r, err := listOf(db.Chats().Rows(context.Background(), "acme", "telegram"))
			return len(r) > 0, err
		},
	}
	ended := make(chan error, len(readers))
	for name, read := range readers {
		go func() {
			saw, err := read()
			if saw && !durable.Load() {
				err = errors.New(name + " showed what was not durable")
			}
			ended <- err
		}()
	}
	for range 1000 { // a reader that does not wait is through by now
		runtime.Gosched()
	}
	durable.Store(true)
	fs.armed.Store(false)
	close(fs.release)
	for range readers {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if err := <-saved; err != nil {
		t.Error(err)
	}
}

// One damage for each thing that the tables of what channels remember may not contradict
// each other in.
func TestVerifyFindsDamagedChats(t *testing.T) {
	of := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	row, entry := layout.KeyChatRow(nil, chatOfTest, "s1"), layout.KeyChatEntry(nil, "acme", "s1", 1)
	set := func(k, v []byte) func(*DB) error { return func(db *DB) error { return db.p.Set(k, v, pebble.Sync) } }
	drop := func(k []byte) func(*DB) error { return func(db *DB) error { return db.p.Delete(k, pebble.Sync) } }
	for _, c := range []struct {
		name   string
		rule   check.Rule
		damage func(*DB) error
		says   string
	}{
		{"no damage", "", func(*DB) error { return nil }, ""},
		{"row gone", check.RuleChats, drop(row), "the list of chats has the row of telegram:1, which is not there"},
		{"row not listed", check.RuleChats, drop(layout.KeyChat(nil, chatOfTest)), "session acme/s1: the list of chats does not have the row of telegram:1"},
		{"row of another session", check.RuleChats, set(layout.KeyChat(nil, chatOfTest), layout.AppendChat(nil, 1, "s2")), "does not have the row of telegram:1"},
		{"row never written", check.RuleUnknown, set(layout.KeyChat(nil, chatOfTest), layout.AppendChat(nil, 0, "s1")), "of the list of chats cannot be read"},
		{"list unreadable", check.RuleUnknown, set(layout.KeyChat(nil, chatOfTest), []byte{1}), "of the list of chats cannot be read"},
		{"entry gone", check.RuleChats, drop(entry), "session acme/s1: the feed has entry 1, which is not there"},
		{"entry not listed", check.RuleChats, drop(layout.KeyFeed(nil, "acme", 1)), "the feed does not have entry 1 as one of this session"},
		{"entry unreadable", check.RuleChats, set(entry, []byte{1}), "entry 1 of the feed cannot be read"},
		{"end of the feed gone", check.RuleChats, drop(layout.KeyFeedEnd(nil, "acme")), "has entry 1, but says that it ends with 0"},
		{"end of the feed unreadable", check.RuleUnknown, set(layout.KeyFeedEnd(nil, "acme"), []byte{1}), "of the ends of feeds cannot be read"},
		{"a strange key", check.RuleUnknown, set(append(layout.ChatsPrefix(nil, of), 0x77), nil), "of what channels remember cannot be read"},
		{"a strange table", check.RuleUnknown, set([]byte{layout.TableFeedEnd + 1}, nil), "belongs to no table"},
		{"left of an erased session", check.RuleTombstones, set(layout.KeyTombstone(nil, of), layout.AppendTombstone(nil, 2, crashTime0(1))), "it was erased, but 2 keys of it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := openMem(t, vfs.NewMem(), testOptions(t))
			if err := errors.Join(chatted(db, 0, "s1", "text"), c.damage(db)); err != nil {
				t.Fatal(err)
			}
			report, err := db.Verify(t.Context(), VerifyHow{})
			if err != nil || (report.All() == 0) != (c.rule == "") {
				t.Fatalf("%v, %v", report.Problems, err)
			}
			found := c.rule == ""
			for _, p := range report.Problems {
				found = found || p.Rule == c.rule && strings.Contains(p.String(), c.says)
			}
			if !found {
				t.Errorf("%v, want %s: %q", report.Problems, c.rule, c.says)
			}
			if n := report.Counts; c.rule == "" && (n.Chats != 1 || n.Entries != 1) {
				t.Errorf("counted %+v", n)
			}
		})
	}
}

// A store that is open for reading shows what channels remember and takes nothing.
func TestChatsReadOnly(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(chatted(db, 0, "s1", "text"), db.Close()); err != nil {
		t.Fatal(err)
	}
	if db, err = OpenReadOnly(dir, testOptions(t)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if row, err := db.Chats().Load(t.Context(), chatOfTest); err != nil || string(row.Value) != "text" {
		t.Errorf("%+v, %v", row, err)
	}
	if err := chatted(db, 1, "s1", "more"); !errors.Is(err, ErrReadOnly) {
		t.Errorf("save: %v", err)
	}
	if err := db.Chats().Trim(t.Context(), "acme", 1); !errors.Is(err, ErrReadOnly) {
		t.Errorf("trim: %v", err)
	}
}

// M-31: a store of layout 3 has no tables of what channels remember. A start says that older
// programs cannot open it any more: they would erase sessions and leave those tables.
func TestUpgradeOfLayout3(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	say(t, db, "s1", "text")
	before := dump(t, db, layout.TableMeta)
	if err := errors.Join(db.p.Set(layout.KeySchema, layout.AppendU32(nil, 3), pebble.Sync), db.Close()); err != nil {
		t.Fatal(err)
	}
	if db, err = OpenReadOnly(dir, testOptions(t)); err != nil {
		t.Fatal(err)
	}
	if feed, err := db.Chats().Feed(t.Context(), "acme"); err != nil || feed != (chats.Feed{First: 1}) {
		t.Errorf("for reading only: %+v, %v", feed, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = Open(dir, testOptions(t)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if v, err := db.Layout(); err != nil || v != layout.Version || dump(t, db, layout.TableMeta) != before {
		t.Errorf("layout %d, %v, %s", v, err, dump(t, db, layout.TableMeta))
	}
	if err := chatted(db, 0, "s1", "text"); err != nil {
		t.Error(err)
	}
}
