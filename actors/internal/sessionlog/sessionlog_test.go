package sessionlog

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/conversation"
	"parley/conversation/policy"
	"parley/metrics"
	"parley/persistence/persistencetest"
)

var (
	key     = conversation.SessionKey{Tenant: "acme", Session: "aaaaaaaaaaaaaaaa"}
	errLine = errors.New("the line is dead")
)

// withSession runs f in a bubble with a session that was created in memory and
// whose first commit c is to be stored.
func withSession(t *testing.T, f func(t *testing.T, l *Log, store *persistencetest.Memory, c *conversation.Commit)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := persistencetest.NewMemory()
		l := &Log{
			Store: store, Log: slog.New(slog.DiscardHandler), Metrics: metrics.NewActors(prometheus.NewRegistry()),
			Rules: &policy.Rules{Policy: policy.DefaultPolicy(), Agents: map[conversation.AgentName]policy.Profile{
				conversation.Coordinator: {Name: conversation.Coordinator},
			}},
			Go:   func(_ string, do func(), _ func(error)) { go do() },
			Full: func() { t.Error("the store is full") }, Pace: func(context.Context) error { return nil }, ResolveTimeout: time.Minute,
		}
		loaded, err := l.Load(t.Context(), key, true)
		if err != nil {
			t.Fatal(err)
		}
		created := conversation.Event{Seq: 1, At: time.Now(), Body: conversation.SessionCreated{Owner: "ada", Agent: conversation.Coordinator}}
		if err := loaded.Machine.Apply(created); err != nil {
			t.Fatal(err)
		}
		f(t, l, store, &conversation.Commit{
			Epoch: loaded.Head.Epoch, ID: "c1", Events: []conversation.Event{created}, Summary: loaded.Machine.Summary(),
		})
	})
}

// committed commits and waits for the end.
func committed(t *testing.T, l *Log, c *conversation.Commit) (epoch conversation.Epoch, err error) {
	ended := make(chan struct{})
	l.Commit(t.Context(), key, c, func(e conversation.Epoch, failed error) {
		epoch, err = e, failed
		close(ended) // panics if it is told twice
	})
	<-ended
	return epoch, err
}

func TestCommit(t *testing.T) {
	for name, applied := range map[string]bool{"it was written": true, "it was not written": false} {
		t.Run("unknown outcome: "+name, func(t *testing.T) {
			withSession(t, func(t *testing.T, l *Log, store *persistencetest.Memory, c *conversation.Commit) {
				store.FailCommit(func(n int, _ conversation.SessionKey, _ conversation.Commit) (error, bool) {
					if n > 1 {
						return nil, false
					}
					return errLine, applied
				})
				before := c.Epoch
				epoch, err := committed(t, l, c)
				if err != nil || epoch <= before {
					t.Errorf("epoch %d after %d, %v", epoch, before, err)
				}
				if n := len(store.Commits()); n != 1 {
					t.Errorf("stored %d times", n)
				}
			})
		})
	}
	t.Run("never known", func(t *testing.T) {
		withSession(t, func(t *testing.T, l *Log, store *persistencetest.Memory, c *conversation.Commit) {
			store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) { return errLine, false })
			began := time.Now()
			if _, err := committed(t, l, c); !errors.Is(err, errLine) || time.Since(began) < l.ResolveTimeout {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
	})
	t.Run("another writer", func(t *testing.T) {
		withSession(t, func(t *testing.T, l *Log, store *persistencetest.Memory, c *conversation.Commit) {
			if _, err := store.Acquire(t.Context(), key, conversation.AcquireHow{}); err != nil {
				t.Fatal(err)
			}
			if _, err := committed(t, l, c); !errors.Is(err, conversation.ErrFenced) {
				t.Errorf("%v", err)
			}
		})
	})
}

// unacquired is a store that answers each Acquire with err.
type unacquired struct {
	Store
	err error
}

func (u unacquired) Acquire(context.Context, conversation.SessionKey, conversation.AcquireHow) (conversation.Head, error) {
	return conversation.Head{}, u.err
}

// A store that will not let the session be taken says nothing about the commit
// before, unless another one has it now.
func TestCommitStaysUnclear(t *testing.T) {
	for _, c := range []struct {
		err     error
		unclear bool
	}{
		{conversation.ErrFull, true},
		{conversation.ErrDamaged, true},
		{conversation.ErrTooNew, true},
		{errLine, true},
		{conversation.ErrFenced, false},
		{conversation.ErrNotFound, false},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			withSession(t, func(t *testing.T, l *Log, store *persistencetest.Memory, commit *conversation.Commit) {
				store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) { return errLine, true })
				l.Store = unacquired{store, c.err}
				_, err := committed(t, l, commit)
				if !errors.Is(err, c.err) || errors.Is(err, ErrUnclear) != c.unclear {
					t.Errorf("%v", err)
				}
			})
		})
	}
	for _, known := range []error{conversation.ErrUnread, conversation.ErrDamaged} {
		t.Run("known: "+known.Error(), func(t *testing.T) {
			withSession(t, func(t *testing.T, l *Log, store *persistencetest.Memory, commit *conversation.Commit) {
				store.FailReads(key, known)
				l.Store = unacquired{store, errLine}
				began := time.Now()
				if _, err := committed(t, l, commit); !errors.Is(err, known) || errors.Is(err, ErrUnclear) || time.Since(began) > 0 {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		})
	}
}

func TestRead(t *testing.T) {
	withSession(t, func(t *testing.T, l *Log, _ *persistencetest.Memory, c *conversation.Commit) {
		if _, err := l.View(t.Context(), key); !errors.Is(err, conversation.ErrNotFound) {
			t.Errorf("a view of a session without events: %v", err)
		}
		if _, err := committed(t, l, c); err != nil {
			t.Fatal(err)
		}
		if v, err := l.View(t.Context(), key); err != nil || v.Head != 1 {
			t.Errorf("head %d, %v", v.Head, err)
		}
		if e, err := l.Event(t.Context(), key, 1); err != nil || e.Seq != 1 {
			t.Errorf("event %d, %v", e.Seq, err)
		}
		for _, seq := range []conversation.Seq{0, 2} {
			if _, err := l.Event(t.Context(), key, seq); !errors.Is(err, conversation.ErrNotFound) {
				t.Errorf("event %d: %v", seq, err)
			}
		}
		again, err := l.Load(t.Context(), key, false)
		if err != nil || again.Machine.Head() != 1 || again.Transcript == nil || again.Head.Epoch <= c.Epoch {
			t.Errorf("%+v, %v", again, err)
		}
		if _, err := l.Load(t.Context(), conversation.SessionKey{Tenant: "acme", Session: "bbbbbbbbbbbbbbbb"}, false); !errors.Is(err, conversation.ErrNotFound) {
			t.Errorf("a session that was never created: %v", err)
		}
	})
}

// Whoever took the session while the outcome was looked for keeps it.
func TestLookingForACommitTakesNothingAway(t *testing.T) {
	withSession(t, func(t *testing.T, l *Log, store *persistencetest.Memory, c *conversation.Commit) {
		var taken conversation.Head
		store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) { return errLine, false })
		l.Pace = func(ctx context.Context) error {
			var err error
			if taken, err = store.Acquire(ctx, key, conversation.AcquireHow{}); err != nil {
				t.Error(err)
			}
			return nil
		}
		if _, err := committed(t, l, c); !errors.Is(err, conversation.ErrFenced) {
			t.Errorf("the commit ended with %v", err)
		}
		if now, err := store.Head(t.Context(), key); err != nil || now.Epoch != taken.Epoch {
			t.Errorf("epoch %d after %d, %v", now.Epoch, taken.Epoch, err)
		}
	})
}
