package pebble

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"parley/conversation"
	"parley/persistence/pebble/internal/inspect"
	"parley/persistence/pebble/internal/ondisk"
	"parley/persistence/pebble/internal/synced"
)

// The states that a store may be left in.
const (
	leftKilled = iota // its process was killed; the machine runs on
	leftDark          // the power failed
	leftClosed        // closed, opened and closed: its logs are empty
)

// copyRunning makes a copy of a store that runs and that nobody writes to: what a
// kill leaves. Pebble removes old logs after a flush in its own time, so the copy
// counts only if no file came, went or grew meanwhile.
func copyRunning(from, to string) {
	for {
		before := fileSizes(from)
		if tryCopy(from, to) == nil && maps.Equal(before, fileSizes(from)) {
			return
		}
		must(os.RemoveAll(to))
	}
}

// leftStore is a directory with one session of n commits.
func leftStore(t *testing.T, how, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	db, err := Open(dir, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	k := crashKey(0)
	h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := db.Commit(t.Context(), k, crashCommit(k, h.Epoch, h.Last)); err != nil {
			t.Fatal(err)
		}
		h.Last = following(h.Last)
		if i == n/2 && n > 10 { // something in a table, something in a log
			if err := db.p.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	left := filepath.Join(t.TempDir(), "store")
	if how != leftClosed {
		copyRunning(dir, left)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	switch how {
	case leftClosed:
		if db, err = Open(dir, testOptions(t)); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		return dir
	case leftDark:
		changeMarks(t, left, func(s *synced.State) { s.Boot = "another" })
	}
	return left
}

// changeMarks rewrites the file of synced lengths.
func changeMarks(t *testing.T, dir string, change func(*synced.State)) {
	t.Helper()
	s, err := synced.Read(vfs.Default, dir)
	if err != nil || s == nil {
		t.Fatalf("%v, %v", s, err)
	}
	change(s)
	f, err := synced.Start(vfs.Default, dir, *s)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(false); err != nil {
		t.Fatal(err)
	}
}

// newestFile is the last name that begins and ends so, in a directory.
func newestFile(t *testing.T, dir, prefix, suffix string) string {
	t.Helper()
	found := ""
	for name, size := range fileSizes(dir) {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) && name > found && (suffix != ".log" || size > 0) {
			found = name
		}
	}
	if found == "" {
		t.Fatalf("no %s…%s in %s", prefix, suffix, dir)
	}
	return filepath.Join(dir, found)
}

func edit(t *testing.T, path string, change func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = errors.Join(os.Remove(path), os.WriteFile(path, change(b), 0o600)) // a new file: it may be linked
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Damage is refused with one line, and the directory is as it was.
func TestOpenRefusesDamage(t *testing.T) {
	remove := func(prefix, suffix string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(newestFile(t, dir, prefix, suffix)); err != nil {
				t.Fatal(err)
			}
		}
	}
	put := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	cut := func(prefix, suffix string, n int) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			edit(t, newestFile(t, dir, prefix, suffix), func(b []byte) []byte { return b[:len(b)-n] })
		}
	}
	flipAt := func(prefix, suffix string, fromEnd int) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			edit(t, newestFile(t, dir, prefix, suffix), func(b []byte) []byte { b[len(b)-fromEnd] ^= 4; return b })
		}
	}
	tests := []struct {
		name   string
		left   []int
		damage func(t *testing.T, dir string)
	}{
		{"marker of the manifest gone", []int{leftKilled, leftDark, leftClosed}, remove("marker.manifest.", "")},
		{"marker of the format gone", []int{leftKilled, leftDark, leftClosed}, remove("marker.format-version.", "")},
		{"marker of a manifest that is not there", []int{leftKilled, leftDark, leftClosed}, put("marker.manifest.000900.MANIFEST-000900")},
		{"marker of an older manifest", []int{leftKilled, leftClosed}, put("marker.manifest.000900.MANIFEST-000001")},
		{"two markers of one iteration", []int{leftClosed}, func(t *testing.T, dir string) {
			m := filepath.Base(newestFile(t, dir, "marker.manifest.", ""))
			put(m[:len("marker.manifest.000000.")]+"MANIFEST-000001")(t, dir)
		}},
		{"manifest gone", []int{leftKilled, leftDark, leftClosed}, remove("MANIFEST-", "")},
		{"manifest cut", []int{leftKilled, leftDark, leftClosed}, cut("MANIFEST-", "", 1)},
		{"last byte of the manifest flipped", []int{leftKilled, leftDark, leftClosed}, flipAt("MANIFEST-", "", 1)},
		{"table gone", []int{leftKilled, leftDark, leftClosed}, remove("0", ".sst")},
		{"table cut", []int{leftKilled, leftDark, leftClosed}, cut("0", ".sst", 1)},
		{"log gone", []int{leftKilled, leftDark}, remove("0", ".log")},
		{"log cut in a record", []int{leftKilled}, cut("0", ".log", 1)},
		{"log cut between records", []int{leftKilled}, func(t *testing.T, dir string) {
			path := newestFile(t, dir, "", ".log")
			number, _ := ondisk.LogNumber(filepath.Base(path))
			edit(t, path, func(b []byte) []byte {
				at, last := 0, 0
				for at+19 < len(b) { // chunks that fit into their block, as the last ones do here
					last, at = at, at+19+int(b[at+4])+int(b[at+5])<<8
				}
				return b[:last]
			})
			if _, err := ondisk.ReadLog(vfs.Default, path, number, func([]byte) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}},
		{"log emptied", []int{leftKilled}, func(t *testing.T, dir string) {
			edit(t, newestFile(t, dir, "", ".log"), func([]byte) []byte { return nil })
		}},
		{"last record of the log flipped", []int{leftKilled}, flipAt("", ".log", 5)},
		{"last record but some of the log flipped", []int{leftKilled}, flipAt("", ".log", 3000)},
		{"all gone but what was synced", []int{leftClosed}, func(t *testing.T, dir string) {
			for name := range fileSizes(dir) {
				if name != ondisk.SyncedFile {
					if err := os.Remove(filepath.Join(dir, name)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}},
	}
	for _, test := range tests {
		for _, left := range test.left {
			t.Run(fmt.Sprintf("%s/%s", test.name, []string{"killed", "dark", "closed"}[left]), func(t *testing.T) {
				dir := leftStore(t, left, 30)
				test.damage(t, dir)
				before := contents(t, vfs.Default, dir)
				_, err := OpenReadOnly(dir, testOptions(t))
				wantOpenError(t, err, OpenCorrupt, dir+" is damaged")
				wantUnchanged(t, vfs.Default, dir, before, false)
				db, err := Open(dir, testOptions(t))
				if err == nil {
					_ = db.Close()
				}
				wantOpenError(t, err, OpenCorrupt, dir+" is damaged")
				wantUnchanged(t, vfs.Default, dir, before, true)
				if _, err := Open(dir, testOptions(t)); err == nil {
					t.Error("the second try opened it")
				}
			})
		}
	}
}

// A store that has lost its markers and what says how much was synced, as a copy that
// skips small and empty files leaves it, is no empty directory: its tables, or its log
// alone, say that it was one. What is damaged in it is refused without those lengths, too.
func TestOpenWithoutLengths(t *testing.T) {
	without := func(t *testing.T, dir string, ends ...string) {
		for name := range fileSizes(dir) {
			if slices.ContainsFunc(ends, func(end string) bool { return strings.HasPrefix(name, end) || strings.HasSuffix(name, end) }) {
				must(os.Remove(filepath.Join(dir, name)))
			}
		}
	}
	flip := func(t *testing.T, dir string, at func(size int) int) {
		edit(t, newestFile(t, dir, "MANIFEST-", ""), func(b []byte) []byte { b[at(len(b))] ^= 4; return b })
	}
	for _, c := range []struct {
		name    string
		left, n int
		damage  func(t *testing.T, dir string)
	}{
		{"tables alone", leftClosed, 30, func(t *testing.T, dir string) {
			without(t, dir, "marker.", ondisk.SyncedFile, ondisk.ReadmeFile, ".log")
		}},
		{"a log alone", leftKilled, 3, func(t *testing.T, dir string) {
			without(t, dir, "marker.", ondisk.SyncedFile, ondisk.ReadmeFile, ".sst") // the first log of a new store becomes one
		}},
		{"the end of the manifest after a stop", leftClosed, 30, func(t *testing.T, dir string) {
			without(t, dir, ondisk.SyncedFile)
			flip(t, dir, func(size int) int { return size - 1 })
		}},
		{"a log in the middle without its end", leftKilled, 3, func(t *testing.T, dir string) {
			without(t, dir, ondisk.SyncedFile)
			path := newestFile(t, dir, "", ".log")
			number, _ := ondisk.LogNumber(filepath.Base(path))
			must(os.WriteFile(filepath.Join(dir, fmt.Sprintf("%06d.log", number+1)), nil, 0o600))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := leftStore(t, c.left, c.n)
			c.damage(t, dir)
			before := contents(t, vfs.Default, dir)
			db, err := Open(dir, testOptions(t))
			if err == nil {
				_ = db.Close()
			}
			wantOpenError(t, err, OpenCorrupt, dir+" is damaged")
			wantUnchanged(t, vfs.Default, dir, before, true)
		})
	}
}

// Each byte of a young store's manifest matters, and each is looked at.
func TestOpenRefusesFlippedManifest(t *testing.T) {
	for _, left := range []int{leftKilled, leftDark} {
		dir := leftStore(t, left, 3)
		path := newestFile(t, dir, "MANIFEST-", "")
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		step := 1
		if testing.Short() {
			step = 7
		}
		before := contents(t, vfs.Default, dir)
		for at := 0; at < len(good); at += step {
			for _, bit := range []byte{1, 0x80} {
				edit(t, path, func(b []byte) []byte { b[at] ^= bit; return b })
				before[filepath.Base(path)] = append(append(slices.Clone(good[:at]), good[at]^bit), good[at+1:]...)
				db, err := Open(dir, testOptions(t))
				if err == nil {
					_ = db.Close()
					t.Fatalf("byte %d of %d, bit %#x: opened", at, len(good), bit)
				}
				wantOpenError(t, err, OpenCorrupt, dir+" is damaged: MANIFEST-")
				wantUnchanged(t, vfs.Default, dir, before, true)
				edit(t, path, func([]byte) []byte { return slices.Clone(good) })
			}
		}
		db, err := Open(dir, testOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A bit of what was acknowledged last: refused on the same boot; after a power
// failure refused, or told with another log id.
func TestOpenTellsOfTornLog(t *testing.T) {
	rng := crashSeed(t)
	for round := range 12 {
		left := leftKilled + round%2
		dir := leftStore(t, left, 400)
		o, said := damageOptions()
		log := logIDOf(t, dir)
		path := newestFile(t, dir, "", ".log")
		at := 0
		edit(t, path, func(b []byte) []byte {
			at = max(0, len(b)-300<<10)
			at += rng.IntN(len(b) - at)
			b[at] ^= 1 << rng.IntN(8)
			return b
		})
		before := contents(t, vfs.Default, dir)
		db, err := Open(dir, o)
		if err != nil {
			wantOpenError(t, err, OpenCorrupt, filepath.Base(path))
			wantUnchanged(t, vfs.Default, dir, before, true)
			continue
		}
		if left == leftKilled {
			t.Errorf("byte %d flipped, and opened on the same boot", at)
		}
		if db.LogID() == log || !strings.Contains(said(), "bytes=") {
			t.Errorf("byte %d flipped after a power failure: log id %s, was %s; said %q", at, db.LogID(), log, said())
		}
		log = db.LogID()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if is := logIDOf(t, dir); is != log {
			t.Errorf("the log id is %s, and was %s", is, log)
		}
	}
}

func logIDOf(t *testing.T, dir string) conversation.LogID {
	t.Helper()
	db, err := OpenReadOnly(dir, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	log := db.LogID()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return log
}

// What is not there of a log that ends in the middle of a write was told, or never
// acknowledged: the synced length says which.
func TestOpenAfterPowerFailure(t *testing.T) {
	for _, test := range []struct {
		name     string
		unsynced bool // the end of the log was not synced yet
		told     bool
	}{{"acknowledged", false, true}, {"never acknowledged", true, false}} {
		t.Run(test.name, func(t *testing.T) {
			dir := leftStore(t, leftDark, 30)
			path := newestFile(t, dir, "", ".log")
			if test.unsynced {
				changeMarks(t, dir, func(s *synced.State) {
					for f := range s.Files {
						if f.Type == synced.Log {
							s.Files[f] = 1000
						}
					}
				})
			}
			edit(t, path, func(b []byte) []byte { return b[:len(b)-10] })
			log := logIDOf(t, dir)
			before := contents(t, vfs.Default, dir)
			if c, err := Check(dir, func(int64, int64) {}); err != nil || (c.Lost > 0) != test.told {
				t.Errorf("the check: %+v, %v", c, err)
			}
			wantUnchanged(t, vfs.Default, dir, before, false)
			o, said := damageOptions()
			db, err := Open(dir, o)
			if err != nil {
				t.Fatal(err)
			}
			if told := said() != ""; told != test.told || (db.LogID() != log) != test.told {
				t.Errorf("said %q, log id %s, was %s", said(), db.LogID(), log)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A crash between the loss and the new log id does not forget that the id is owed.
func TestOpenOwesLogID(t *testing.T) {
	dir := leftStore(t, leftKilled, 5)
	log := logIDOf(t, dir)
	changeMarks(t, dir, func(s *synced.State) { s.Lost = 77 })
	o, said := damageOptions()
	db, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if db.LogID() == log || !strings.Contains(said(), "bytes=77") {
		t.Errorf("log id %s, was %s; said %q", db.LogID(), log, said())
	}
	log = db.LogID()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	o, said = damageOptions()
	if db, err = Open(dir, o); err != nil || db.LogID() != log || said() != "" {
		t.Fatalf("%v, log id %s, said %q", err, db.LogID(), said())
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// Another program's store, and a table that may not be read, are left as they are.
func TestOpenLeavesForeign(t *testing.T) {
	for _, name := range []string{"default order", "another order", "killed"} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			o := &pebble.Options{FS: fs, Logger: quiet(), FormatMajorVersion: format}
			if name == "another order" {
				other := *pebble.DefaultComparer
				other.Name = "another"
				o.Comparer = &other
			}
			p, err := pebble.Open("store", o)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Set([]byte("k"), nil, pebble.Sync); err != nil {
				t.Fatal(err)
			}
			left := fs
			if name == "killed" {
				left = fs.CrashClone(vfs.CrashCloneCfg{})
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			before := contents(t, left, "store")
			_, err = openOn(left, "store", testOptions(t))
			wantOpenError(t, err, OpenForeign, "store is not a parley data directory")
			wantUnchanged(t, left, "store", before, true)
		})
	}
	dir := leftStore(t, leftClosed, 30)
	before := contents(t, vfs.Default, dir)
	locked := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpOpen && strings.HasSuffix(op.Path, ".sst") {
			return &os.PathError{Op: "open", Path: op.Path, Err: os.ErrPermission}
		}
		return nil
	}))
	_, err := openOn(locked, dir, testOptions(t))
	wantOpenError(t, err, OpenPermission, ".sst: permission denied")
	wantUnchanged(t, vfs.Default, dir, before, true)
}

// A creation that stops after any change leaves a directory that the next Open
// makes a store of, whether the process was killed or the power failed.
func TestCreationStopsAnywhere(t *testing.T) {
	rng := crashSeed(t)
	var mu sync.Mutex // Pebble writes its log, and cleans up, in goroutines of its own
	var left []*vfs.MemFS
	fs := vfs.NewCrashableMem()
	watched := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			mu.Lock()
			defer mu.Unlock()
			for _, keep := range []int{0, 50, 50, 100} {
				left = append(left, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: rng}))
			}
		}
		return nil
	}))
	db, err := openOn(watched, "store", testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	moments := slices.Clone(left)
	mu.Unlock()
	for i, fs := range moments {
		again, err := openOn(fs, "store", testOptions(t))
		if err != nil {
			names, _ := fs.List("store")
			t.Fatalf("clone %d of %d, %v: %v", i, len(moments), names, err)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(moments); n < 100 {
		t.Errorf("only %d moments", n)
	}
}

// secondManifest copies the manifest of a store under a newer name.
func secondManifest(t *testing.T, dir string) (old, fresh string) {
	t.Helper()
	path := newestFile(t, dir, "MANIFEST-", "")
	old = filepath.Base(path)
	number, _ := ondisk.ManifestNumber(old)
	fresh = fmt.Sprintf("MANIFEST-%06d", number+50)
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, fresh), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return old, fresh
}

// mark makes a marker that names a manifest.
func mark(t *testing.T, dir string, iteration int, manifest string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("marker.manifest.%06d.%s", iteration, manifest)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Only the newest of two markers counts if its manifest is there: a crash leaves
// both, and the start goes on.
func TestOpenWithBothMarkers(t *testing.T) {
	dir := leftStore(t, leftClosed, 30)
	_, fresh := secondManifest(t, dir)
	mark(t, dir, 900, fresh)
	db, err := Open(dir, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// The walk through a log stops where Pebble's reader stops, for any damage.
func TestInspectStopsWherePebbleStops(t *testing.T) {
	rng := crashSeed(t)
	dir := leftStore(t, leftKilled, 300)
	path := newestFile(t, dir, "", ".log")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	number, _ := ondisk.LogNumber(filepath.Base(path))
	for range 300 {
		b := slices.Clone(good)
		switch at := rng.IntN(len(b)); rng.IntN(4) {
		case 0:
			b[at] ^= 1 << rng.IntN(8)
		case 1:
			b = b[:at]
		case 2:
			clear(b[at:min(at+512, len(b))])
		case 3:
			b = append(b, make([]byte, rng.IntN(40000))...)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		ours := 0
		tail, err := ondisk.ReadLog(vfs.Default, path, number, func([]byte) error { ours++; return nil })
		if err != nil {
			t.Fatal(err)
		}
		theirs, broken := pebbleReads(t, path)
		if ours != theirs || broken != tail.Proven {
			t.Fatalf("%d records, Pebble reads %d; proven %v, Pebble says %v; %+v", ours, theirs, tail.Proven, broken, tail)
		}
	}
}

// pebbleReads counts the records that Pebble's own reader finds in a log, and says
// whether it calls the log broken.
func pebbleReads(t *testing.T, path string) (n int, broken bool) {
	t.Helper()
	var files wal.FileAccumulator
	if _, err := files.MaybeAccumulate(vfs.Default, path); err != nil {
		t.Fatal(err)
	}
	r := files.Finish()[0].OpenForRead()
	defer func() { _ = r.Close() }()
	for {
		_, _, err := r.NextRecord()
		switch {
		case err == nil:
			n++
		case errors.Is(err, io.EOF), errors.Is(err, record.ErrUnexpectedEOF):
			return n, false
		default:
			return n, true
		}
	}
}

// A marker that is moved back names an older state that is whole in itself: only
// what was written down of the marker tells that it has named a newer one.
func TestMarkerMovedBack(t *testing.T) {
	dir, left := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "store")
	k := crashKey(0)
	write := func(db *DB, n int) {
		t.Helper()
		h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
		for range n {
			if err == nil {
				err = db.Commit(t.Context(), k, crashCommit(k, h.Epoch, h.Last))
				h.Last = following(h.Last)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for life := range 2 {
		db, err := Open(dir, testOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		write(db, 20)
		if life == 1 { // what the older manifest does not know: a table in the place of a log
			if err := db.p.Flush(); err != nil {
				t.Fatal(err)
			}
			copyRunning(dir, left)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !previousManifest(left) {
		t.Fatal("there is no manifest before")
	}
	fs := vfs.Default
	before := contents(t, fs, left)
	_, err := Open(left, testOptions(t))
	wantOpenError(t, err, OpenCorrupt, "older manifest")
	wantUnchanged(t, fs, left, before, true)
}

// The machine's start is read where the files are real, and nowhere else.
func TestBootID(t *testing.T) {
	if id := inspect.BootID(vfs.NewMem()); id != "" {
		t.Errorf("a file system in memory has boot %q", id)
	}
	if a, b := inspect.BootID(vfs.Default), inspect.BootID(errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(errorfs.Op) error { return nil }))); a != b {
		t.Errorf("%q and %q", a, b)
	}
}

// A marker of an older iteration that names a newer manifest is none that a crash
// leaves: which of the two states counts cannot be known.
func TestOpenWithStrayMarker(t *testing.T) {
	dir := leftStore(t, leftClosed, 30)
	old, fresh := secondManifest(t, dir)
	if err := os.Remove(newestFile(t, dir, "marker.manifest.", "")); err != nil {
		t.Fatal(err)
	}
	mark(t, dir, 900, old)
	mark(t, dir, 1, fresh)
	before := contents(t, vfs.Default, dir)
	_, err := Open(dir, testOptions(t))
	wantOpenError(t, err, OpenCorrupt, fresh)
	wantUnchanged(t, vfs.Default, dir, before, true)
}

// A store that has lost all it held is not taken for a new one, though its files
// are whole.
func TestOpenWithoutContent(t *testing.T) {
	dir := leftStore(t, leftClosed, 30)
	db, err := Open(dir, testOptions(t))
	if err == nil {
		err = errors.Join(db.p.DeleteRange([]byte{0}, []byte{0xff}, pebble.Sync), db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	before := contents(t, vfs.Default, dir)
	_, err = Open(dir, testOptions(t))
	wantOpenError(t, err, OpenCorrupt, "")
	wantUnchanged(t, vfs.Default, dir, before, true)
}

// The start that found a loss fails before it has said so to clients. The next one
// finds files that look whole, and still owes them the new log id.
func TestLossIsOwedAfterFailedStart(t *testing.T) {
	dir := leftStore(t, leftDark, 30)
	log := logIDOf(t, dir)
	path := newestFile(t, dir, "", ".log")
	if err := os.Truncate(path, fileSizes(dir)[filepath.Base(path)]-100); err != nil {
		t.Fatal(err)
	}
	var full atomic.Bool
	full.Store(true)
	fs := releasedFS{errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && strings.HasSuffix(op.Path, ".sst") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.ENOSPC
		}
		return nil
	})), make(chan struct{})}
	short := testOptions(t)
	short.OpenWait = time.Millisecond
	_, err := openOn(fs, dir, short)
	wantOpenError(t, err, OpenFailed, "the disk is full")
	left := filepath.Join(t.TempDir(), "store") // the process ends here
	copyRunning(dir, left)
	full.Store(false)
	<-fs.released

	o, said := damageOptions()
	db, err := Open(left, o)
	if err != nil {
		t.Fatal(err)
	}
	if db.LogID() == log || !strings.Contains(said(), "bytes=") {
		t.Errorf("log id %s, was %s; said %q", db.LogID(), log, said())
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
