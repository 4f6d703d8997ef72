package list_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/listing"
	"parley/gateway/list"
	"parley/persistence/persistencetest"
)

// bench is a store, its writer and those who watch.
type bench struct {
	t     *testing.T
	mem   *persistencetest.Memory
	store conversation.Store // what the writer writes to
	lists *list.Board
	heads map[conversation.SessionKey]*open
	n     int
}

// open is a session as its writer knows it.
type open struct {
	head conversation.Head
	sum  conversation.Summary
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, mem: persistencetest.NewMemory(), heads: map[conversation.SessionKey]*open{}}
	b.lists = list.New(b.mem, nil, nil)
	b.store = list.Store(b.mem, b.lists.Changed)
	return b
}

func key(id string) conversation.SessionKey {
	return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(id)}
}

// commit stores one event of a session that is made when it is not there.
func (b *bench) commit(id string, change func(c *conversation.Commit)) error {
	b.t.Helper()
	o := b.heads[key(id)]
	if o == nil {
		h, err := b.store.Acquire(b.t.Context(), key(id), conversation.AcquireHow{Create: true})
		if err != nil {
			return err
		}
		o = &open{head: h, sum: conversation.Summary{Key: key(id), Title: id, Owner: "ann", CreatedAt: time.Now()}}
		b.heads[key(id)] = o
	}
	b.n++
	c := conversation.Commit{
		Epoch: o.head.Epoch, After: o.head.Last, ID: conversation.CommitID(strconv.Itoa(b.n)), Summary: o.sum,
		Events: []conversation.Event{{Seq: o.head.Last + 1, At: time.Now(), Body: conversation.ContextCleared{}}},
	}
	if change != nil {
		change(&c)
	}
	if len(c.Events) > 0 {
		c.Summary.Activity = time.Now()
	}
	c.Summary.Last = c.After + conversation.Seq(len(c.Events))
	err := make(chan error, 1)
	b.store.CommitAsync(b.t.Context(), key(id), &c, func(e error) { err <- e })
	if err := <-err; err != nil {
		return err
	}
	o.sum, o.head.Last = c.Summary, c.Summary.Last
	return nil
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) erase(id string) {
	b.t.Helper()
	delete(b.heads, key(id))
	b.must(b.store.Delete(b.t.Context(), key(id)))
}

func seen(user conversation.UserID, seq conversation.Seq) func(c *conversation.Commit) {
	return func(c *conversation.Commit) {
		c.Events, c.Cursors = nil, []conversation.Cursor{{User: user, Seq: seq}}
	}
}

func marked(user conversation.UserID, mark listing.Marks, on bool) func(c *conversation.Commit) {
	return func(c *conversation.Commit) {
		c.Events, c.Cursors = nil, []conversation.Cursor{{User: user, Marking: listing.Marking{}.With(mark, on)}}
	}
}

func shared(a conversation.Access) func(c *conversation.Commit) {
	return func(c *conversation.Commit) {
		c.Summary.Access, c.Events[0].Body = a, conversation.SessionUpdated{Access: &a}
	}
}

func member(user conversation.UserID, role access.Role) func(c *conversation.Commit) {
	return func(c *conversation.Commit) {
		members := map[conversation.UserID]access.Role{}
		for u, r := range c.Summary.Members {
			members[u] = r
		}
		if members[user] = role; role == access.None {
			delete(members, user)
		}
		c.Summary.Members, c.Events[0].Body = members, conversation.SessionUpdated{Members: map[conversation.UserID]access.Role{user: role}}
	}
}

// client merges rows as a client of protocol v1 does.
type client struct {
	user conversation.UserID
	rows map[conversation.SessionID]conversation.Summary
	at   map[conversation.SessionID]time.Time // when the last row came
}

// run takes rows until ctx ends, and rests between them.
func (c *client) run(ctx context.Context, t *testing.T, w *list.Changes, rest func() time.Duration) {
	for {
		rows, err := w.Next(ctx)
		if err != nil {
			return
		}
		for _, r := range rows {
			if last, was := c.at[r.Session]; was && time.Since(last) < list.Every {
				t.Errorf("%s: two rows of %s within %s", c.user, r.Session, time.Since(last))
			}
			c.at[r.Session] = time.Now()
			if r.Summary == nil {
				delete(c.rows, r.Session)
			} else if have, known := c.rows[r.Session]; !known || r.Summary.Last >= have.Last {
				c.rows[r.Session] = *r.Summary
			}
		}
		time.Sleep(rest())
	}
}

// listed is the route's list.
func (b *bench) listed(user conversation.UserID) map[conversation.SessionID]conversation.Summary {
	all := map[conversation.SessionID]conversation.Summary{}
	for row, err := range b.mem.Sessions(context.Background(), conversation.Page{Tenant: "acme", For: user}) {
		b.must(err)
		if row.Role(user) != access.None {
			all[row.Key.Session] = row
		}
	}
	return all
}

// Random commits, erasures, changes of who may see a session and read cursors, with fast and
// slow clients that come and go: what a client has merged is what the route lists.
func TestWatchesEndWithTheList(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("PARLEY_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("PARLEY_SEED=%d", seed)
	for round := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, round))
			b := newBench(t)
			users := []conversation.UserID{"ann", "bob", "cid", "dan"}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var clients []*client
			for step := range 400 {
				time.Sleep(time.Duration(r.IntN(120)) * time.Millisecond)
				if step%40 == 5 {
					c := &client{user: users[r.IntN(len(users))], at: map[conversation.SessionID]time.Time{}}
					w := b.lists.Watch("acme", c.user)
					c.rows = b.listed(c.user) // behind the ok
					clients = append(clients, c)
					pause := time.Duration(r.IntN(3)*r.IntN(4000)) * time.Millisecond
					go c.run(ctx, t, w, func() time.Duration { return pause })
				}
				id := fmt.Sprintf("s%d", r.IntN(12))
				user := users[1+r.IntN(len(users)-1)]
				o := b.heads[key(id)]
				switch k := r.IntN(12); {
				case o == nil, k < 5:
					err := b.commit(id, func(c *conversation.Commit) {
						c.Summary.Parts = c.Summary.Parts.With(uint64(c.After + 1))
						c.Summary.Title = fmt.Sprint(r.IntN(5))
					})
					if err != nil && !errors.Is(err, conversation.ErrNotFound) {
						t.Fatal(err)
					}
				case k < 7:
					b.must(b.commit(id, seen(users[r.IntN(len(users))], conversation.Seq(r.IntN(int(o.head.Last)+1)))))
				case k < 8 && r.IntN(2) == 0:
					b.must(b.commit(id, marked(users[r.IntN(len(users))], []listing.Marks{listing.Pinned, listing.Archived}[r.IntN(2)], r.IntN(2) == 0)))
				case k < 8:
					b.must(b.commit(id, shared([]conversation.Access{conversation.AccessPrivate, conversation.AccessTenant}[r.IntN(2)])))
				case k < 10:
					b.must(b.commit(id, member(user, []access.Role{access.None, access.Reader, access.Writer}[r.IntN(3)])))
				case k < 11 && r.IntN(3) == 0:
					b.erase(id)
				}
			}
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			for _, c := range clients {
				if want := b.listed(c.user); !reflect.DeepEqual(c.rows, want) {
					t.Errorf("round %d: %s has merged\n%+v\nthe list is\n%+v", round, c.user, c.rows, want)
				}
			}
		})
	}
}

// next brings what comes until nothing has come for a while, as "id" or "-id" of gone ones.
func (b *bench) next(w *list.Changes) (all []string) {
	b.t.Helper()
	for {
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
		rows, err := w.Next(ctx)
		cancel()
		if err != nil {
			slices.Sort(all)
			return all
		}
		for _, r := range rows {
			if r.Summary == nil {
				all = append(all, "-"+string(r.Session))
			} else {
				all = append(all, string(r.Session))
			}
		}
	}
}

// Who is shown what: those who may see a session, and those who could before.
func TestWhoIsShownAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		ann, bob := b.lists.Watch("acme", "ann"), b.lists.Watch("acme", "bob")
		other := b.lists.Watch("other", "ann")
		say := func(id string) func() { return func() { b.must(b.commit(id, nil)) } }
		with := func(id string, change func(c *conversation.Commit)) func() {
			return func() { b.must(b.commit(id, change)) }
		}
		for _, x := range []struct {
			name     string
			do       func()
			ann, bob []string
		}{
			{"a new one", say("s1"), []string{"s1"}, nil},
			{"shared with the tenant", with("s1", shared(conversation.AccessTenant)), []string{"s1"}, []string{"s1"}},
			{"a message in it", say("s1"), []string{"s1"}, []string{"s1"}},
			{"read by bob", with("s1", seen("bob", 2)), nil, []string{"s1"}},
			{"read by ann on another device", with("s1", seen("ann", 3)), []string{"s1"}, nil},
			{"archived by bob", with("s1", marked("bob", listing.Archived, true)), nil, []string{"s1"}},
			{"private again", with("s1", shared(conversation.AccessPrivate)), []string{"s1"}, []string{"-s1"}},
			{"a message that bob must not see", say("s1"), []string{"s1"}, nil},
			{"bob is made a member", with("s1", member("bob", access.Reader)), []string{"s1"}, []string{"s1"}},
			{"many at once", func() {
				for range 50 {
					b.must(b.commit("s1", nil))
				}
			}, []string{"s1"}, []string{"s1"}},
			{"bob is removed", with("s1", member("bob", access.None)), []string{"s1"}, []string{"-s1"}},
			{"a delegation's session", say("s1/c1"), nil, nil},
			{"erased", func() { b.erase("s1") }, []string{"-s1"}, nil},
			{"the list again", func() {
				say("s2")()
				b.next(ann)
				b.must(b.lists.Again(t.Context(), "acme"))
				b.must(b.lists.Again(t.Context(), "nobody watches"))
			}, []string{"s2"}, nil},
		} {
			x.do()
			if got := b.next(ann); !slices.Equal(got, x.ann) {
				t.Errorf("%s: ann is shown %v, want %v", x.name, got, x.ann)
			}
			if got := b.next(bob); !slices.Equal(got, x.bob) {
				t.Errorf("%s: bob is shown %v, want %v", x.name, got, x.bob)
			}
		}
		ann.Close()
		ann.Close()
		b.must(b.commit("s2", nil))
		if got := append(b.next(ann), b.next(other)...); got != nil {
			t.Errorf("behind the end, and in another tenant: %v", got)
		}
		if bob.Close(); b.lists.Watched("acme") || !b.lists.Watched("other") {
			t.Error("it is not known any more who watches")
		}
	})
}

// A commit of which it is not known whether it was stored is shown when that is known.
func TestUnclearCommitIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.must(b.commit("s1", nil))
		ann := b.lists.Watch("acme", "ann")
		lost := errors.New("the answer was lost")
		b.mem.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) { return lost, true })
		if err := b.commit("s1", nil); !errors.Is(err, lost) {
			t.Fatal(err)
		}
		b.mem.FailCommit(nil)
		if got := b.next(ann); got != nil {
			t.Errorf("before it is known: %v", got)
		}
		for range 2 { // the second one has nothing to settle
			if _, err := b.store.Acquire(t.Context(), key("s1"), conversation.AcquireHow{}); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.next(ann); !slices.Equal(got, []string{"s1"}) {
			t.Errorf("when it is known: %v", got)
		}
		b.mem.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) {
			return conversation.ErrFull, false
		})
		if err := b.commit("s1", nil); err == nil {
			t.Fatal("it was stored")
		}
		if _, err := b.store.Acquire(t.Context(), key("s1"), conversation.AcquireHow{}); err != nil {
			t.Fatal(err)
		}
		if got := b.next(ann); got != nil {
			t.Errorf("of what was refused: %v", got)
		}
	})
}

// While rows cannot be read a watch waits, and forgets nothing; it ends with the store.
func TestRowsThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		down := &failing{Rows: b.mem, err: errors.New("the database is away")}
		b.lists = list.New(down, nil, nil)
		b.store = list.Store(b.mem, b.lists.Changed)
		ann := b.lists.Watch("acme", "ann")
		for i := range 40 {
			b.must(b.commit(fmt.Sprint("s", i), nil))
		}
		if got := b.next(ann); got != nil {
			t.Errorf("%v", got)
		}
		down.err = nil
		if got := b.next(ann); len(got) != 40 {
			t.Errorf("%d rows of 40: %v", len(got), got)
		}
		down.err = conversation.ErrClosed
		b.must(b.commit("s1", nil))
		if _, err := ann.Next(t.Context()); !errors.Is(err, conversation.ErrClosed) {
			t.Errorf("at the end of the store: %v", err)
		}
	})
}

// failing fails while err is set.
type failing struct {
	list.Rows
	err error
}

func (f *failing) Sessions(ctx context.Context, p conversation.Page) iter.Seq2[conversation.Summary, error] {
	if err := f.err; err != nil {
		return func(yield func(conversation.Summary, error) bool) { yield(conversation.Summary{}, err) }
	}
	return f.Rows.Sessions(ctx, p)
}
