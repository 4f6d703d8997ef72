package retention

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/conversation"
	"parley/metrics"
	"parley/persistence/persistencetest"
)

const day = 24 * time.Hour

// world is a store, a sweeper of it, and a clock on the wall that can be wrong.
type world struct {
	t     *testing.T
	store *persistencetest.Memory

	mu       sync.Mutex
	wrong    time.Duration // how far the wall's clock is ahead
	stopped  bool
	broken   error
	largest  int // page that was asked for when sessions are erased
	outcomes []string
}

func (w *world) sessions(ctx context.Context, p conversation.Page) iter.Seq2[conversation.Summary, error] {
	w.mu.Lock()
	defer w.mu.Unlock()
	if broken := w.broken; broken != nil {
		return func(yield func(conversation.Summary, error) bool) { yield(conversation.Summary{}, broken) }
	}
	w.largest = max(w.largest, p.Limit)
	return w.store.Sessions(ctx, p)
}

// set changes or reads something while the sweeper runs.
func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// put stores n sessions that were last used age ago; the last ones with open work.
func (w *world) put(n int, age time.Duration, open int) {
	w.t.Helper()
	for i := range n {
		at := time.Now().Add(-age).Round(0)
		key := conversation.SessionKey{
			Tenant:  conversation.TenantID(fmt.Sprint("tenant", i%3)),
			Session: conversation.SessionID(fmt.Sprintf("%s-%d", strings.ReplaceAll(age.String(), ".", ""), i)),
		}
		head, err := w.store.Acquire(w.t.Context(), key, conversation.AcquireHow{Create: true})
		if err != nil {
			w.t.Fatal(err)
		}
		summary := conversation.Summary{CreatedAt: at, Activity: at}
		if i >= n-open {
			summary.Open = 1
		}
		if err := w.store.Commit(w.t.Context(), key, conversation.Commit{Epoch: head.Epoch, ID: "c", Summary: summary}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) left() (n int) {
	for _, err := range w.store.Sessions(context.Background(), conversation.Page{Oldest: true}) {
		if err != nil {
			w.t.Fatal(err)
		}
		n++
	}
	return n
}

// withSweeper runs f in a bubble, beside a sweeper that begins once start is called.
func withSweeper(t *testing.T, f func(w *world, start func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := &world{t: t, store: persistencetest.NewMemory()}
		counted := Counted(metrics.NewActors(prometheus.NewRegistry()))
		f(w, func() {
			go New(Options{
				Age: 30 * day, Every: 10 * time.Minute, Sessions: w.sessions, Summary: w.store.Summary,
				Erase: func(ctx context.Context, key conversation.SessionKey, _ func(conversation.Summary) bool) error {
					return w.store.Delete(ctx, key)
				},
				GoOn: func() (goOn bool) {
					w.set(func() { goOn = !w.stopped })
					return goOn
				},
				Wall: func() (now time.Time) {
					w.set(func() { now = time.Now().Add(w.wrong) })
					return now
				},
				Sweep: func(outcome string) {
					counted(outcome)
					w.set(func() { w.outcomes = append(w.outcomes, outcome) })
				},
				Log:   slog.New(slog.DiscardHandler),
				Guard: func(_ string, f func()) { f() },
			}).Run(ctx)
			synctest.Wait()
		})
	})
}

// step lets time pass; then left sessions are there, and
// these are the sweeps since the step before ("" = any), and the wall's clock is
// set to be ahead by set.
type step struct {
	pass     time.Duration
	set      time.Duration
	left     int
	outcomes string
}

const minute = time.Minute

func TestSweeper(t *testing.T) {
	type some struct {
		n   int
		age time.Duration
	}
	for _, c := range []struct {
		name   string
		stored []some
		wrong  time.Duration // the clock at the start
		steps  []step
	}{
		{"nothing in the first pause", []some{{1, 40 * day}, {1, day}}, 0, []step{
			{pass: 9 * minute, left: 2}, {pass: 2 * minute, left: 1, outcomes: "ok"},
		}},
		{"a clock ahead that is put right in the first pause", []some{{5, day}}, 31 * day, []step{
			{pass: 5 * minute, left: 5}, {pass: 6 * minute, left: 5, outcomes: "clock_moved"}, {pass: 2 * day, left: 5},
		}},
		{"a clock ahead that is put right later", []some{{5, day}, {100, 2 * day}}, 31 * day, []step{
			{pass: 12 * time.Hour, left: 105}, {pass: 10 * minute, left: 105, outcomes: "clock_moved"}, {pass: 2 * day, left: 105},
		}},
		{"a clock ahead for more than a day is believed", []some{{5, day}}, 31 * day, []step{
			{pass: 23 * time.Hour, left: 5, set: 31 * day}, {pass: 2 * time.Hour, left: 0},
		}},
		{"a clock that was set back", []some{{1, 40 * day}, {1, day}}, 0, []step{
			{pass: 5 * minute, left: 2, set: -time.Hour}, {pass: 6 * minute, left: 2, outcomes: "clock_moved", set: -time.Hour}, {pass: 10 * minute, left: 1, outcomes: "ok"},
		}},
		{"what is old by the store's own time does not wait", []some{{3, 95 * day}, {3, 60 * day}}, 0, []step{
			{pass: 11 * minute, left: 3, outcomes: "ok"}, {pass: 20 * time.Hour, left: 3}, {pass: 4 * time.Hour, left: 0},
		}},
		{"off for months", []some{{30, 60 * day}}, 0, []step{
			{pass: 23 * time.Hour, left: 30}, {pass: 58 * minute, left: 30},
			{pass: 10 * minute, left: 30, outcomes: "put_off"}, {pass: 10 * minute, left: 0, outcomes: "ok"},
		}},
		{"the first time", []some{{20, 40 * day}, {10, day}}, 0, []step{
			{pass: 11 * minute, left: 30, outcomes: "put_off"}, {pass: 10 * minute, left: 10, outcomes: "ok"}, {pass: 10 * minute, left: 10, outcomes: "ok"},
		}},
		{"many, and the clock is set before the next sweep", []some{{20, 40 * day}, {10, day}}, 0, []step{
			{pass: 11 * minute, left: 30, outcomes: "put_off", set: time.Hour}, {pass: 10 * minute, left: 30, outcomes: "clock_moved", set: time.Hour},
			{pass: 10 * minute, left: 30, outcomes: "put_off", set: time.Hour}, {pass: 10 * minute, left: 10, outcomes: "ok"},
		}},
		{"few are erased at once", []some{{10, 40 * day}, {1, day}}, 0, []step{{pass: 11 * minute, left: 1, outcomes: "ok"}}},
		{"one more is too many", []some{{11, 40 * day}, {1, day}}, 0, []step{{pass: 11 * minute, left: 12, outcomes: "put_off"}}},
		{"a tenth", []some{{11, 40 * day}, {99, day}}, 0, []step{{pass: 11 * minute, left: 99, outcomes: "ok"}}},
		{"more than a tenth", []some{{11, 40 * day}, {98, day}}, 0, []step{{pass: 11 * minute, left: 109, outcomes: "put_off"}}},
		{"a new store", nil, 0, []step{{pass: day, left: 0}}},
		{"activity in the future", []some{{1, -100 * day}, {1, 29 * day}, {1, 31 * day}}, 0, []step{{pass: 11 * minute, left: 2, outcomes: "ok"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			withSweeper(t, func(w *world, start func()) {
				for _, s := range c.stored {
					w.put(s.n, s.age, 0)
				}
				w.set(func() { w.wrong = c.wrong })
				start()
				for i, s := range c.steps {
					w.set(func() { w.outcomes = nil })
					time.Sleep(s.pass)
					synctest.Wait()
					if n := w.left(); n != s.left {
						t.Errorf("step %d: %d sessions are left, want %d (%v)", i, n, s.left, w.outcomes)
					}
					if got := strings.Join(w.outcomes, " "); s.outcomes != "" && got != s.outcomes {
						t.Errorf("step %d: %q, want %q", i, got, s.outcomes)
					}
					w.set(func() { w.wrong = s.set })
				}
			})
		})
	}
}

// However many there are, one page is in memory, and all are erased in the end; one
// with open work is not, and does not hide those behind it.
func TestSweeperReadsPages(t *testing.T) {
	withSweeper(t, func(w *world, start func()) {
		w.put(3*pageSize, 40*day, 2)
		w.put(7, day, 0)
		start()
		time.Sleep(21 * minute)
		synctest.Wait()
		if n := w.left(); n != 9 {
			t.Errorf("%d are left", n)
		}
		if w.largest != pageSize {
			t.Errorf("%d sessions were asked for at once", w.largest)
		}
	})
}

// A store that fails is asked again; an engine that stops erases nothing more.
func TestSweeperStops(t *testing.T) {
	withSweeper(t, func(w *world, start func()) {
		w.put(1, 40*day, 0)
		w.put(1, day, 0)
		w.set(func() { w.broken = errors.New("the line is dead") })
		start()
		time.Sleep(11 * minute)
		w.set(func() { w.broken, w.stopped = nil, true })
		time.Sleep(10 * minute)
		synctest.Wait()
		if w.left() != 2 {
			t.Error("erased while the engine stops")
		}
		w.set(func() { w.stopped = false })
		time.Sleep(10 * minute)
		synctest.Wait()
		if want := []string{"failed", "stopped", "ok"}; w.left() != 1 || !slices.Equal(w.outcomes, want) {
			t.Errorf("%d are left, %q", w.left(), w.outcomes)
		}
	})
}
