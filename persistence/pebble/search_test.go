package pebble

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"parley/conversation"
	"parley/conversation/search"
	"parley/persistence/pebble/internal/layout"
	"parley/persistence/searchtest"
)

func TestIndexIsTheModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fs := vfs.NewMem()
		o := Options{MemTableBytes: 256 << 10, CacheBytes: 1 << 20, OnFatal: func(err error) { rt.Fatalf("fatal: %v", err) }}
		searchtest.Model(rt, func() searchtest.Kept {
			db, err := openOn(fs, "store", o)
			if err != nil {
				rt.Fatal(err)
			}
			return searchtest.Kept{Store: db, Index: Index(db)}
		}, func(k searchtest.Kept) error { return whole(k.Store.(*DB), false) })
	})
}

// After a power cut an index is never ahead of its log; what it lost is taken again.
func TestIndexAfterPowerLoss(t *testing.T) {
	fs := vfs.NewCrashableMem()
	db := openMem(t, fs, testOptions(t))
	key := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	h, err := db.Acquire(t.Context(), key, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := search.Read("text", 1)
	for i := range 40 {
		c := turn(key, &h, crashTime0(h.Last), fmt.Sprint("text ", i))
		if err := db.Commit(t.Context(), key, c); err != nil {
			t.Fatal(err)
		}
		var news search.News
		for _, e := range c.Events {
			news.Add(e)
		}
		if err := Index(db).Keep(t.Context(), key, h.Last, news); err != nil {
			t.Fatal(err)
		}
		h.Last = news.Through
		left, err := openOn(fs.CrashClone(vfs.CrashCloneCfg{}), "store", testOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		head, err := left.Head(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		all, through, err := Index(left).Said(t.Context(), key, text, search.Newest, 1000)
		if err != nil || through > head.Last || len(all) != int(through)/3 {
			t.Errorf("%d texts up to %d of %d, %v", len(all), through, head.Last, err)
		}
		if err := whole(left, false); err != nil {
			t.Error(err)
		}
		if err := left.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// keep takes what a session says next into the index.
func keep(t *testing.T, db *DB, key conversation.SessionKey, texts ...string) {
	t.Helper()
	h, err := db.Acquire(t.Context(), key, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		c := turn(key, &h, crashTime0(h.Last), text)
		var news search.News
		for _, e := range c.Events {
			news.Add(e)
		}
		if err := errors.Join(db.Commit(t.Context(), key, c), Index(db).Keep(t.Context(), key, h.Last, news)); err != nil {
			t.Fatal(err)
		}
		h.Last = news.Through
	}
}

// The words of an erased session leave the disk with its texts, from the log, memory and tables.
func TestErasedWordsLeaveTheDisk(t *testing.T) {
	dir, o := t.TempDir(), testOptions(t)
	o.ErasePause = time.Millisecond
	db, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	key := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	ended := clearings(db)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	keep(t, db, key, secret, "other words")
	flushed(t, db)
	keep(t, db, key, secret)
	word := strings.TrimSpace(search.Fold(secret))[:24]
	if kinds := filesWith(t, dir, word); len(kinds) == 0 {
		t.Fatalf("before the erasure the words are in %q", kinds)
	}
	if err := errors.Join(db.Delete(t.Context(), key), <-ended); err != nil {
		t.Fatal(err)
	}
	deleted(t, db)
	if kinds := filesWith(t, dir, word); len(kinds) > 0 {
		t.Errorf("after the clearing the words are in %q", kinds)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// A session has few blocks of words, however many news there were, and finds by all of them;
// what an index of another version kept is no index, and is made anew.
func TestBlocksAreJoined(t *testing.T) {
	db := openMem(t, vfs.NewMem(), testOptions(t))
	key := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	var texts []string
	for i := range 600 {
		texts = append(texts, fmt.Sprintf("common w%d", i))
	}
	keep(t, db, key, texts...)
	blocks := func() (n int) {
		prefix := layout.WordsPrefix(nil, key)
		if err := walk(db.p, prefix, layout.After(prefix), func(_, _ []byte) (bool, error) { n++; return true, nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := blocks(); n > 25 {
		t.Errorf("%d blocks", n)
	}
	finds := func(text string, want int) {
		t.Helper()
		q, err := search.Read(text, 2)
		if err != nil {
			t.Fatal(err)
		}
		if all, _, err := Index(db).Said(t.Context(), key, q, search.Newest, 1000); err != nil || len(all) != want {
			t.Errorf("%q is found %d times instead of %d, %v", text, len(all), want, err)
		}
	}
	finds("comm", 600)
	finds("w7", 1+10)
	finds("w599 common", 1)
	finds("absent", 0)
	if err := db.p.Set(layout.KeySaidTo(nil, key), layout.AppendU64(nil, 1800), nil); err != nil {
		t.Fatal(err)
	}
	finds("comm", 0)
	var news search.News
	for r, err := range db.Records(t.Context(), key, conversation.Range{Limit: 100}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range r.Events {
			news.Add(e)
		}
	}
	if err := Index(db).Keep(t.Context(), key, 0, news); err != nil {
		t.Fatal(err)
	}
	finds("comm", 100)
	if n := blocks(); n != 1 {
		t.Errorf("%d blocks after it was made anew", n)
	}
	if err := whole(db, false); err != nil {
		t.Error(err)
	}
}

// A store of layout 5 has no gates and sieves. A start takes it over; what can be found is made
// again, and until then nothing of before is found or in the way.
func TestUpgradeOfLayout5(t *testing.T) {
	fs := vfs.NewMem()
	db := openMem(t, fs, testOptions(t))
	key := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	keep(t, db, key, "one", "two")
	at := layout.KeySaidTo(nil, key)
	v, closer, err := db.p.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	before := append([]byte{}, v...)
	before[8] = 1 // the version of the index of layout 5
	sieves := layout.SievesPrefix(nil, key)
	if err := errors.Join(closer.Close(), db.p.Set(at, before, nil), db.p.Delete(layout.KeyGate(nil, key), nil),
		db.p.DeleteRange(sieves, layout.After(sieves), nil), db.p.Set(layout.KeySchema, layout.AppendU32(nil, 5), nil), db.Close()); err != nil {
		t.Fatal(err)
	}
	if db, err = openOn(fs, "store", testOptions(t)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if v, err := db.Layout(); err != nil || v != layout.Version {
		t.Errorf("layout %d, %v", v, err)
	}
	if err := whole(db, false); err != nil {
		t.Error(err)
	}
	q, _ := search.Read("two", 1)
	if _, ok, err := Index(db).Where(t.Context(), "acme", "alice", q, "", 9); ok || err != nil {
		t.Errorf("a guide that has looked at nothing knows where to look, %v", err)
	}
	if _, through, err := Index(db).Said(t.Context(), key, q, search.Newest, 9); err != nil || through != 0 {
		t.Errorf("kept up to %d, %v", through, err)
	}
	var news search.News
	for r, err := range db.Records(t.Context(), key, conversation.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range r.Events {
			news.Add(e)
		}
	}
	Index(db).Follow()
	if err := Index(db).Keep(t.Context(), key, 0, news); err != nil {
		t.Fatal(err)
	}
	Index(db).Whole()
	w, ok, err := Index(db).Where(t.Context(), "acme", "alice", q, "", 9)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if some, err := w.Some(t.Context(), 9); err != nil || len(some) != 1 || !some[0].Kept {
		t.Errorf("%+v, %v", some, err)
	}
	if err := whole(db, false); err != nil {
		t.Error(err)
	}
}

// What too many sessions have said is not noted without end: then nobody is guided until all have
// been looked at again.
func TestTooManyAreBehind(t *testing.T) {
	db := openMem(t, vfs.NewMem(), testOptions(t))
	key := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	keep(t, db, key, "one")
	x, q := Index(db), search.Query{}
	knows := func(want bool) {
		t.Helper()
		_, ok, err := x.Where(t.Context(), "acme", "alice", q, "", 9)
		_, whole, err2 := x.Behind(t.Context(), 9)
		if ok != want || whole != want || errors.Join(err, err2) != nil {
			t.Errorf("guided: %v, %v instead of %v, %v", ok, whole, want, errors.Join(err, err2))
		}
	}
	x.Whole()
	knows(false) // before Follow
	x.Follow()
	knows(false)
	x.Whole()
	knows(true)
	for n := range 1<<16 + 1 {
		x.Unread(conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprint(n))})
	}
	knows(false)
	x.Whole()
	knows(false)
	x.Follow()
	x.Whole()
	knows(true)
}

// Gates and sieves that contradict what can be found are seen.
func TestVerifySeesGatesAndSieves(t *testing.T) {
	key := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	other := conversation.SessionKey{Tenant: "acme", Session: "s2"}
	var block layout.WordsKey
	for says, damage := range map[string]func(db *DB) error{
		"gate 16":                    func(db *DB) error { return db.p.Set(layout.KeyGate(nil, key), []byte{layout.IndexVersion}, nil) },
		"but nothing of it":          func(db *DB) error { return db.p.Set(layout.KeyGate(nil, other), []byte{0}, nil) },
		"sieve 17":                   func(db *DB) error { return db.p.Set(layout.SievesPrefix(nil, key), nil, nil) },
		"a sieve without a block":    func(db *DB) error { return db.p.Set(layout.KeySieve(nil, other, block), nil, nil) },
		"that its sieve keeps back":  func(db *DB) error { return db.p.Set(layout.KeySieve(nil, key, block), []byte{1, 0, 0}, nil) },
		"words that its sieve keeps": func(db *DB) error { return db.p.Delete(layout.KeySieve(nil, key, block), nil) },
	} {
		db := openMem(t, vfs.NewMem(), testOptions(t))
		keep(t, db, key, "one two")
		prefix := layout.WordsPrefix(nil, key)
		if err := walk(db.p, prefix, layout.After(prefix), func(k, _ []byte) (bool, error) {
			block, _ = layout.CutWordsKey(k[len(prefix):])
			return false, nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := damage(db); err != nil {
			t.Fatal(err)
		}
		report, err := db.Verify(t.Context(), VerifyHow{})
		if err != nil || len(report.Problems) != 1 || !strings.Contains(report.Problems[0].String(), says) {
			t.Errorf("%q: %v, %v", says, report.Problems, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
