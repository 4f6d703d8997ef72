package postgres

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"parley/conversation"
	"parley/persistence/postgres/pgtest"
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

// BenchmarkCommit is a durable commit of W sessions at once, as that of the embedded
// store, on a server of its own that waits for the disk. Every second commit has nothing
// left to do, as the end of a turn. Run it with -benchtime=3s. Read commits/s, p50, and
// cpu-µs/op, which is this process's alone.
func BenchmarkCommit(b *testing.B) {
	server := pgtest.Open(b, pgtest.Settings{Sync: true, Extra: map[string]string{"shared_buffers": "128MB"}})
	text := string(make([]byte, 300))
	for _, writers := range []int{1, 10, 50, 200, 1024} {
		b.Run(fmt.Sprintf("W=%d", writers), func(b *testing.B) {
			dsn := server.NewDatabase(b)
			if _, err := Prepare(b.Context(), dsn, true, nil); err != nil {
				b.Fatal(err)
			}
			s := openOn(b, dsn, nil)
			keys := make([]conversation.SessionKey, writers)
			heads := make([]conversation.Head, writers)
			for w := range writers {
				keys[w] = conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("abcdefghijkl%04d", w))}
				h, err := s.Acquire(b.Context(), keys[w], conversation.AcquireHow{Create: true})
				if err != nil {
					b.Fatal(err)
				}
				heads[w] = h
			}
			took := make([]time.Duration, b.N)
			var next atomic.Int64
			var wg sync.WaitGroup
			cpu, server := cpuTime(b), serverTime(b, s)
			b.ReportAllocs()
			b.ResetTimer()
			for w := range writers {
				wg.Go(func() {
					for i := int(next.Add(1)); i <= b.N; i = int(next.Add(1)) {
						begun := time.Now()
						c := turn(keys[w], &heads[w], begun, text)
						if heads[w].Last%2 == 1 {
							c.WakeAt = time.Time{}
						}
						if err := s.Commit(b.Context(), keys[w], c); err != nil {
							b.Error(err)
							return
						}
						heads[w].Last += conversation.Seq(len(c.Events))
						took[i-1] = time.Since(begun)
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64((cpuTime(b)-cpu).Nanoseconds())/1000/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64((serverTime(b, s)-server).Nanoseconds())/1000/float64(b.N), "server-cpu-µs/op")
			slices.Sort(took)
			b.ReportMetric(float64(took[b.N/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[b.N*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
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

// serverTime is what the server's processes for the store have used of the processors,
// where they can be seen: it says on a busy machine, too, what a commit costs there.
func serverTime(b *testing.B, s *Store) (all time.Duration) {
	b.Helper()
	rows, err := s.reading.Query(b.Context(), "select pid from pg_stat_activity where datname = current_database()")
	if err != nil {
		b.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		b.Fatal(err)
	}
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		for _, ticks := range fields[11:13] { // user and system, in hundredths of a second
			n, _ := strconv.Atoi(ticks)
			all += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return all
}

// BenchmarkTakeover is the acquisition of a session by another store, with W at once and a
// commit beside them all the time: its p99 says whether commits wait for acquisitions.
func BenchmarkTakeover(b *testing.B) {
	server := pgtest.Open(b, pgtest.Settings{Sync: true, Extra: map[string]string{"shared_buffers": "128MB"}})
	dsn := server.NewDatabase(b)
	if _, err := Prepare(b.Context(), dsn, true, nil); err != nil {
		b.Fatal(err)
	}
	const sessions, writers = 2000, 200
	s, other := openOn(b, dsn, nil), openOn(b, dsn, nil)
	key := func(i int) conversation.SessionKey {
		return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("abcdefghijkl%04d", i%sessions))}
	}
	var wg sync.WaitGroup
	each := func(n int, do func(i int)) {
		var next atomic.Int64
		for range writers {
			wg.Go(func() {
				for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
					do(i)
				}
			})
		}
		wg.Wait()
	}
	each(sessions, func(i int) {
		h, err := s.Acquire(b.Context(), key(i), conversation.AcquireHow{Create: true})
		if err == nil {
			err = s.Commit(b.Context(), key(i), turn(key(i), &h, time.Now(), "Hello"))
		}
		if err != nil {
			b.Error(err)
		}
	})
	beside := conversation.SessionKey{Tenant: "acme", Session: "beside"}
	h, err := other.Acquire(b.Context(), beside, conversation.AcquireHow{Create: true})
	if err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			begun := time.Now()
			if err := other.Commit(b.Context(), beside, turn(beside, &h, begun, "Hello")); err != nil {
				b.Error(err)
				return
			}
			h.Last += 3
			took = append(took, time.Since(begun))
		}
	}()
	b.ResetTimer()
	each(b.N, func(i int) {
		if _, err := other.Acquire(b.Context(), key(i), conversation.AcquireHow{}); err != nil {
			b.Error(err)
		}
	})
	b.StopTimer()
	close(stop)
	<-stopped
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "commit-p99-µs")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "takeovers/s")
}
