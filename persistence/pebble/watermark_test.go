package pebble

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"parley/conversation"
	"parley/metrics"
	"parley/persistence/pebble/internal/layout"
	"parley/persistence/pebble/internal/space"
)

// disk is a disk whose free space the test sets.
type disk struct {
	free, total atomic.Uint64
	broken      atomic.Bool
}

func (d *disk) read(string) (free, total uint64, err error) {
	if d.broken.Load() {
		return 0, 0, errors.New("no answer")
	}
	return d.free.Load(), d.total.Load(), nil
}

func onDisk(t *testing.T, d *disk, change func(*Options)) *DB {
	t.Helper()
	o := testOptions(t)
	o.FreeSpace, o.CheckEvery = d.read, time.Hour // the test checks by hand
	o.SoftFree, o.HardFree = 1000, 400
	if change != nil {
		change(&o)
	}
	return openMem(t, vfs.NewMem(), o)
}

// Both watermarks, from both sides: below soft only inner commits are written,
// below hard none; and back up again.
func TestWatermarks(t *testing.T) {
	d := &disk{}
	d.total.Store(10000)
	d.free.Store(5000)
	db := onDisk(t, d, nil)
	k := crashKey(0)
	h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
	if err == nil {
		_, err = db.Acquire(t.Context(), crashKey(1), conversation.AcquireHow{Create: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		free         uint64
		outer, inner bool // is it written
		state        space.Level
	}{
		{5000, true, true, space.OK},
		{1000, true, true, space.OK},
		{999, false, true, space.Soft},
		{400, false, true, space.Soft},
		{399, false, false, space.Hard},
		{0, false, false, space.Hard},
		{700, false, true, space.Soft},
		{1001, true, true, space.OK},
	} {
		d.free.Store(c.free)
		db.guard.Check()
		if got := db.Space(); got != (Space{Free: c.free, Total: 10000, Soft: 1000, Hard: 400, Level: c.state, Known: true}) {
			t.Errorf("%d bytes free: %+v", c.free, got)
		}
		for _, inner := range []bool{false, true} {
			written := c.outer
			if inner {
				written = c.inner
			}
			if err := db.Room(inner); written && err != nil || !written && !errors.Is(err, conversation.ErrFull) {
				t.Errorf("%d bytes free, inner %v: room: %v", c.free, inner, err)
			}
			commit := crashCommit(k, h.Epoch, h.Last)
			commit.Inner = inner
			err := db.Commit(t.Context(), k, commit)
			if written && err != nil || !written && !errors.Is(err, conversation.ErrFull) {
				t.Errorf("%d bytes free, inner %v: %v", c.free, inner, err)
			}
			if err == nil {
				h.Last = following(h.Last)
			}
		}
		_, err := db.Acquire(t.Context(), conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID("new" + c.state.String())}, conversation.AcquireHow{Create: true})
		if c.outer && err != nil || !c.outer && !errors.Is(err, conversation.ErrFull) {
			t.Errorf("%d bytes free: a new session: %v", c.free, err)
		}
		// What is stored already is taken into memory as long as its work may be written.
		_, err = db.Acquire(t.Context(), crashKey(1), conversation.AcquireHow{})
		if c.inner && err != nil || !c.inner && !errors.Is(err, conversation.ErrFull) {
			t.Errorf("%d bytes free: a session that is there: %v", c.free, err)
		}
		if again, err := db.Head(t.Context(), k); err != nil || again.Last != h.Last {
			t.Errorf("%d bytes free: head %+v, %v; want last %d", c.free, again, err, h.Last)
		}
	}

	// Refusals that the writer has to know of come first, whatever the disk says.
	d.free.Store(0)
	db.guard.Check()
	if err := db.Commit(t.Context(), k, crashCommit(k, h.Epoch-1, h.Last)); !errors.Is(err, conversation.ErrFenced) {
		t.Errorf("an old writer on a full disk: %v", err)
	}
	// An erasure is what makes room: it is never refused.
	if err := db.Delete(t.Context(), k); err != nil {
		t.Errorf("an erasure on a full disk: %v", err)
	}
	// While the disk gives no answer what was known stays.
	d.broken.Store(true)
	db.guard.Check()
	if db.Space().Level != space.Hard {
		t.Error("a disk that cannot be read counts as empty")
	}
	d.broken.Store(false)
	d.free.Store(5000)
	db.guard.Check()
}

func TestWatermarksOff(t *testing.T) {
	d := &disk{}
	d.total.Store(10000)
	db := onDisk(t, d, func(o *Options) { o.SoftFree, o.HardFree = 0, 0 })
	h, err := db.Acquire(t.Context(), crashKey(0), conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Commit(t.Context(), crashKey(0), crashCommit(crashKey(0), h.Epoch, 0)); err != nil {
		t.Errorf("nothing free, watermarks off: %v", err)
	}
}

// The guard looks by itself.
func TestGuardTicks(t *testing.T) {
	d := &disk{}
	d.total.Store(10000)
	d.free.Store(5000)
	reads := make(chan struct{})
	o := testOptions(t)
	o.SoftFree, o.CheckEvery = 1000, time.Millisecond
	first := true
	o.FreeSpace = func(dir string) (uint64, uint64, error) {
		if !first {
			reads <- struct{}{}
		}
		first = false
		return d.read(dir)
	}
	db := openMem(t, vfs.NewMem(), o)
	d.free.Store(1)
	<-reads
	<-reads // the one before this has been judged
	if db.Space().Level != space.Soft {
		t.Errorf("space %+v", db.Space())
	}
	go func() {
		for range reads { //nolint:revive // lets the guard go on until the store is closed
		}
	}()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	close(reads)
}

// When a write finds no space the ballast is given up and the write is tried
// again; nothing is taken until the guard has seen room, and then the ballast is
// made anew.
func TestBallast(t *testing.T) {
	disk0 := vfs.NewMem()
	ballast := disk0.PathJoin("store", ballastFile)
	d := &disk{}
	d.total.Store(100 << 20)
	d.free.Store(90 << 20)
	var full atomic.Int32
	fs := errorfs.Wrap(disk0, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".log") && full.Add(-1) == 0 {
			return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
		}
		return nil
	}))
	o := testOptions(t)
	o.FreeSpace, o.CheckEvery, o.SoftFree, o.HardFree, o.Ballast = d.read, time.Hour, 10<<20, 1<<20, 1<<20
	db := openMem(t, fs, o)
	if _, err := disk0.Stat(ballast); err != nil {
		t.Errorf("there is no ballast: %v", err)
	}
	k := crashKey(0)
	h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	full.Store(1)
	if err := db.Commit(t.Context(), k, crashCommit(k, h.Epoch, 0)); err != nil {
		t.Fatalf("the commit that met a full disk: %v", err)
	}
	if _, err := disk0.Stat(ballast); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the ballast is still there: %v", err)
	}
	c := crashCommit(k, h.Epoch, 1)
	c.Inner = true
	if err := db.Commit(t.Context(), k, c); !errors.Is(err, conversation.ErrFull) {
		t.Errorf("the commit after it: %v", err)
	}
	db.guard.Check()
	if err := db.Commit(t.Context(), k, c); err != nil {
		t.Errorf("a commit after there was room: %v", err)
	}
	if _, err := disk0.Stat(ballast); err != nil {
		t.Errorf("the ballast was not made again: %v", err)
	}
}

// The ballast is made only where it leaves room for another one above the soft
// watermark: it must not be what makes the disk full.
func TestBallastNeedsRoom(t *testing.T) {
	fs := vfs.NewMem()
	d := &disk{}
	d.total.Store(100 << 20)
	d.free.Store(12<<20 - 1)
	o := testOptions(t)
	o.FreeSpace, o.CheckEvery, o.SoftFree, o.HardFree, o.Ballast = d.read, time.Hour, 10<<20, 1<<20, 1<<20
	db := openMem(t, fs, o)
	for _, c := range []struct {
		free uint64
		here bool
	}{{12<<20 - 1, false}, {12 << 20, true}} {
		d.free.Store(c.free)
		db.guard.Check()
		if _, err := fs.Stat(fs.PathJoin("store", ballastFile)); (err == nil) != c.here {
			t.Errorf("%d bytes free: the ballast is there: %v", c.free, err == nil)
		}
	}
}

// A stop of a store on a full disk writes no table: the flush would be tried without
// end. With room it does.
func TestCloseOnFullDisk(t *testing.T) {
	for free, wanted := range map[uint64]bool{5000: true, 0: false} {
		d := &disk{}
		d.total.Store(10000)
		d.free.Store(5000)
		var tables atomic.Int32
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
				tables.Add(1)
			}
			return nil
		}))
		o := testOptions(t)
		o.FreeSpace, o.CheckEvery, o.SoftFree, o.HardFree = d.read, time.Hour, 1000, 400
		db := openMem(t, fs, o)
		if _, err := db.Acquire(t.Context(), crashKey(0), conversation.AcquireHow{Create: true}); err != nil {
			t.Fatal(err)
		}
		d.free.Store(free)
		db.guard.Check()
		before := tables.Load()
		if err := db.Close(); err != nil {
			t.Errorf("%d bytes free: %v", free, err)
		}
		if wrote := tables.Load() > before; wrote != wanted {
			t.Errorf("%d bytes free: the stop wrote a table: %v", free, wrote)
		}
	}
}

// N-01: nobody reads what is not on disk. While a commit's sync stands still,
// readers of its session wait for it, and lists that saw it do too.
func TestReadersWaitForTheSync(t *testing.T) {
	var hold, synced atomic.Bool
	reached, release := make(chan struct{}), make(chan struct{})
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) && strings.HasSuffix(op.Path, ".log") && hold.CompareAndSwap(true, false) {
			close(reached)
			<-release
			synced.Store(true)
		}
		return nil
	}))
	db := openMem(t, fs, testOptions(t))
	k := crashKey(0)
	h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	hold.Store(true)
	done := make(chan error, 8)
	go func() { done <- db.Commit(context.Background(), k, crashCommit(k, h.Epoch, 0)) }()
	<-reached
	for visible := false; !visible; runtime.Gosched() { // in memory, that is
		if _, closer, err := db.p.Get(layout.KeyRecord(nil, k, 1)); err == nil {
			visible = true
			_ = closer.Close()
		}
	}
	readers := map[string]func() (bool, error){ // true: it saw the commit
		"head": func() (bool, error) { h, err := db.Head(context.Background(), k); return h.Last > 0, err },
		"records": func() (bool, error) {
			r, err := listOf(db.Records(context.Background(), k, conversation.Range{}))
			return len(r) > 0, err
		},
		"find": func() (bool, error) {
			f, err := db.Find(context.Background(), k, []conversation.Key{{Source: "n", Part: 1}})
			return err == nil && f[0] > 0, err
		},
		"due": func() (bool, error) {
			d, err := listOf(db.Due(context.Background(), crashTime0(1<<30), conversation.Member{}))
			return len(d) > 0, err
		},
		"sessions": func() (bool, error) {
			s, err := listOf(db.Sessions(context.Background(), conversation.Page{Tenant: "acme"}))
			return len(s) > 0, err
		},
		"tasks": func() (bool, error) {
			s, err := listOf(db.Tasks(context.Background(), conversation.TaskFilter{Tenant: "acme"}))
			return len(s) > 0, err
		},
	}
	var through atomic.Int32
	for name, read := range readers {
		go func() {
			saw, err := read()
			through.Add(1)
			if saw && !synced.Load() {
				err = errors.New(name + " showed a commit that was not durable")
			}
			done <- err
		}()
	}
	// A reader that does not wait is through soon; one that does never is.
	for begun := time.Now(); int(through.Load()) < len(readers) && time.Since(begun) < 20*time.Millisecond; {
		runtime.Gosched()
	}
	close(release)
	for range 1 + len(readers) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Every metric of the store shows, with the names that dashboards use.
func TestMetrics(t *testing.T) {
	registry := metrics.NewRegistry()
	o := testOptions(t)
	o.Metrics = metrics.NewPersistence(registry)
	o.SoftFree, o.HardFree, o.CheckEvery = 1000, 400, time.Hour
	var free atomic.Uint64
	free.Store(700)
	o.FreeSpace = func(string) (uint64, uint64, error) { return free.Load(), 10000, nil }
	db := openMem(t, vfs.NewMem(), o)
	k := crashKey(0)
	if _, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true}); !errors.Is(err, conversation.ErrFull) {
		t.Fatal(err)
	}
	free.Store(1000)
	db.guard.Check()
	h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	commit := func(c conversation.Commit) { _ = db.Commit(t.Context(), k, c) }
	commit(crashCommit(k, h.Epoch, 0))
	commit(crashCommit(k, h.Epoch, 0)) // conflict
	commit(crashCommit(k, 9, 1))       // fenced
	dup := crashCommit(k, h.Epoch, 1)
	dup.Keys[0].Key.Part = 1
	commit(dup) // M-30: a hit of a part key
	if _, err := listOf(db.Records(t.Context(), k, conversation.Range{})); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	for _, want := range []struct{ name, label string }{
		{"parley_store_commit_errors_total", "fenced"}, {"parley_store_commit_errors_total", "conflict"},
		{"parley_store_commit_errors_total", "duplicate"}, {"parley_store_duplicates_total", "part"}, {"parley_store_reads_total", "records"},
		{"parley_store_read_seconds", "records"},
	} {
		if n := counted(families, want.name, want.label); n != 1 {
			t.Errorf("%s of %s is %v", want.name, want.label, n)
		}
	}
	// The head of the claim, and of the commit the head, its record and its key at least.
	if n := counted(families, "parley_store_written_keys_total", ""); n < 4 || n > 20 {
		t.Errorf("%v keys written by a claim and a commit of one event", n)
	}
	s, ok := db.stats()
	if !ok || s.WALBytesIn == 0 || s.DiskFree != 1000 || s.HardFree != 400 || !s.Healthy || len(s.LevelBytes) != 7 {
		t.Errorf("stats %+v, %v", s, ok)
	}
	if s.Fsync.Count == 0 || s.Fsync.Sum > 60 || s.Fsync.Buckets[10] != s.Fsync.Count {
		t.Errorf("syncs, in seconds: %+v", s.Fsync)
	}
	names := func() (n int) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if slices.Contains([]string{"parley_store_wal_fsync_seconds", "parley_store_level_bytes", "parley_store_disk_free_bytes", "parley_store_healthy"}, f.GetName()) {
				n += len(f.GetMetric())
			}
		}
		return n
	}
	if n := names(); n != 10 {
		t.Errorf("%d series of an open store, want 10", n)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if n := names(); n != 0 {
		t.Errorf("%d series of a closed store", n)
	}
}

// counted is a counter's value by its only label.
func counted(families []*dto.MetricFamily, name, label string) float64 {
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}
