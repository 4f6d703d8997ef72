package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"parley/conversation"
	"parley/conversation/search"
	"parley/persistence/pebble/internal/layout"
)

// wantOpenError checks the sentence that a person gets to read.
func wantOpenError(t *testing.T, err error, reason OpenReason, sentence string) {
	t.Helper()
	var e *OpenError
	if !errors.As(err, &e) || e.Reason != reason || !strings.Contains(e.Error(), sentence) || strings.Contains(e.Error(), "\n") {
		t.Errorf("got %v\nwant reason %d: %s", err, reason, sentence)
	}
}

func TestOpenTwice(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, testOptions(t))
	wantOpenError(t, err, OpenInUse, fmt.Sprintf("data directory %s is in use by another process (pid %d)", dir, os.Getpid()))
	log, secret := db.LogID(), Secret(db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, pidFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the PID file is left behind: %v", err)
	}
	if db, err = Open(dir, testOptions(t)); err != nil {
		t.Fatal(err)
	}
	if db.LogID() != log {
		t.Errorf("log id %q, was %q", db.LogID(), log)
	}
	if len(secret) != 32 || !bytes.Equal(Secret(db), secret) {
		t.Errorf("the secret has %d bytes, the same %v", len(secret), bytes.Equal(Secret(db), secret))
	}
	// A store of an older program has none yet.
	if err := db.p.Delete(layout.KeySecret, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = Open(dir, testOptions(t)); err != nil {
		t.Fatal(err)
	}
	if made := Secret(db); len(made) != 32 || bytes.Equal(made, secret) {
		t.Errorf("made %d bytes", len(made))
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenWithoutPermission(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpMkdirAll, errorfs.OpLock, errorfs.OpCreate} {
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == kind {
				return &os.PathError{Op: "open", Path: op.Path, Err: os.ErrPermission}
			}
			return nil
		}))
		_, err := openOn(fs, "store", testOptions(t))
		wantOpenError(t, err, OpenPermission, fmt.Sprintf("cannot write to store: permission denied, running as uid %d", os.Getuid()))
	}
}

// A file where the directory should be, or one on the way to it, is called a file.
func TestOpenAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "data")} {
		_, err := Open(dir, testOptions(t))
		wantOpenError(t, err, OpenFailed, file+" is a file, not a directory")
		_, err = OpenReadOnly(dir, testOptions(t))
		wantOpenError(t, err, OpenFailed, file+" is a file, not a directory")
		if _, err = BackupStopped(t.Context(), dir, filepath.Join(t.TempDir(), "b"), "test"); err == nil || err.Error() != file+" is a file, not a directory" {
			t.Errorf("a backup of %s: %v", dir, err)
		}
	}
}

func TestOpenForeignDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(dir, testOptions(t))
	wantOpenError(t, err, OpenForeign, dir+" is not a parley data directory")
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("a refused directory was written to: %v", left)
	}

	// What a file system puts into an empty volume does not make it foreign.
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := Open(dir, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	_ = db.Close()

	// Somebody else's Pebble.
	fs := vfs.NewMem()
	p, err := pebble.Open("store", &pebble.Options{FS: fs, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Set([]byte("k"), nil, pebble.Sync), p.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = openOn(fs, "store", testOptions(t))
	wantOpenError(t, err, OpenForeign, "store is not a parley data directory")
}

func TestOpenNewerVersion(t *testing.T) {
	fs := vfs.NewMem()
	db := openMem(t, fs, testOptions(t))
	if err := errors.Join(db.p.Set(layout.KeySchema, layout.AppendU32(nil, layout.Version+1), pebble.Sync), db.Close()); err != nil {
		t.Fatal(err)
	}
	_, err := openOn(fs, "store", testOptions(t))
	wantOpenError(t, err, OpenTooNew, fmt.Sprintf("store was written by a newer version (layout %d > %d)", layout.Version+1, layout.Version))
	if !errors.Is(err, conversation.ErrTooNew) {
		t.Errorf("%v is not ErrTooNew", err)
	}
	f, err := fs.Create("store/marker.format-version.000099.026", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	_, err = openOn(fs, "store", testOptions(t))
	wantOpenError(t, err, OpenTooNew, "store was written by a newer version (format 26 > 24)")
}

// A store without its log id is damaged: with none at all every client would take it
// for the log that it knows.
func TestOpenWithoutLogID(t *testing.T) {
	fs := vfs.NewMem()
	db := openMem(t, fs, testOptions(t))
	if err := errors.Join(db.p.Delete(layout.KeyLog, pebble.Sync), db.Close()); err != nil {
		t.Fatal(err)
	}
	_, err := openOn(fs, "store", testOptions(t))
	wantOpenError(t, err, OpenFailed, "its schema or log key is damaged")
}

// A crash between the two openings of a new store leaves one that is finished by
// the next Open.
func TestOpenAfterCrashAtCreation(t *testing.T) {
	for n := range 200 {
		fs := vfs.NewCrashableMem()
		inject := errorfs.OnIndex(int32(n))
		broken := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
				return nil
			}
			return inject.MaybeError(op)
		}))
		db, failed, err := openDying(broken, Options{MemTableBytes: 1 << 20})
		if err == nil && !failed {
			_ = db.Close()
			if n < 10 {
				t.Fatalf("only %d writes at creation", n)
			}
			return
		}
		left := fs.CrashClone(vfs.CrashCloneCfg{})
		again, err := openOn(left, "store", testOptions(t))
		if err != nil {
			names, _ := left.List("store")
			t.Fatalf("write %d failed at creation, leaving %v; then: %v", n, names, err)
		}
		if again.LogID() == "" {
			t.Fatalf("write %d failed at creation: no log id", n)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("creation never succeeded")
}

// openDying opens a store in a process that stands still at its first fatal error,
// as if it were gone.
func openDying(fs vfs.FS, o Options) (db *DB, died bool, err error) {
	dead := make(chan struct{})
	o.OnFatal = func(error) { close(dead); select {} }
	done := make(chan struct{})
	go func() {
		db, err = openOn(fs, "store", o)
		close(done)
	}()
	select {
	case <-done:
		return db, false, err
	case <-dead:
		return nil, true, nil
	}
}

// filled makes a store with one session of n commits and returns its file system
// as a killed process leaves it.
func filledStore(t *testing.T, n int, flush bool) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	db := openMem(t, fs, testOptions(t))
	k := crashKey(0)
	h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := db.Commit(t.Context(), k, crashCommit(k, h.Epoch, h.Last)); err != nil {
			t.Fatal(err)
		}
		h.Last = following(h.Last)
	}
	if flush {
		if err := db.p.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	return fs.CrashClone(vfs.CrashCloneCfg{})
}

// flip turns bits in the middle of the newest file with the suffix; it returns
// the file's name.
func flip(t *testing.T, fs vfs.FS, suffix string, where func(size int) int) string {
	t.Helper()
	names, err := fs.List("store")
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, suffix) })
	slices.Sort(names)
	if len(names) == 0 {
		t.Fatalf("no %s file", suffix)
	}
	name := names[len(names)-1]
	f, err := fs.Open("store/" + name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	at := where(len(b))
	for i := range 8 {
		b[at+i] ^= 0xff
	}
	w, err := fs.Create("store/"+name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(b)
	if err := errors.Join(err, w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
	return name
}

// Damage in the middle of the log is refused, never forgotten; in the very first
// log of a directory, too, which is not full after so few commits.
func TestDamagedLog(t *testing.T) {
	fs := filledStore(t, 100, false)
	name := flip(t, fs, ".log", func(size int) int { return size / 4 })
	_, err := openOn(fs, "store", testOptions(t))
	wantOpenError(t, err, OpenCorrupt, "store is damaged")
	if err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(name, ".log")) || !strings.Contains(err.Error(), "parley restore") {
		t.Errorf("the sentence does not name %s and what to do: %v", name, err)
	}
	t.Log(err)
}

// Damage in a table surfaces as an error of the read and in Health, never as a
// short history.
func TestDamagedTable(t *testing.T) {
	fs := filledStore(t, 300, true)
	flip(t, fs, ".sst", func(size int) int { return size / 3 })
	db, err := openOn(fs, "store", testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	records, err := listOf(db.Records(t.Context(), crashKey(0), conversation.Range{}))
	if err == nil {
		t.Fatalf("%d records read from a damaged table without an error", len(records))
	}
	if h := db.Health(); h == nil || !strings.Contains(h.Error(), ".sst") {
		t.Errorf("health: %v", h)
	}
	if s, ok := db.stats(); !ok || s.Healthy {
		t.Error("metrics show a healthy store")
	}
	t.Log(db.Health())
}

// What a commit cannot read because of damage is known not to be written, and is
// called damage, as in a load.
func TestCommitMeetsDamage(t *testing.T) {
	met := 0
	for part := 1; part < 40 && met == 0; part += 4 {
		fs := filledStore(t, 100, true)
		flip(t, fs, ".sst", func(size int) int { return (size - 8) * part / 40 })
		db, err := openOn(fs, "store", testOptions(t))
		if err != nil {
			continue // the damage is refused at once
		}
		key := crashKey(0)
		head, err := db.Acquire(t.Context(), key, conversation.AcquireHow{})
		if err != nil && !errors.Is(err, conversation.ErrDamaged) {
			t.Errorf("damage at %d/40: acquire: %v", part, err)
		}
		for seq := conversation.Seq(1); err == nil && seq <= head.Last; seq += 5 {
			stored := conversation.Key{Source: "n", Part: conversation.PartIndex(seq)}
			var duplicate *conversation.DuplicateError
			failed := db.Commit(t.Context(), key, conversation.Commit{
				Epoch: head.Epoch, After: head.Last, Keys: []conversation.KeyAt{{Key: stored, Seq: head.Last + 1}},
			})
			switch {
			case errors.As(failed, &duplicate):
			case errors.Is(failed, conversation.ErrDamaged):
				met++
			default:
				t.Fatalf("damage at %d/40: a commit with a stored key: %v", part, failed)
			}
		}
		_ = db.Close()
	}
	if met == 0 {
		t.Error("no commit met the damage")
	}
}

// N-02: the n-th write of a whole life fails, for every n: nothing acknowledged is
// lost and no commit is torn. Then the power goes: what was not synced is all
// there, or all gone. Not a part of it: Pebble names a new manifest and the
// marker that points to it by one sync of the directory, and when that sync is
// the write that fails, a file system that kept the marker without the manifest
// would leave nothing to open. TestPowerLoss keeps parts.
func TestFailingWrites(t *testing.T) {
	rng := crashSeed(t)
	for n := 0; ; n++ {
		fs := vfs.NewCrashableMem()
		acked, fired := lifeOn(fs, n)
		left := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100 * rng.IntN(2), RNG: rng})
		db, err := openOn(left, "store", testOptions(t))
		if err != nil {
			t.Fatalf("write %d failed; then open: %v", n, err)
		}
		if err := verify(db, acked, true); err != nil {
			t.Fatalf("write %d failed: %v", n, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if !fired {
			t.Logf("%d writes failed, one at a time", n)
			if n < 50 || acked[1] == 0 {
				t.Fatal("the life was too short to show anything")
			}
			return
		}
	}
}

// A log write that fails is never taken for a success: the commit's outcome is
// unknown, OnFatal is called, and nothing is written any more.
func TestFailingLog(t *testing.T) {
	fs := vfs.NewMem()
	var broken atomic.Bool
	var tables atomic.Int32
	fatal := make(chan error, 1)
	o := Options{MemTableBytes: 1 << 20, OnFatal: func(err error) { fatal <- err }}
	db, err := openOn(errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && strings.HasSuffix(op.Path, ".log") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return errors.New("bad sector")
		}
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			tables.Add(1)
		}
		return nil
	})), "store", o)
	if err != nil {
		t.Fatal(err)
	}
	k := crashKey(0)
	h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Commit(t.Context(), k, crashCommit(k, h.Epoch, 0)); err != nil || db.Health() != nil {
		t.Fatalf("a healthy store: %v, %v", err, db.Health())
	}
	broken.Store(true)
	err = db.Commit(t.Context(), k, crashCommit(k, h.Epoch, 1))
	var dup *conversation.DuplicateError
	for _, e := range []error{conversation.ErrFenced, conversation.ErrConflict, conversation.ErrFull, conversation.ErrClosed} {
		if err == nil || errors.Is(err, e) || errors.As(err, &dup) {
			t.Errorf("the outcome is unknown, but Commit says %v", err)
		}
	}
	if err := <-fatal; !strings.Contains(err.Error(), "bad sector") {
		t.Errorf("OnFatal was told %v", err)
	}
	if h := db.Health(); h == nil || !strings.Contains(h.Error(), "bad sector") {
		t.Errorf("health: %v", h)
	}
	if err := db.Commit(t.Context(), k, crashCommit(k, h.Epoch, 1)); !errors.Is(err, conversation.ErrClosed) {
		t.Errorf("the next commit: %v", err)
	}
	if _, err := db.Acquire(t.Context(), k, conversation.AcquireHow{}); !errors.Is(err, conversation.ErrClosed) {
		t.Errorf("the next acquisition: %v", err)
	}
	if err := db.Delete(t.Context(), k); !errors.Is(err, conversation.ErrClosed) {
		t.Errorf("the next erasure: %v", err)
	}
	before := tables.Load()
	if err := db.Close(); err == nil || !strings.Contains(err.Error(), "bad sector") {
		t.Errorf("close: %v", err)
	}
	if tables.Load() > before {
		t.Error("the stop wrote a table of what is not known to be in the log")
	}
}

// That nothing can be written any more is told once, by the call that found it.
func TestFatalIsToldOnce(t *testing.T) {
	var told []error
	h := &health{log: slog.New(slog.DiscardHandler), onFatal: func(err error) { told = append(told, err) }}
	for range 2 {
		pebbleLogger{h}.Fatalf("bad %s", "sector")
	}
	if len(told) != 1 || !strings.Contains(told[0].Error(), "bad sector") || h.dead() == nil {
		t.Errorf("told %v, remembered %v", told, h.dead())
	}
}

// What is known of a session in memory is forgotten when a write of it failed: it
// may be on the disk or not. Its head and its records are read from one place.
func TestFailedWriteIsForgotten(t *testing.T) {
	k := crashKey(0)
	for name, write := range map[string]func(db *DB, h conversation.Head) error{
		"acquire": func(db *DB, _ conversation.Head) error {
			_, err := db.Acquire(t.Context(), k, conversation.AcquireHow{})
			return err
		},
		"commit": func(db *DB, h conversation.Head) error {
			return db.Commit(t.Context(), k, crashCommit(k, h.Epoch, following(0)))
		},
		"delete": func(db *DB, _ conversation.Head) error { return db.Delete(t.Context(), k) },
	} {
		var broken atomic.Bool
		db, err := openOn(errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if broken.Load() && strings.HasSuffix(op.Path, ".log") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				return errors.New("bad sector")
			}
			return nil
		})), "store", Options{MemTableBytes: 1 << 20, OnFatal: func(error) {}})
		if err != nil {
			t.Fatal(err)
		}
		h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
		if err == nil {
			err = db.Commit(t.Context(), k, crashCommit(k, h.Epoch, 0))
		}
		if err != nil {
			t.Fatal(err)
		}
		broken.Store(true)
		if err := write(db, h); err == nil {
			t.Errorf("%s: no error", name)
		}
		entry := db.cache.Use(k)
		if entry.Cached.Epoch != 0 {
			t.Errorf("%s failed, and epoch %d with last %d is still taken for known", name, entry.Cached.Epoch, entry.Cached.Last)
		}
		db.cache.Release(k, entry)
		records, err := listOf(db.Records(t.Context(), k, conversation.Range{}))
		head, headErr := db.Head(t.Context(), k)
		if errors.Is(headErr, conversation.ErrNotFound) && len(records) == 0 {
			headErr = nil // erased
		} else if len(records) == 0 || head.LastCommit != records[len(records)-1].ID {
			t.Errorf("%s failed: the head is %+v, with %d records", name, head, len(records))
		}
		if err := errors.Join(err, headErr); err != nil {
			t.Errorf("%s failed: %v", name, err)
		}
		_ = db.Close()
	}
}

// lifeOn opens a store, writes two sessions with flushes between, and closes it,
// as far as it gets when the n-th write fails. Where the process would have ended
// it stands still. It returns what was acknowledged, and whether there was an
// n-th write.
func lifeOn(fs vfs.FS, n int) (_ []conversation.Seq, fired bool) {
	acked := make([]conversation.Seq, 2)
	dead, done := make(chan struct{}), make(chan struct{})
	var once sync.Once
	die := func() { once.Do(func() { close(dead) }); select {} }
	var injected atomic.Bool
	inject := errorfs.OnIndex(int32(n))
	broken := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		err := inject.MaybeError(op)
		if err != nil {
			injected.Store(true)
			// A log, its synced length or a directory that cannot be written ends the
			// process, by Fatalf or by a panic of Pebble's; TestFailingLog is about the first.
			if strings.HasSuffix(op.Path, ".log") || strings.HasSuffix(op.Path, "SYNCED") || op.Kind == errorfs.OpFileSync && op.Path == "store" {
				die()
			}
		}
		return err
	}))
	o := Options{MemTableBytes: 256 << 10, CacheBytes: 1 << 20}
	o.OnFatal = func(error) { die() }
	var mu sync.Mutex
	go func() {
		defer close(done)
		db, err := openOn(broken, "store", o)
		if err != nil {
			return
		}
		defer func() { _ = db.Close() }()
		ctx := context.Background()
		var heads [2]conversation.Head
		for s := range heads {
			if heads[s], err = db.Acquire(ctx, crashKey(s), conversation.AcquireHow{Create: true}); err != nil {
				return
			}
		}
		for i := range 10 {
			for s := range heads {
				if err := db.Commit(ctx, crashKey(s), crashCommit(crashKey(s), heads[s].Epoch, heads[s].Last)); err != nil {
					return
				}
				heads[s].Last = following(heads[s].Last)
				mu.Lock()
				acked[s] = heads[s].Last
				mu.Unlock()
			}
			if i%4 == 3 && db.p.Flush() != nil {
				return
			}
		}
	}()
	select {
	case <-done:
	case <-dead:
	}
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(acked), injected.Load()
}

// M-12: a store of before parts had an index: its keys are read, and hold against
// writes. The file is what such a store held, key and value in hex; it also pins
// the layout that this program reads.
func TestLegacyFixture(t *testing.T) {
	raw, err := os.ReadFile("testdata/legacy.txt")
	if err != nil {
		t.Fatal(err)
	}
	fs := vfs.NewMem()
	p, err := pebble.Open("store", &pebble.Options{FS: fs, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var k, v []byte
		if line[0] == '#' {
			continue
		}
		if n, err := fmt.Sscanf(string(line), "%x %x", &k, &v); n != 2 {
			t.Fatalf("%s: %v", line, err)
		}
		if err := p.Set(k, v[1:], pebble.Sync); err != nil { // a byte in front, since %x reads no empty value
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	db := openMem(t, fs, testOptions(t))
	k := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{})
	if err != nil || h.Last != 2 || h.Epoch != 2 {
		t.Fatalf("head %+v, %v", h, err)
	}
	found, err := db.Find(t.Context(), k, []conversation.Key{{Source: "n1"}, {Source: "n1", Part: 1}})
	if err != nil || !slices.Equal(found, []conversation.Seq{2, 0}) {
		t.Errorf("found %v, %v", found, err)
	}
	list, err := listOf(db.Sessions(t.Context(), conversation.Page{Tenant: "acme", For: "alice"}))
	if err != nil || len(list) != 1 || list[0].Seen != 1 {
		t.Errorf("sessions %+v, %v", list, err)
	}
	c := crashCommit(k, h.Epoch, h.Last)
	c.Keys = []conversation.KeyAt{{Key: conversation.Key{Source: "n1"}, Seq: 3}}
	var dup *conversation.DuplicateError
	if err := db.Commit(t.Context(), k, c); !errors.As(err, &dup) || dup.Seq != 2 {
		t.Errorf("part 0 again: %v", err)
	}
	c.Keys[0].Key.Part = 1
	if err := db.Commit(t.Context(), k, c); err != nil {
		t.Errorf("part 1: %v", err)
	}
	records, err := listOf(db.Records(t.Context(), k, conversation.Range{Limit: 1}))
	if err != nil || records[0].Events[0].Body.(conversation.SessionCreated).Title != "Hello" {
		t.Errorf("records %+v, %v", records, err)
	}
}

var rewrite = os.Getenv("PARLEY_REWRITE") != ""

// The fixture's making: what it holds is written today, and the index is taken
// off its part key. With PARLEY_REWRITE=1 the file is written anew; a difference
// is a change of the layout, which needs a new layout version and a way over.
func TestLayoutIsPinned(t *testing.T) {
	db := openMem(t, vfs.NewMem(), testOptions(t))
	k := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	now := crashTime0(0)
	c := conversation.Commit{
		Epoch: h.Epoch, ID: "c1",
		Events: []conversation.Event{
			{Seq: 1, At: now, Body: conversation.SessionCreated{Title: "Hello", Agent: "outside", Owner: "alice"}},
			{Seq: 2, At: now, Body: conversation.PartialResponse{Part: conversation.Part{Message: "p1-s1", Source: "n1", Text: "Good morning"}}},
		},
		Keys:     []conversation.KeyAt{{Key: conversation.Key{Source: "n1"}, Seq: 2}, {Key: conversation.Key{Author: "alice", Client: "c1"}, Seq: 1}},
		Tasks:    []conversation.TaskRow{{Task: "t1-s1", Status: conversation.TaskRunning, Owner: "alice", CreatedAt: now, UpdatedAt: now, First: 1, Last: 2}},
		Cursors:  []conversation.Cursor{{User: "alice", Seq: 1}},
		Snapshot: []byte("state"),
		Summary:  conversation.Summary{Title: "Hello", Agent: "outside", Owner: "alice", CreatedAt: now, Activity: now},
		WakeAt:   now,
		Claim:    &conversation.Claimable{Task: "t1-s1", Agent: "outside", Since: now, Runtime: "r1", From: now},
	}
	if err := errors.Join(db.Commit(t.Context(), k, c), chatted(db, 0, "s1", "chat")); err != nil {
		t.Fatal(err)
	}
	var news search.News
	for _, e := range c.Events {
		news.Add(e)
	}
	if err := errors.Join(Index(db).Keep(t.Context(), k, 0, news), db.p.Set(layout.KeyLog, []byte("thelog"), pebble.Sync), db.p.Set(layout.KeySecret, []byte("thesecret"), pebble.Sync)); err != nil {
		t.Fatal(err)
	}
	part := layout.KeyUnique(nil, k, c.Keys[0].Key)
	var out bytes.Buffer
	out.WriteString("# key, value (behind a byte ff), in hex; see TestLayoutIsPinned\n")
	err = walk(db.p, nil, nil, func(key, v []byte) (bool, error) {
		if bytes.Equal(key, part) {
			key = key[:len(key)-4]
		}
		fmt.Fprintf(&out, "%x ff%x\n", key, v)
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if rewrite {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("testdata/layout.txt", out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/layout.txt")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("the layout has changed:\n%s\nwas\n%s", out.Bytes(), want)
	}
}
