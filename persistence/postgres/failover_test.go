package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/member"
	"parley/persistence/postgres/pgtest"
)

// What was acknowledged is there, once and in order, whatever happens to the database
// while it is written to, as long as writers keep to the rule for unknown outcomes. No
// member of the cluster is dead afterwards.
func TestTheDatabaseIsStoppedUnderLoad(t *testing.T) {
	const long, short = 5 * time.Second, 200 * time.Millisecond
	for _, c := range []struct {
		name     string
		patience time.Duration // of the store; a short one lets the writers see what is unknown
		standby  bool
		fault    func(ctx context.Context, primary, standby *pgtest.Server) error
	}{
		{"stopped as an operator does, and started", long, false, func(ctx context.Context, p, _ *pgtest.Server) error {
			return errors.Join(p.Fast(), p.Resume(ctx))
		}},
		{"stopped at once, and started", long, false, func(ctx context.Context, p, _ *pgtest.Server) error {
			return errors.Join(p.Immediate(), p.Resume(ctx))
		}},
		{"frozen for a while", short, false, func(_ context.Context, p, _ *pgtest.Server) error {
			err := p.Freeze()
			<-time.After(500 * time.Millisecond) // of which nobody hears
			return errors.Join(err, p.Thaw())
		}},
		{"stopped at once, under writers without patience", short, false, func(ctx context.Context, p, _ *pgtest.Server) error {
			return errors.Join(p.Immediate(), p.Resume(ctx))
		}},
		{"replaced by its standby, under writers without patience", short, true, func(ctx context.Context, p, s *pgtest.Server) error {
			return errors.Join(p.Immediate(), s.Promote(ctx))
		}},
		{"stopped as an operator does, and its standby is promoted at once", long, true, func(ctx context.Context, p, s *pgtest.Server) error {
			return errors.Join(p.Fast(), s.Promote(ctx))
		}},
		{"replaced by its synchronous standby", long, true, func(ctx context.Context, p, s *pgtest.Server) error {
			return errors.Join(p.Immediate(), s.Promote(ctx))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && (c.standby || c.patience == long) {
				t.Skip("NOT RUN: it takes seconds")
			}
			primary := pgtest.Open(t, pgtest.Settings{Sync: true})
			servers := []*pgtest.Server{primary}
			var standby *pgtest.Server
			if c.standby {
				var err error
				if standby, err = primary.Standby(t.Context(), true); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := standby.Close(); err != nil {
						t.Error(err)
					}
				})
				servers = append(servers, standby)
			}
			dsn := pgtest.DSN("", servers...)
			if _, err := Prepare(t.Context(), dsn, true, nil); err != nil {
				t.Fatal(err)
			}
			underLoad(t, dsn, c.patience, func() error { return c.fault(t.Context(), primary, standby) })
		})
	}
}

// underLoad has sessions written to while the fault happens, and for some commits after it.
func underLoad(t *testing.T, dsn string, patience time.Duration, fault func() error) {
	const sessions, before, after = 4, 20, 20
	store := openOn(t, dsn, func(o *StoreOptions) { o.Patience = patience })
	list := listOn(t, dsn)
	a, b := joined(t, list, "a"), joined(t, list, "b")
	writers := make([]*writer, sessions)
	over, begun := make(chan struct{}), make(chan struct{}, sessions)
	var all sync.WaitGroup
	for i := range writers {
		w := &writer{t: t, store: store, owner: a.Member, key: conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("s%d", i))}}
		writers[i] = w
		all.Go(func() {
			for n := 0; n < before; n++ {
				w.write()
			}
			begun <- struct{}{}
			for open := true; open; w.write() {
				select {
				case <-over:
					open = false
				default:
				}
			}
			for n := 0; n < after; n++ {
				w.write()
			}
		})
	}
	for range sessions {
		<-begun
	}
	err := fault()
	close(over)
	if err != nil {
		t.Error(err)
	}
	all.Wait()
	unknown, reader := 0, openOn(t, dsn, nil)
	for _, w := range writers {
		w.check(reader)
		unknown += int(w.unknown.Load())
	}
	t.Logf("%d outcomes were unknown", unknown)
	stillMembers(t, list, a, b)
}

func joined(t *testing.T, list Members, node string) member.Info {
	t.Helper()
	who := member.Info{Member: conversation.Member{Node: conversation.NodeID(node)}, Sessions: true}
	m, err := list.Join(t.Context(), who, 400*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	who.Member = m
	return who
}

// stillMembers: the first who reaches the list again finds nobody dead.
func stillMembers(t *testing.T, list Members, a, b member.Info) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := list.Renew(t.Context(), a)
		if err == nil {
			if len(got.Members) != 2 || got.Members[0].Member != a.Member || got.Members[1].Member != b.Member || got.Members[1].Dead {
				t.Errorf("after the outage the list is %+v", got.Members)
			}
			return
		}
		if errors.Is(err, member.ErrDeposed) {
			t.Fatal(err)
		}
		<-tick.C
	}
}

// writer writes to one session by the rules, and remembers what was acknowledged.
type writer struct {
	t       *testing.T
	store   *Store
	owner   conversation.Member
	key     conversation.SessionKey
	head    conversation.Head
	held    bool
	n       int
	acked   []conversation.CommitID
	unknown atomic.Int64
}

// write commits one event, however often it has to be tried.
func (w *writer) write() {
	ctx := w.t.Context()
	w.n++
	id := conversation.CommitID(fmt.Sprintf("c%d", w.n))
	source := conversation.SourceID(fmt.Sprintf("part%d", w.n))
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for began := time.Now(); time.Since(began) < time.Minute; <-pause.C {
		if !w.held {
			h, err := w.store.Acquire(ctx, w.key, conversation.AcquireHow{Create: true, Owner: w.owner})
			if err != nil {
				continue
			}
			w.head, w.held = h, true
			if h.LastCommit == id { // it was written after all
				w.acked = append(w.acked, id)
				return
			}
		}
		seq := w.head.Last + 1
		err := w.store.Commit(ctx, w.key, conversation.Commit{
			Epoch: w.head.Epoch, After: w.head.Last, ID: id,
			Events:  []conversation.Event{{Seq: seq, At: time.Now(), Body: conversation.SessionClosed{Reason: string(id)}}},
			Keys:    []conversation.KeyAt{{Key: conversation.Key{Source: source}, Seq: seq}},
			Summary: conversation.Summary{Owner: "alice", CreatedAt: time.Now(), Activity: time.Now()},
		})
		if err == nil {
			w.head.Last, w.head.LastCommit = seq, id
			w.acked = append(w.acked, id)
			return
		}
		if errors.As(err, new(*conversation.DuplicateError)) || errors.Is(err, conversation.ErrConflict) {
			w.t.Errorf("%s: commit %s: %v", w.key, id, err)
			return
		}
		w.unknown.Add(1)
		w.held = false
	}
	w.t.Errorf("%s: commit %s did not succeed for a minute", w.key, id)
}

// check compares the log with what was acknowledged.
func (w *writer) check(reader *Store) {
	var got []conversation.CommitID
	for r, err := range reader.Records(w.t.Context(), w.key, conversation.Range{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		got = append(got, r.ID)
		if r.Events[0].Seq != conversation.Seq(len(got)) {
			w.t.Errorf("%s: commit %s is at seq %d, want %d", w.key, r.ID, r.Events[0].Seq, len(got))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(w.acked) {
		w.t.Errorf("%s holds the commits %v; acknowledged were %v", w.key, got, w.acked)
	}
}
