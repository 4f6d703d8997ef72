package pebble

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/prometheus/client_golang/prometheus"

	"parley/conversation"
	"parley/conversation/wire"
	"parley/metrics"
	"parley/persistence/pebble/internal/layout"
)

// turn is the commit of half a simple turn: a message of 300 bytes or its answer.
func turn(key conversation.SessionKey, h *conversation.Head, now time.Time, text string) conversation.Commit {
	seq := h.Last + 1
	task := conversation.TaskID(fmt.Sprintf("t%d-%s", seq, key.Session))
	return conversation.Commit{
		Epoch: h.Epoch, After: h.Last, ID: conversation.CommitID(fmt.Sprintf("n1.%d.%d", h.Epoch, seq)),
		Events: []conversation.Event{
			{Seq: seq, At: now, Task: task, Body: conversation.MessageAccepted{
				Message: "m1-abcdefghijklmnop", ClientMsgID: "c1", Author: "alice", Text: text, Disposition: conversation.Started, Via: conversation.ViaWebSocket}},
			{Seq: seq + 1, At: now, Task: task, Body: conversation.TaskStatusChanged{Trigger: "m1-abcdefghijklmnop", Old: conversation.TaskQueued, New: conversation.TaskRunning}},
			{Seq: seq + 2, At: now, Task: task, Body: conversation.StepStarted{Step: 1, Attempt: 1, Agent: "coordinator"}},
		},
		Keys:    []conversation.KeyAt{{Key: conversation.Key{Author: "alice", Client: conversation.ClientMsgID(fmt.Sprintf("c%d", seq))}, Seq: seq}},
		Tasks:   []conversation.TaskRow{{Task: task, Status: conversation.TaskRunning, Owner: "alice", Trigger: "m1-abcdefghijklmnop", CreatedAt: now, UpdatedAt: now, First: seq, Last: seq + 1}},
		Summary: conversation.Summary{Title: "A title", Agent: "coordinator", Owner: "alice", CreatedAt: now, Activity: now, Open: 1},
		WakeAt:  now,
	}
}

// BenchmarkCommit compares a durable commit of W sessions at once, whose caller waits
// (commit) or is told (async), with its baseline: Pebble given the same bytes in one
// synced batch. Run it with -benchtime=2s. Read commits/s and p50; allocs/op,
// commits/sync, cpu-µs/op and keys/op say the same on a busy machine, too.
func BenchmarkCommit(b *testing.B) {
	text := string(make([]byte, 300))
	for _, writers := range []int{1, 50, 200, 1024} {
		each := func(b *testing.B, write func(w, i int)) {
			took := make([]time.Duration, b.N)
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ReportAllocs()
			cpu := cpuTime(b)
			b.ResetTimer()
			for w := range writers {
				wg.Go(func() {
					for i := int(next.Add(1)); i <= b.N; i = int(next.Add(1)) {
						begun := time.Now()
						write(w, i)
						took[i-1] = time.Since(begun)
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64((cpuTime(b)-cpu).Nanoseconds())/1000/float64(b.N), "cpu-µs/op")
			slices.Sort(took)
			b.ReportMetric(float64(took[b.N/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[b.N*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		}
		open := func(b *testing.B) (*DB, *prometheus.Registry) {
			registry := prometheus.NewRegistry()
			o := Defaults()
			o.Ballast, o.Metrics = 0, metrics.NewPersistence(registry)
			db, err := Open(b.TempDir(), o)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = db.Close() })
			return db, registry
		}
		b.Run(fmt.Sprintf("raw/W=%d", writers), func(b *testing.B) {
			db, _ := open(b)
			_, values := rawCommit(b, db, text)
			each(b, func(w, i int) {
				batch := db.p.NewBatch()
				for k, v := range values {
					_ = batch.Set(fmt.Appendf(nil, "\x7f%d-%d-%d-........................", w, i, k), v, nil)
				}
				if err := db.p.Apply(batch, pebble.Sync); err != nil {
					b.Error(err)
				}
				_ = batch.Close()
			})
		})
		for _, way := range []struct {
			name   string
			commit func(db *DB, told chan error, key conversation.SessionKey, c *conversation.Commit) error
		}{
			{"commit", func(db *DB, _ chan error, key conversation.SessionKey, c *conversation.Commit) error {
				return db.Commit(b.Context(), key, *c)
			}},
			{"async", func(db *DB, told chan error, key conversation.SessionKey, c *conversation.Commit) error {
				db.CommitAsync(b.Context(), key, c, func(err error) { told <- err })
				return <-told
			}},
		} {
			b.Run(fmt.Sprintf("%s/W=%d", way.name, writers), func(b *testing.B) {
				db, registry := open(b)
				keys := make([]conversation.SessionKey, writers)
				heads := make([]conversation.Head, writers)
				told := make([]chan error, writers)
				for w := range writers {
					keys[w] = conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("abcdefghijkl%04d", w))}
					h, err := db.Acquire(b.Context(), keys[w], conversation.AcquireHow{Create: true})
					if err != nil {
						b.Fatal(err)
					}
					heads[w], told[w] = h, make(chan error, 1)
				}
				before := writeCounts(b, registry)
				each(b, func(w, _ int) {
					c := turn(keys[w], &heads[w], time.Now(), text)
					if err := way.commit(db, told[w], keys[w], &c); err != nil {
						b.Error(err)
						return
					}
					heads[w].Last += conversation.Seq(len(c.Events))
				})
				after := writeCounts(b, registry)
				b.ReportMetric(float64(b.N)/(after.syncs-before.syncs), "commits/sync")
				b.ReportMetric((after.keys-before.keys)/float64(b.N), "keys/op")
				b.ReportMetric((after.bytes-before.bytes)/float64(b.N), "WAL-B/op")
			})
		}
	}
}

// cpuTime is what this process has used of the processors.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type written struct{ syncs, keys, bytes float64 }

// writeCounts reads what a store has written.
func writeCounts(b *testing.B, registry *prometheus.Registry) (w written) {
	b.Helper()
	families, err := registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range families {
		m := f.GetMetric()[0]
		switch f.GetName() {
		case "parley_store_wal_fsync_seconds":
			w.syncs = float64(m.GetHistogram().GetSampleCount())
		case "parley_store_written_keys_total":
			w.keys = m.GetCounter().GetValue()
		case "parley_store_wal_bytes_total":
			w.bytes = m.GetCounter().GetValue()
		}
	}
	return w
}

// rawCommit is the keys and values that a commit writes.
func rawCommit(b *testing.B, db *DB, text string) (keys, values [][]byte) {
	key := conversation.SessionKey{Tenant: "acme", Session: "abcdefghijklmnop"}
	c := turn(key, &conversation.Head{Epoch: 1}, time.Now(), text)
	batch := db.p.NewBatch()
	defer func() { _ = batch.Close() }()
	buf := db.buffer()
	if err := db.fill(batch, buf, key, &layout.Head{Row: wire.HeadRow{Epoch: 1}}, &c); err != nil {
		b.Fatal(err)
	}
	for r := batch.Reader(); len(r) > 0; {
		_, k, v, ok, err := r.Next()
		if err != nil || !ok {
			break
		}
		keys, values = append(keys, append([]byte(nil), k...)), append(values, append([]byte(nil), v...))
	}
	return keys, values
}

// BenchmarkTail reads the last 50 events of a session of 100,000, as a client does
// that opens a long thread (M-34).
func BenchmarkTail(b *testing.B) {
	db, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.writes = pebble.NoSync
	key := conversation.SessionKey{Tenant: "acme", Session: "abcdefghijklmnop"}
	h, err := db.Acquire(b.Context(), key, conversation.AcquireHow{Create: true})
	if err != nil {
		b.Fatal(err)
	}
	for h.Last < 100_000 {
		c := turn(key, &h, time.Now(), strings.Repeat("x", 300))
		if err := db.Commit(b.Context(), key, c); err != nil {
			b.Fatal(err)
		}
		h.Last += conversation.Seq(len(c.Events))
	}
	if err := db.p.Flush(); err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		n := 0
		for rec, err := range db.Records(b.Context(), key, conversation.Range{Reverse: true, After: h.Last - 50}) {
			if err != nil {
				b.Fatal(err)
			}
			n += len(rec.Events)
		}
		if n < 50 {
			b.Fatalf("%d events", n)
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkFill makes a store of idle sessions in the directory PARLEY_FILL, for
// measurements of starts: PARLEY_SESSIONS (100,000) of them with a message and its
// answer each. Without PARLEY_FILL it fills a directory of the test's.
func BenchmarkFill(b *testing.B) {
	dir, n := os.Getenv("PARLEY_FILL"), 1000
	if dir == "" {
		dir = filepath.Join(b.TempDir(), "store")
	} else {
		n = 100_000
	}
	if s := os.Getenv("PARLEY_SESSIONS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	o := Defaults()
	o.Ballast = 0
	db, err := Open(dir, o)
	if err != nil {
		b.Fatal(err)
	}
	db.writes = pebble.NoSync // it is filled once, and closed in order
	text := strings.Repeat("a word ", 40)
	now := time.Now()
	for b.Loop() {
		for i := range n {
			key := conversation.SessionKey{Tenant: "local", Session: conversation.SessionID(fmt.Sprintf("fill%012d", i))}
			h, err := db.Acquire(b.Context(), key, conversation.AcquireHow{Create: true})
			if err != nil {
				b.Fatal(err)
			}
			for range 2 {
				c := turn(key, &h, now, text)
				c.WakeAt, c.Summary.Open = time.Time{}, 0
				if err := db.Commit(b.Context(), key, c); err != nil {
					b.Fatal(err)
				}
				h.Last += conversation.Seq(len(c.Events))
			}
		}
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "sessions/s")
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkListOfActive reads the first page of the list of sessions while as many as
// the name says were active within the same second: their places in the list say too
// little, so the head of each is read.
func BenchmarkListOfActive(b *testing.B) {
	for _, sessions := range []int{50, 1_000, 10_000} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			db, err := Open(b.TempDir(), Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			db.writes = pebble.NoSync
			began := time.Now()
			for i := range sessions {
				key := conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("abcdefghijkl%04d", i))}
				h, err := db.Acquire(b.Context(), key, conversation.AcquireHow{Create: true})
				if err != nil {
					b.Fatal(err)
				}
				at := began.Add(time.Second * time.Duration(i) / time.Duration(sessions))
				if err := db.Commit(b.Context(), key, turn(key, &h, at, "hello")); err != nil {
					b.Fatal(err)
				}
			}
			b.ResetTimer()
			for b.Loop() {
				page, err := listOf(db.Sessions(b.Context(), conversation.Page{Tenant: "acme", Limit: 50}))
				if err != nil || len(page) != 50 {
					b.Fatal(len(page), err)
				}
			}
		})
	}
}

// BenchmarkReadBesideErasures erases sessions of one turn, and after each one a reader
// reads another session. The cost of both is to be the same for the first 500 and for
// the last 500: an erasure must not be paid by readers. One operation is all erasures;
// PARLEY_ERASURES=20000 says how many they are.
func BenchmarkReadBesideErasures(b *testing.B) {
	erasures := 2000
	if n, err := strconv.Atoi(os.Getenv("PARLEY_ERASURES")); err == nil {
		erasures = n
	}
	for b.Loop() {
		o := Defaults()
		o.Ballast, o.ErasePause = 0, time.Hour
		db, err := Open(b.TempDir(), o)
		if err != nil {
			b.Fatal(err)
		}
		db.writes = pebble.NoSync
		key := func(i int) conversation.SessionKey {
			return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("abcdefghijk%05d", i))}
		}
		for i := range erasures + 1 {
			h, err := db.Acquire(b.Context(), key(i), conversation.AcquireHow{Create: true})
			if err != nil {
				b.Fatal(err)
			}
			if err := db.Commit(b.Context(), key(i), turn(key(i), &h, time.Now(), "hello")); err != nil {
				b.Fatal(err)
			}
		}
		var erasing, reading time.Duration
		for i := range erasures {
			if i == erasures-500 {
				erasing, reading = 0, 0
			}
			began := time.Now()
			if err := db.Delete(b.Context(), key(i)); err != nil {
				b.Fatal(err)
			}
			erased := time.Now()
			if _, err := db.Head(b.Context(), key(erasures)); err != nil {
				b.Fatal(err)
			}
			erasing, reading = erasing+erased.Sub(began), reading+time.Since(erased)
			if i == 499 || i == erasures-1 {
				when := "first"
				if i > 499 {
					when = "last"
				}
				b.ReportMetric(float64(erasing.Microseconds())/500, when+"-\u00b5s/erasure")
				b.ReportMetric(float64(reading.Microseconds())/500, when+"-\u00b5s/read")
			}
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCommitsBesideSweep is a retention sweep beside a load: 50 sessions commit and
// read, for a second alone and then while one goroutine erases as many sessions of one
// turn as PARLEY_ERASURES says and their text is taken off the disk. It prints the
// commits a second and the 99th percentile of their time before the sweep and beside it.
func BenchmarkCommitsBesideSweep(b *testing.B) {
	erasures := 2000
	if n, err := strconv.Atoi(os.Getenv("PARLEY_ERASURES")); err == nil {
		erasures = n
	}
	for b.Loop() {
		o := Defaults()
		o.Ballast = 0
		if testing.Short() { // only whether it runs
			erasures, o.ErasePause = 50, time.Second
		}
		db, err := Open(b.TempDir(), o)
		if err != nil {
			b.Fatal(err)
		}
		key := func(i int) conversation.SessionKey { // in no order, as random names are
			return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("%08xabcd%05d", uint32(i)*2654435761, i))}
		}
		writes := db.writes
		db.writes = pebble.NoSync
		for i := range erasures {
			h, err := db.Acquire(b.Context(), key(i), conversation.AcquireHow{Create: true})
			if err != nil {
				b.Fatal(err)
			}
			if err := db.Commit(b.Context(), key(i), turn(key(i), &h, time.Now(), "hello")); err != nil {
				b.Fatal(err)
			}
		}
		db.writes = writes
		load := func(ended func() bool) (rate float64, p99 time.Duration) {
			var wg sync.WaitGroup
			times := make([][]time.Duration, 50)
			began := time.Now()
			for w := range times {
				wg.Go(func() {
					k := key(1<<30 + w)
					h, err := db.Acquire(b.Context(), k, conversation.AcquireHow{Create: true})
					for err == nil && !ended() {
						c, began := turn(k, &h, time.Now(), "hello"), time.Now()
						if err = db.Commit(b.Context(), k, c); err == nil {
							_, err = db.Head(b.Context(), k) // what a range tombstone makes dear
						}
						times[w] = append(times[w], time.Since(began))
						h.Last += conversation.Seq(len(c.Events))
					}
					if err != nil {
						b.Error(err)
					}
				})
			}
			wg.Wait()
			all := slices.Concat(times...)
			slices.Sort(all)
			return float64(len(all)) / time.Since(began).Seconds(), all[len(all)*99/100]
		}
		alone := time.Now()
		rate, p99 := load(func() bool { return time.Since(alone) > time.Second })
		b.ReportMetric(rate, "alone-commits/s")
		b.ReportMetric(float64(p99.Microseconds()), "alone-p99-\u00b5s")

		cleared := clearings(db)
		var swept atomic.Bool
		began := time.Now()
		go func() {
			defer swept.Store(true)
			for i := range erasures {
				if err := db.Delete(b.Context(), key(i)); err != nil {
					b.Error(err)
					return
				}
			}
			b.ReportMetric(float64(erasures)/time.Since(began).Seconds(), "erasures/s")
			for len(cleared) > 0 {
				<-cleared
			}
			if err := <-cleared; err != nil { // the last one is behind all erasures, or about to end
				b.Error(err)
			}
		}()
		rate, p99 = load(swept.Load)
		b.ReportMetric(rate, "beside-commits/s")
		b.ReportMetric(float64(p99.Microseconds()), "beside-p99-\u00b5s")
		b.ReportMetric(time.Since(began).Seconds(), "sweep-s")
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStartAfterKill opens a store whose process was killed when its newest memory
// table was almost full: what the log holds is put into memory again. Twice that is
// the longest start, when the table before was not yet written.
func BenchmarkStartAfterKill(b *testing.B) {
	for _, table := range []int64{32, 64, 128} {
		if testing.Short() && table > 32 {
			break // only whether it runs
		}
		b.Run(fmt.Sprintf("table=%dMiB", table), func(b *testing.B) {
			o := Defaults()
			o.Ballast, o.MemTableBytes = 0, table<<20
			dir := filepath.Join(b.TempDir(), "running")
			db, err := Open(dir, o)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			writes := db.writes
			db.writes = pebble.NoSync
			text := string(make([]byte, 300))
			heads := make([]conversation.Head, 200)
			for n := 0; db.p.Metrics().MemTable.Size < uint64(table)<<20*9/10; n++ {
				k := conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("abcdefghijkl%04d", n%len(heads)))}
				h := &heads[n%len(heads)]
				if h.Epoch == 0 {
					if *h, err = db.Acquire(b.Context(), k, conversation.AcquireHow{Create: true}); err != nil {
						b.Fatal(err)
					}
				}
				c := turn(k, h, time.Now(), text)
				if err := db.Commit(b.Context(), k, c); err != nil {
					b.Fatal(err)
				}
				h.Last += conversation.Seq(len(c.Events))
			}
			db.writes = writes
			if err := db.p.LogData(nil, pebble.Sync); err != nil { // all before is synced with it
				b.Fatal(err)
			}
			for n := 0; b.Loop(); n++ {
				b.StopTimer()
				killed := filepath.Join(b.TempDir(), fmt.Sprint("killed", n))
				copyRunning(dir, killed)
				b.StartTimer()
				again, err := Open(killed, o)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := again.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
