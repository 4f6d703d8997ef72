package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/persistence/pebble/internal/ondisk"
	"parley/persistence/pebble/internal/synced"
)

// The damage test damages stores at random, opens them as a server does, reads
// everything back and compares it with what had been acknowledged. There are three
// honest ends, and two others:
//
//	refused  Open fails with one line, and the directory is as it was
//	whole    everything that was acknowledged is there
//	told     a read fails, or the start said that something is lost
//	silent   something is missing or wrong and nobody said a word: never
//	crashed  the process panicked: never
//
// PARLEY_DAMAGE=500 is the number of damages; PARLEY_SEED repeats a seed (the
// stores are written by processes that are killed, so they are alike, not the
// same); PARLEY_DAMAGE_KEEP=dir keeps the directories of the cases that fail.

// A damagedStore is a directory with the list of what was acknowledged. It is
// never opened itself: copies are.
type damagedStore struct {
	Age   string
	Dir   string
	Log   conversation.LogID
	Acked map[int]conversation.Seq // by the number of crashKey
	Gone  []int                    // by the number of crashGone: erased
}

// life runs a process that writes until it has acknowledged so much, and kills it.
func (s *damagedStore) life(t *testing.T, sessions []int, table int64, acks int) {
	t.Helper()
	c := startChild(t, crashLife{Dir: s.Dir, Sessions: sessions, Table: table, Erase: 1 + slices.Max(append(s.Gone, 0)) + 1})
	for left := acks; ; left-- {
		if left == 0 {
			c.kill()
		}
		session, n, ok := c.next()
		switch {
		case !ok:
			return
		case session < 0:
			s.Gone = append(s.Gone, n)
		default:
			s.Acked[session] = max(s.Acked[session], conversation.Seq(n))
		}
	}
}

// stop writes in this process until it has acknowledged so much, and closes the store.
func (s *damagedStore) stop(t *testing.T, sessions []int, o Options, writes *pebble.WriteOptions, acks int, before func(db *DB) error) {
	t.Helper()
	db, err := Open(s.Dir, o)
	if err != nil {
		t.Fatal(err)
	}
	db.writes = writes
	var mu sync.Mutex
	var wg sync.WaitGroup
	enough, closing := make(chan struct{}), make(chan struct{})
	if acks == 0 {
		close(enough)
	}
	for _, session := range sessions {
		wg.Go(func() {
			_ = crashWrite(db, crashKey(session), func(last conversation.Seq) {
				mu.Lock()
				s.Acked[session] = last
				if acks--; acks == 0 {
					close(enough)
				}
				wait := acks <= 0
				mu.Unlock()
				if wait { // a compaction beside writers that never rest would end late, or never
					<-closing
				}
			})
		})
	}
	<-enough
	s.Log = db.LogID()
	err = before(db)
	close(closing)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
}

func nothing(*DB) error { return nil }

// damagedStores makes a store of each age.
func damagedStores(t *testing.T) []*damagedStore {
	root := t.TempDir()
	make := func(age string) *damagedStore {
		return &damagedStore{Age: age, Dir: filepath.Join(root, age), Acked: map[int]conversation.Seq{}}
	}
	small := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	var big []int
	for s := range 12 {
		big = append(big, crashBig+s)
	}

	young := make("young") // everything is in the log
	young.life(t, small, 64<<20, 400)

	stopped := make("stopped") // young, and closed: everything is in one table
	stopped.stop(t, small, testOptions(t), pebble.Sync, 300, nothing)

	idle := make("idle") // closed, opened and closed again: its logs are empty
	idle.stop(t, small, testOptions(t), pebble.Sync, 300, nothing)
	idle.stop(t, nil, testOptions(t), pebble.Sync, 0, nothing)

	old := make("old") // several lives, many tables, a log of twelve writers
	for range 3 {
		old.life(t, small, 64<<10, 250)
	}
	o := testOptions(t)
	o.MemTableBytes = 64 << 10
	old.stop(t, small, o, pebble.Sync, 200, func(db *DB) error {
		return db.p.Compact(context.Background(), []byte{0}, []byte{0xff}, false)
	})
	old.life(t, small, 64<<10, 300)
	old.life(t, small, 1<<20, 500)
	for range 5 { // its last compaction may have left one level
		if old.levels(t) > 1 {
			break
		}
		old.life(t, small, 64<<10, 100)
		old.life(t, small, 1<<20, 500)
	}

	large := make("large") // 8 MiB of tables, 1 MiB of log
	o = testOptions(t)
	o.MemTableBytes = 1 << 20
	large.stop(t, big, o, pebble.NoSync, 2200, nothing) // synced by its end
	large.life(t, big, 64<<20, 800)

	all := []*damagedStore{young, stopped, idle, old, large}
	for _, s := range all {
		s.check(t, filepath.Join(root, "undamaged"))
	}
	return all
}

// levels is the number of levels with tables that a copy of the store has.
func (s *damagedStore) levels(t *testing.T) (n int) {
	dir := t.TempDir()
	copyStore(s.Dir, dir)
	db, err := Open(dir, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range db.p.Metrics().Levels {
		n += min(1, int(l.TablesCount))
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

// check opens a copy of the undamaged store: it must be whole, and of its age.
func (s *damagedStore) check(t *testing.T, dir string) {
	t.Helper()
	copyStore(s.Dir, dir)
	size := map[string]int64{}
	newest := int64(0)
	for name, n := range fileSizes(dir) {
		size[filepath.Ext(name)] += n
		if strings.HasSuffix(name, ".log") {
			newest = max(newest, n)
		}
	}
	o, said := damageOptions()
	db, err := Open(dir, o)
	if err != nil {
		t.Fatalf("%s, undamaged: %v", s.Age, err)
	}
	s.Log = db.LogID()
	told, silent := s.read(db)
	if told != nil || silent != nil || said() != "" {
		t.Fatalf("%s, undamaged: %v, %v, %s", s.Age, told, silent, said())
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	levels := s.levels(t)
	t.Logf("%-7s %d sessions, %d erased; tables %d KiB on %d levels, logs %d KiB, longest %d KiB",
		s.Age, len(s.Acked), len(s.Gone), size[".sst"]>>10, levels, size[".log"]>>10, newest>>10)
	switch {
	case s.Age == "young" && size[".sst"] > 4<<10, // the schema
		s.Age == "stopped" && (size[".sst"] < 4<<10 || size[".log"] == 0),
		s.Age == "idle" && (size[".sst"] < 4<<10 || size[".log"] > 1<<10),
		s.Age == "old" && (size[".sst"] == 0 || levels < 2 || newest < 200<<10),
		s.Age == "large" && (size[".sst"] < 8<<20 || newest < 1<<20):
		t.Fatalf("the store is not what it should be")
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

// damageOptions are a server's, with less memory. said returns what the log of
// the store has as errors.
func damageOptions() (o Options, said func() string) {
	var mu sync.Mutex
	var b bytes.Buffer
	o = Defaults()
	o.MemTableBytes, o.CacheBytes, o.Ballast = 1<<20, 4<<20, 1<<20
	o.Logger = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return b.Write(p)
	}), &slog.HandlerOptions{Level: slog.LevelError}))
	o.OnFatal = func(error) {} // logged as an error
	return o, func() string {
		mu.Lock()
		defer mu.Unlock()
		return b.String()
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// read reads everything back. told are the reads that failed; silent is what is
// missing or wrong although the read of it said nothing.
func (s *damagedStore) read(db *DB) (told, silent []error) {
	ctx := context.Background()
	fails := func(what string, err error) bool {
		if err != nil {
			told = append(told, fmt.Errorf("%s: %w", what, err))
		}
		return err != nil
	}
	wrong := func(format string, args ...any) { silent = append(silent, fmt.Errorf(format, args...)) }

	due, dueErr := listOf(db.Due(ctx, crashTime0(1<<40), conversation.Member{}))
	fails("due", dueErr)
	rows, rowsErr := listOf(db.Tasks(ctx, conversation.TaskFilter{Tenant: "acme"}))
	fails("tasks", rowsErr)
	listed, listErr := listOf(db.Sessions(ctx, conversation.Page{Tenant: "acme", For: "alice"}))
	fails("sessions", listErr)
	if h := db.Health(); h != nil { // lists may have left something out, which is said there
		fails("health", h)
		listErr, rowsErr = errors.Join(listErr, h), errors.Join(rowsErr, h)
	}
	for number, acked := range s.Acked {
		k := crashKey(number)
		h, err := db.Head(ctx, k)
		if errors.Is(err, conversation.ErrNotFound) {
			wrong("%s is not there", k)
			continue
		}
		if fails("head", err) {
			continue
		}
		if h.Last < acked {
			wrong("%s ends at %d, acknowledged up to %d", k, h.Last, acked)
		}
		commits, last, snapshot, err := readLog(db, k)
		switch {
		case errors.As(err, new(*wrongError)):
			wrong("%s: %w", k, err)
		case fails("records", err):
		case last != h.Last:
			wrong("%s: records end at %d, the head at %d", k, last, h.Last)
		case h.SnapshotAt != snapshot || string(h.Snapshot) != fmt.Sprintf("%s#%d", k.Session, snapshot):
			wrong("%s: snapshot %q at %d, want %d", k, h.Snapshot, h.SnapshotAt, snapshot)
		case rowsErr == nil && k.Session.Depth() == 0:
			if n := count(rows, func(r conversation.TaskRow) bool { return r.Key.Session == k.Session }); n != commits {
				wrong("%s: %d tasks are listed, %d commits", k, n, commits)
			}
		}
		if sum, err := db.Summary(ctx, k); !fails("summary", err) && (sum.Last != h.Last || sum.Open != int(h.Last)) {
			wrong("%s: summary %+v, last %d", k, sum, h.Last)
		}
		if n := count(due, func(d conversation.SessionKey) bool { return d == k }); dueErr == nil && n != 1 {
			wrong("%s: %d times due", k, n)
		}
		if n := count(listed, func(l conversation.Summary) bool {
			return l.Key == k && l.Last == h.Last && l.Seen == crashSeen(h.Last)
		}); listErr == nil && n != 1-k.Session.Depth() {
			wrong("%s: %d times in the list", k, n)
		}
	}
	for _, n := range s.Gone {
		_, err := db.Acquire(ctx, crashGone(n), conversation.AcquireHow{Create: true})
		if !errors.Is(err, conversation.ErrNotFound) && !fails("erased", err) {
			wrong("session %s was erased", crashGone(n))
		}
	}
	return told, silent
}

func count[T any](list []T, is func(T) bool) (n int) {
	for _, v := range list {
		if is(v) {
			n++
		}
	}
	return n
}

// wrongError is about what was read, not about the reading.
type wrongError struct{ error }

// readLog reads a session's records, and looks each key up.
func readLog(db *DB, k conversation.SessionKey) (commits int, last, snapshot conversation.Seq, err error) {
	ctx := context.Background()
	wrong := func(format string, args ...any) error { return &wrongError{fmt.Errorf(format, args...)} }
	for rec, err := range db.Records(ctx, k, conversation.Range{}) {
		if err != nil {
			return commits, last, snapshot, err
		}
		want := crashCommit(k, 0, last)
		if rec.ID != want.ID || len(rec.Events) != len(want.Events) {
			return commits, last, snapshot, wrong("after %d: record %s with %d events instead of %s", last, rec.ID, len(rec.Events), want.ID)
		}
		for i, e := range rec.Events {
			if e.Seq != want.Events[i].Seq || e.Body != want.Events[i].Body {
				return commits, last, snapshot, wrong("event %d: %+v", want.Events[i].Seq, e)
			}
		}
		found, err := db.Find(ctx, k, keysOf(want.Keys))
		if err != nil {
			return commits, last, snapshot, err
		}
		for i, seq := range found {
			if seq != want.Keys[i].Seq {
				return commits, last, snapshot, wrong("%s: at %d instead of %d", want.Keys[i].Key, seq, want.Keys[i].Seq)
			}
		}
		if last%5 == 0 {
			snapshot = following(last)
		}
		last = following(last)
		commits++
	}
	return commits, last, snapshot, nil
}

// must is for helpers that also run outside of a test.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// copyStore copies a directory that nobody changes.
func copyStore(from, to string) { must(tryCopy(from, to)) }

// tryCopy copies a directory; tables, which nobody writes to, are linked.
func tryCopy(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		src, dst := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		switch {
		case e.IsDir():
			err = tryCopy(src, dst)
		case filepath.Ext(src) == ".sst":
			err = os.Link(src, dst)
		default:
			var b []byte
			if b, err = os.ReadFile(src); err == nil {
				err = os.WriteFile(dst, b, 0o600)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func fileSizes(dir string) map[string]int64 {
	entries, err := os.ReadDir(dir)
	must(err)
	sizes := map[string]int64{}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // removed meanwhile
		}
		must(err)
		if !e.IsDir() {
			sizes[e.Name()] = info.Size()
		}
	}
	return sizes
}

// listing is the listing with a checksum of each file, but for those that a
// refused start may touch.
func listing(dir string, but ...string) string {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || slices.Contains(but, e.Name()) {
			return err
		}
		fmt.Fprintf(&b, "%s %v", path, e.IsDir())
		if !e.IsDir() {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			sum := crc32.NewIEEE()
			n, err := io.Copy(sum, f)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
			fmt.Fprintf(&b, " %d %08x", n, sum.Sum32())
		}
		b.WriteByte('\n')
		return nil
	})
	must(err)
	return b.String()
}

// A damage is one thing that happens to one file.
type damage struct {
	Kind, File, To string
	At, N          int64
}

func (d damage) String() string {
	switch {
	case d.To != "":
		return fmt.Sprintf("%s of %s to %s", d.Kind, d.File, d.To)
	case d.N > 0:
		return fmt.Sprintf("%s of %s at %d (+%d)", d.Kind, d.File, d.At, d.N)
	}
	return fmt.Sprintf("%s of %s", d.Kind, d.File)
}

// damageKinds are what can happen; the first four need a file that is not empty.
var damageKinds = []string{"bit", "512 zeros", "4 KiB zeros", "truncation", "deletion", "stray copy", "renaming"}

// fileKind groups files by what they are for.
func fileKind(name string) string {
	switch {
	case strings.HasSuffix(name, ".log"):
		return "log"
	case strings.HasSuffix(name, ".sst"):
		return "table"
	case strings.HasPrefix(name, "MANIFEST-"):
		return "manifest"
	case strings.HasPrefix(name, "marker."):
		return "marker"
	}
	return "other"
}

// randomDamage chooses a kind of file, one of these files (of logs mostly the
// longest), and what happens to it.
func randomDamage(rng *rand.Rand, sizes map[string]int64) damage {
	byKind := map[string][]string{}
	for name := range sizes {
		byKind[fileKind(name)] = append(byKind[fileKind(name)], name)
	}
	var files []string
	for len(files) == 0 {
		files = byKind[[]string{"log", "log", "log", "table", "table", "manifest", "manifest", "marker", "other"}[rng.IntN(9)]]
	}
	slices.Sort(files)
	d := damage{File: files[rng.IntN(len(files))]}
	if fileKind(d.File) == "log" && rng.IntN(4) > 0 {
		d.File = slices.MaxFunc(files, func(a, b string) int { return int(sizes[a] - sizes[b]) })
	}
	size := sizes[d.File]
	kinds := damageKinds
	if size == 0 {
		kinds = kinds[4:]
	}
	d.Kind = kinds[rng.IntN(len(kinds))]
	switch d.Kind {
	case "bit":
		d.At, d.N = rng.Int64N(size), 1
	case "512 zeros":
		d.At, d.N = rng.Int64N(size), 512
	case "4 KiB zeros":
		d.At, d.N = rng.Int64N(size)&^4095, 4096
	case "truncation":
		d.At = rng.Int64N(size)
		d.N = size - d.At
	case "stray copy", "renaming":
		d.To = otherName(rng, d.File, sizes)
	}
	return d
}

// otherName is a name that a file of the kind could have, too, and none has.
func otherName(rng *rand.Rand, name string, sizes map[string]int64) string {
	for tries := 0; ; tries++ {
		to := name + []string{".bak", "~", ".tmp"}[rng.IntN(3)]
		add := func(digits string) string {
			n, _ := strconv.Atoi(digits)
			return fmt.Sprintf("%0*d", len(digits), max(1, n+rng.IntN(13)-6))
		}
		switch kind := fileKind(name); {
		case tries > 20 || rng.IntN(4) == 0:
		case kind == "log" || kind == "table":
			to = add(name[:6]) + name[6:]
		case kind == "manifest":
			to = "MANIFEST-" + add(name[9:])
		case kind == "marker": // marker.<what>.<iteration>.<value>
			p := strings.SplitN(name, ".", 4)
			if len(p) < 4 {
				break
			}
			if rng.IntN(2) == 0 {
				p[2] = add(p[2])
			} else if v, ok := strings.CutPrefix(p[3], "MANIFEST-"); ok {
				p[3] = "MANIFEST-" + add(v)
			} else {
				p[3] = add(p[3])
			}
			to = strings.Join(p, ".")
		}
		if _, taken := sizes[to]; !taken {
			return to
		}
	}
}

// powerFailure is a damage, too: the machine has started anew, so that nobody knows
// whether what was not synced is there.
var powerFailure = damage{Kind: "power failure"}

// do damages the store in dir.
func (d damage) do(dir string) {
	if d == powerFailure {
		otherBoot(dir)
		return
	}
	path := filepath.Join(dir, d.File)
	b, err := os.ReadFile(path)
	must(err)
	write := func() { // in a file of its own: tables are linked
		must(errors.Join(os.Remove(path), os.WriteFile(path, b, 0o600)))
	}
	switch d.Kind {
	case "bit":
		b[d.At] ^= 1 << (d.At % 8)
		write()
	case "512 zeros", "4 KiB zeros":
		clear(b[d.At:min(d.At+d.N, int64(len(b)))])
		write()
	case "truncation":
		b = b[:d.At]
		write()
	case "deletion":
		err = os.Remove(path)
	case "stray copy":
		err = os.WriteFile(filepath.Join(dir, d.To), b, 0o600)
	case "renaming":
		err = os.Rename(path, filepath.Join(dir, d.To))
	}
	must(err)
}

// otherBoot writes another boot of the machine into the file of synced lengths.
func otherBoot(dir string) {
	path := filepath.Join(dir, ondisk.SyncedFile)
	b, err := os.ReadFile(path)
	must(err)
	was, err := synced.Read(vfs.Default, dir)
	must(err)
	at := bytes.Index(b, []byte(was.Boot))
	b[at] ^= 1
	const header = 128
	binary.LittleEndian.PutUint32(b[header-4:], crc32.Checksum(b[:header-4], crc32.MakeTable(crc32.Castagnoli)))
	must(os.WriteFile(path, b, 0o600))
	if is, err := synced.Read(vfs.Default, dir); err != nil || is.Boot == was.Boot {
		panic(fmt.Sprintf("the boot is still %q, %v", was.Boot, err))
	}
}

// A verdict is what came of a damaged store.
type verdict struct {
	End    string   // refused, whole, told, silent; or the process crashed
	Why    string   // of refused and told; what is missing of silent
	Faults []string // what must not be, whatever the end is
}

func (v *verdict) fault(format string, args ...any) {
	v.Faults = append(v.Faults, fmt.Sprintf(format, args...))
}

// try opens a damaged copy of the store in dir, and says how it ended.
func (s *damagedStore) try(dir string, damages []damage) verdict {
	return s.tryWith(dir, func(dir string) bool {
		for _, d := range damages {
			d.do(dir)
		}
		return true
	})
}

// tryWith is try with any damage; it is none if damage says no.
func (s *damagedStore) tryWith(dir string, damage func(dir string) bool) (v verdict) {
	fresh := func() {
		_ = os.RemoveAll(dir)
		copyStore(s.Dir, dir)
		damage(dir)
	}
	fresh()
	before := listing(dir)
	start := listing(dir, "LOCK", pidFile)
	checked, checkErr := Check(dir, func(int64, int64) {}) // what doctor asks
	if listing(dir) != before {
		v.fault("the check has changed the directory")
		fresh()
	}
	o, said := damageOptions()
	db, err := Open(dir, o)
	if err != nil {
		v.End, v.Why = "refused", err.Error()
		if !errors.As(err, new(*OpenError)) || strings.ContainsAny(err.Error(), "\n\r") {
			v.fault("the reason is not a sentence of one line")
		}
		if listing(dir, "LOCK", pidFile) != start {
			v.fault("refused, but the directory has changed")
		}
		if checkErr == nil {
			v.fault("the check says that all is well")
		}
		return v
	}
	errs := said()
	told, silent := s.read(db)
	if db.LogID() != s.Log {
		silent = append(silent, errors.New("the log id is another one"))
	}
	v.judge(told, silent, errs)
	if v.End == "whole" { // and nothing is missing later
		err := db.Close()
		if err == nil {
			db, err = Open(dir, o)
		}
		if err != nil {
			v.fault("opened, closed, and not opened again: %v", err)
			return v
		}
		told, silent = s.read(db)
		// A block that only a compaction reads, of what was erased, is noticed when one comes.
		if v.judge(told, silent, ""); v.End == "silent" {
			v.fault("whole at the first start, not at the second")
		}
	}
	if v.End == "told" && checkErr == nil && checked.Lost == 0 && !checked.Unsure {
		v.fault("the check says that all is well")
	}
	if err := db.Close(); err != nil && v.End == "whole" {
		v.fault("close: %v", err)
	}
	return v
}

func (v *verdict) judge(told, silent []error, start string) {
	switch { // another log id is a sign to clients, not to people
	case start != "" && len(silent) > 0:
		v.End, v.Why = "told", start+" (missing: "+errors.Join(silent...).Error()+")"
	case len(silent) > 0:
		v.End, v.Why = "silent", errors.Join(append(silent, told...)...).Error()
	case len(told) > 0:
		v.End, v.Why = "told", told[0].Error()
	default:
		v.End, v.Why = "whole", start
	}
}

// tryEnv makes the test binary a process that tries damages: a panic of a
// goroutine that works in the background would end the test.
const tryEnv = "PARLEY_DAMAGE_CHILD"

// A tryCase is what such a process is asked; it answers with a verdict.
type tryCase struct {
	Store   damagedStore
	Damages []damage
	Dir     string
}

func tryChild() int {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var c tryCase
		if err := in.Decode(&c); err != nil {
			return 0 // no more
		}
		must(out.Encode(c.Store.try(c.Dir, c.Damages)))
	}
}

// A trier has such a process, and starts another one when it has died.
type trier struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	out    *json.Decoder
	stderr *bytes.Buffer
}

func (r *trier) try(t *testing.T, c tryCase) (v verdict) {
	if r.cmd == nil {
		r.cmd, r.stderr = exec.Command(os.Args[0]), &bytes.Buffer{}
		r.cmd.Env, r.cmd.Stderr = append(os.Environ(), tryEnv+"=1"), r.stderr
		in, err := r.cmd.StdinPipe()
		must(err)
		out, err := r.cmd.StdoutPipe()
		must(err)
		must(r.cmd.Start())
		r.stdin, r.out = in, json.NewDecoder(out)
	}
	err := json.NewEncoder(r.stdin).Encode(c)
	if err == nil {
		err = r.out.Decode(&v)
	}
	if err != nil {
		r.stop()
		said, _, _ := strings.Cut(r.stderr.String(), "\n\n")
		v.End, v.Why = "crashed", said
	}
	return v
}

func (r *trier) stop() {
	if r.cmd != nil {
		_ = r.stdin.Close()
		_ = r.cmd.Wait()
		r.cmd = nil
	}
}

// damages is how many to try.
func damages() int {
	if n, err := strconv.Atoi(os.Getenv("PARLEY_DAMAGE")); err == nil {
		return n
	}
	if testing.Short() {
		return 20
	}
	return 60
}

func TestDamage(t *testing.T) {
	rng := crashSeed(t)
	stores := damagedStores(t)
	t.Run("on purpose", func(t *testing.T) { damageOnPurpose(t, stores) })
	t.Run("at random", func(t *testing.T) { damageAtRandom(t, stores, rng.Uint64(), damages()) })
}

// damageAtRandom shows the table of ends.
func damageAtRandom(t *testing.T, stores []*damagedStore, seed uint64, n int) {
	results := tryAtRandom(t, stores, seed, n)
	for i, r := range results {
		name := fmt.Sprintf("case %d, %s store, %s%s", i, r.store.Age, r.damage, r.when)
		for _, f := range r.Faults {
			t.Errorf("%s: %s: %s", name, f, r.Why)
		}
		if fileKind(r.File) == "other" && !strings.HasPrefix(r.File, "OPTIONS") && r.End != "whole" {
			t.Errorf("%s: %s, though the file holds nothing: %s", name, r.End, r.Why)
		}
		if r.End == "silent" || r.End == "crashed" {
			t.Errorf("%s: %s: %s", name, strings.ToUpper(r.End), r.Why)
		} else if testing.Verbose() {
			t.Logf("%s: %s: %s", name, r.End, strings.ReplaceAll(r.Why, "\n", "; "))
		}
	}
	t.Log(damageTable(results))
}

type damageResult struct {
	store *damagedStore
	damage
	when string
	verdict
}

// tryAtRandom tries n damages, each on a copy of its own; every fourth store has
// seen a power failure besides.
func tryAtRandom(t *testing.T, stores []*damagedStore, seed uint64, n int) []damageResult {
	root := t.TempDir()
	results := make([]damageResult, n)
	cases := make(chan int)
	var wg sync.WaitGroup
	for range 1 + runtime.GOMAXPROCS(0) { // they mostly wait for the disk
		wg.Go(func() {
			var trier trier
			defer trier.stop()
			for i := range cases {
				s := stores[i%len(stores)]
				d := randomDamage(rand.New(rand.NewPCG(seed, uint64(i))), fileSizes(s.Dir))
				all, when := []damage{d}, ""
				if i%4 == 3 {
					all, when = []damage{powerFailure, d}, " after a power failure"
				}
				dir := filepath.Join(root, strconv.Itoa(i))
				v := trier.try(t, tryCase{*s, all, dir})
				results[i] = damageResult{s, d, when, v}
				_ = os.RemoveAll(dir)
				if keep := os.Getenv("PARLEY_DAMAGE_KEEP"); keep != "" && (v.End == "silent" || v.End == "crashed" || len(v.Faults) > 0) {
					dir = filepath.Join(keep, fmt.Sprintf("%s-%d", s.Age, i))
					copyStore(s.Dir, dir)
					for _, d := range all {
						d.do(dir)
					}
				}
			}
		})
	}
	for i := range n {
		cases <- i
	}
	close(cases)
	wg.Wait()
	return results
}

// damageTable counts the ends for each kind of damage and age of store.
func damageTable(results []damageResult) string {
	table := map[[2]string]map[string]int{}
	for _, r := range results {
		for _, row := range []string{r.Kind, "all"} {
			for _, column := range []string{r.store.Age, "all"} {
				at := [2]string{row, column}
				if table[at] == nil {
					table[at] = map[string]int{}
				}
				table[at][r.End]++
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d damages: refused / whole / told / silent / crashed\n| %-12s |", len(results), "")
	columns := []string{"young", "stopped", "idle", "old", "large", "all"}
	for _, c := range columns {
		fmt.Fprintf(&b, " %-23s |", c)
	}
	for _, row := range append(damageKinds, "all") {
		fmt.Fprintf(&b, "\n| %-12s |", row)
		for _, c := range columns {
			n := table[[2]string{row, c}]
			fmt.Fprintf(&b, " %3d /%3d /%3d /%3d /%3d |", n["refused"], n["whole"], n["told"], n["silent"], n["crashed"])
		}
	}
	return b.String()
}

// A store of a process that is killed at any moment opens whole, and nobody says
// that something were wrong. The process is stopped and its directory copied, many
// times: that is what a kill at that moment would have left.
func TestKilledAnywhere(t *testing.T) {
	rng := crashSeed(t)
	root := t.TempDir()
	sessions := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	for _, table := range []int64{64 << 10, 64 << 20} {
		s := &damagedStore{Age: "running", Dir: filepath.Join(root, fmt.Sprint(table)), Acked: map[int]conversation.Seq{}}
		c := startChild(t, crashLife{Dir: s.Dir, Sessions: sessions, Table: table, Erase: 1})
		for round := range damages() / 20 {
			for range 1 + rng.IntN(200) {
				session, n, ok := c.next()
				switch {
				case !ok:
					t.Fatal(c.stderr.String())
				case session < 0:
					s.Gone = append(s.Gone, n)
				default:
					s.Acked[session] = max(s.Acked[session], conversation.Seq(n))
				}
			}
			pid := c.cmd.Process.Pid
			var state syscall.WaitStatus
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			if _, err := syscall.Wait4(pid, &state, syscall.WUNTRACED, nil); err != nil || !state.Stopped() {
				t.Fatalf("the child did not stop: %v, %v", state, err)
			}
			dir := filepath.Join(root, "copy")
			err := os.CopyFS(dir, os.DirFS(s.Dir))
			if err := errors.Join(err, syscall.Kill(pid, syscall.SIGCONT)); err != nil {
				t.Fatal(err)
			}
			o, said := damageOptions()
			db, err := Open(dir, o)
			if err != nil {
				t.Fatalf("tables of %d, copy %d: %v", table, round, err)
			}
			told, silent := s.read(db)
			if err := errors.Join(append(told, silent...)...); err != nil || said() != "" {
				t.Errorf("tables of %d, copy %d: %v, %s", table, round, err, said())
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		c.kill()
		for ok := true; ok; {
			_, _, ok = c.next()
		}
	}
}
