package actors

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
)

// lines is a log that tests read.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// count is how many lines of a level there are.
func (l *lines) count(level string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), "level="+level)
}

// A session that cannot be read because of what is stored is tried less and less
// often; those who speak to it hear that, and the log is not full of it. It is back
// with the first command after it was repaired.
func TestUnreadableSession(t *testing.T) {
	for _, c := range []struct {
		err       error
		code      conversation.Code
		retryable bool
		says      string
	}{
		{conversation.ErrDamaged, conversation.Internal, false, "the operator"},
		{fmt.Errorf("event 7: %w", conversation.ErrTooNew), conversation.Unavailable, true, "newer version"},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			log, store := &lines{}, &counting{}
			withHarness(t, func(h *harness) {
				h.log = slog.NewTextHandler(log, nil)
				store.Store, h.through = h.store, store
			}, func(t *testing.T, h *harness) {
				h.create(mainKey)
				h.ok(h.tell(mainKey, say("a", "work")))
				h.forget(mainKey)
				h.store.FailReads(mainKey, c.err)
				store.leave(false, true)
				began := log.count("ERROR")
				time.Sleep(6 * time.Hour)
				synctest.Wait()
				if n := store.all(); n < 4 || n > 20 {
					t.Errorf("tried %d times in six hours", n)
				}
				if n := log.count("ERROR") - began; n < 1 || n > 40 {
					t.Errorf("%d lines in the log in six hours", n)
				}
				if h.e.Health() == nil {
					t.Error("the engine says that it is well")
				}
				for range 2 { // a client is not kept from trying
					before := store.all()
					err := h.refused(h.tell(mainKey, say("b", "hello")), c.code)
					if !strings.Contains(err.Message, c.says) || err.Retryable() != c.retryable {
						t.Errorf("it says %q, retryable %v", err.Message, err.Retryable())
					}
					if store.all() != before+1 {
						t.Errorf("it was tried %d times", store.all()-before)
					}
				}
				var seen error
				h.e.View(mainKey, ada, func(_ conversation.View, err error) { seen = err })
				synctest.Wait()
				if err := conversation.AsError(seen); err == nil || err.Code != c.code || !strings.Contains(err.Message, c.says) {
					t.Errorf("a view: %v", seen)
				}
				h.store.FailReads(mainKey, nil)
				h.ok(h.tell(mainKey, say("b", "hello")))
				if err := h.e.Health(); err != nil {
					t.Errorf("repaired, and the engine says %v", err)
				}
				h.reply(actorstest.Text("done"))
			})
		})
	}
}

// A command that has a session loaded is there before the load begins, and those that
// waited for the end of the last actor too: a load that fails at once answers them all,
// and none is left for a second load.
func TestLoadFailsAtOnce(t *testing.T) {
	store := &counting{}
	withHarness(t, func(h *harness) { store.Store, h.through = h.store, store }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.forget(mainKey)
		h.store.FailReads(mainKey, conversation.ErrDamaged)
		store.leave(false, true)
		var answers [3]answer
		busy := make(pause) // keeps the actor from going on: what is behind has come by then
		first := []any{busy}
		for i := range answers {
			a := &answers[i]
			first = append(first, &envelope{as: ada, cmd: say("a", "work"), fromClient: true, done: func(r conversation.Receipt, err error) {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.times, a.receipt, a.err = a.times+1, r, err
			}})
		}
		h.e.spawn(mainKey, false, first...)
		synctest.Wait()
		if n := store.all(); n != 0 {
			t.Errorf("it was read %d times before its commands had come", n)
		}
		close(busy)
		for i := range answers {
			h.refused(&answers[i], conversation.Internal)
		}
		if n := store.all(); n != 1 {
			t.Errorf("it was read %d times", n)
		}
	})
}

// all is how often the store was asked for a session since the count began.
func (c *counting) all() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, count := range c.seconds {
		n += count
	}
	return n
}

// The scan for due work gives up on a store that serves nobody, until the next one.
func TestScanOfAStoreThatIsAway(t *testing.T) {
	store := &counting{}
	withHarness(t, func(h *harness) {
		store.Store, h.through = h.store, store
		h.cfg.DueParallel = 4
	}, func(t *testing.T, h *harness) {
		for i := range 100 {
			key := conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("aaaaaaaaaaaa%04d", i))}
			h.create(key)
			h.ok(h.tell(key, say("a", "work")))
			h.forget(key)
		}
		store.leave(true, true)
		time.Sleep(h.cfg.DueEvery + time.Second)
		synctest.Wait()
		if n := store.all(); n < 1 || n > 2*h.cfg.DueParallel {
			t.Errorf("a scan has asked for %d sessions", n)
		}
		store.leave(false, false)
		time.Sleep(2 * h.cfg.DueEvery)
		synctest.Wait()
		if n := h.e.registry.Count(); n != 100 {
			t.Errorf("%d of 100 are back", n)
		}
	})
}

// sick is a store that cannot serve some sessions, and says nothing that helps.
type sick struct {
	conversation.Store
	mu    sync.Mutex
	ill   map[conversation.SessionKey]bool
	tries map[conversation.SessionKey]int // of any session
}

// set changes or reads what the store knows.
func (s *sick) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *sick) Acquire(ctx context.Context, key conversation.SessionKey, how conversation.AcquireHow) (conversation.Head, error) {
	s.mu.Lock()
	s.tries[key]++
	ill, slow := s.ill[key], len(s.ill) > 0
	s.mu.Unlock()
	if ill {
		return conversation.Head{}, errLine
	}
	if slow { // the failures are known first
		time.Sleep(time.Millisecond)
	}
	return s.Store.Acquire(ctx, key, how)
}

// Sessions that cannot be loaded, however many they are and how long that lasts, do not
// keep the scan for due work from those behind them; and they are not given up.
func TestScanPassesSickSessions(t *testing.T) {
	const parallel, sickOnes, healthyOnes = 4, 50, 10
	store := &sick{ill: map[conversation.SessionKey]bool{}, tries: map[conversation.SessionKey]int{}}
	withHarness(t, func(h *harness) {
		store.Store, h.through = h.store, store
		h.cfg.DueParallel, h.cfg.ModelIdle, h.cfg.ModelLimit = parallel, 24*time.Hour, 24*time.Hour
	}, func(t *testing.T, h *harness) {
		name := func(i int) conversation.SessionKey {
			return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("aaaaaaaaaaaa%04d", i))}
		}
		for i := range sickOnes + healthyOnes {
			h.create(name(i))
			h.ok(h.tell(name(i), say("a", "work")))
			time.Sleep(time.Millisecond) // each is due behind the one before
		}
		store.set(func() {
			for i := range sickOnes {
				store.ill[name(i)] = true
			}
		})
		h.restart()
		store.set(func() { clear(store.tries) })
		rounds := sickOnes/parallel + 2 // one that breaks off in the middle of the healthy ones has loaded some
		time.Sleep(time.Duration(rounds) * h.cfg.DueEvery)
		synctest.Wait()
		if n := h.e.registry.Count(); n != healthyOnes {
			t.Errorf("%d of %d healthy sessions are loaded", n, healthyOnes)
		}
		time.Sleep(time.Duration(2*rounds) * h.cfg.DueEvery)
		synctest.Wait()
		total := 0
		store.set(func() {
			for i := range sickOnes {
				n := store.tries[name(i)]
				total += n
				if n < 2 {
					t.Errorf("session %d was tried %d times", i, n)
				}
			}
		})
		if most := 3 * rounds * 2 * parallel; total > most {
			t.Errorf("%d attempts: a scan makes more than %d", total, 2*parallel)
		}
		store.set(func() { clear(store.ill) })
		time.Sleep(h.cfg.DueEvery)
		synctest.Wait()
		if n := h.e.registry.Count(); n != sickOnes+healthyOnes {
			t.Errorf("%d of %d are loaded after the first scan in which all can be", n, sickOnes+healthyOnes)
		}
	})
}
