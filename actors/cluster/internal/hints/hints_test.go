package hints

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
)

// world is a few nodes whose messages get lost.
type world struct {
	mu     sync.Mutex // of all that is here, and of the nodes' own
	nodes  map[conversation.Member]*node
	living []conversation.Member
	lost   func() (silently, refused bool)
}

// node keeps which changes it has heard of, and may miss.
type node struct {
	*Hints
	end   context.CancelFunc
	dirty map[conversation.SessionKey]bool // changed elsewhere, and neither heard of nor read again since
	fails int                              // so many rereads fail
	inbox chan func()
}

func (w *world) start(ctx context.Context, m conversation.Member) {
	n := &node{dirty: map[conversation.SessionKey]bool{}, fails: 1, inbox: make(chan func(), 1000)}
	n.Hints = New(Options{
		Others: func() []conversation.Member {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.DeleteFunc(slices.Clone(w.living), func(o conversation.Member) bool { return o == m })
		},
		Send: func(to conversation.Member, body []byte) bool {
			w.mu.Lock()
			silently, refused := w.lost()
			other, dead := w.nodes[to], w.nodes[m] == nil
			w.mu.Unlock()
			if other != nil && !silently && !refused && !dead {
				other.inbox <- func() { other.Receive(m, body) }
			}
			return !refused
		},
		Take: func(h Hint) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if h.Everyone || len(h.Users) == 2 {
				delete(n.dirty, h.Key)
			}
		},
		Again: func(context.Context) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if n.fails--; n.fails >= 0 {
				return errors.New("the database is away")
			}
			clear(n.dirty)
			return nil
		},
	})
	ctx, n.end = context.WithCancel(ctx)
	w.mu.Lock()
	w.nodes[m], w.living = n, append(w.living, m)
	w.mu.Unlock()
	go n.Run(ctx)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case take := <-n.inbox:
				take()
			}
		}
	}()
	w.moved()
}

// kill ends a node that has no time to say anything.
func (w *world) kill(m conversation.Member) {
	w.mu.Lock()
	n := w.nodes[m]
	delete(w.nodes, m)
	w.living = slices.DeleteFunc(w.living, func(o conversation.Member) bool { return o == m })
	w.mu.Unlock()
	n.end()
	w.moved()
}

func (w *world) moved() {
	for _, o := range w.nodes {
		o.Moved()
	}
}

// Whatever is lost on the way, and whoever dies, each node has heard of every change at the
// end, or has read its lists again since.
func TestEveryChangeIsHeardOfOrReadAgain(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("PARLEY_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("PARLEY_SEED=%d", seed)
	for round := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, round))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			calm := false
			w := &world{nodes: map[conversation.Member]*node{}}
			w.lost = func() (bool, bool) { return !calm && r.IntN(5) == 0, !calm && r.IntN(5) == 0 }
			next := 0
			join := func() {
				next++
				w.start(ctx, conversation.Member{Node: conversation.NodeID(fmt.Sprint("n", next)), Incarnation: conversation.Incarnation(next)})
			}
			for range 3 {
				join()
			}
			for range 300 {
				synctest.Wait()
				switch k := r.IntN(60); {
				case k == 0 && len(w.living) > 2:
					w.kill(w.living[r.IntN(len(w.living))])
				case k == 1:
					join()
				default:
					from := w.living[r.IntN(len(w.living))]
					key := conversation.SessionKey{Tenant: "t", Session: conversation.SessionID(fmt.Sprint("s", r.IntN(700)))}
					w.mu.Lock()
					for m, n := range w.nodes {
						if m != from {
							n.dirty[key] = true
						}
					}
					w.mu.Unlock()
					h := Hint{Key: key, Everyone: r.IntN(2) == 0}
					if !h.Everyone {
						h.Users = []conversation.UserID{"ann", "bob"}
					}
					w.nodes[from].Changed(h)
				}
				w.mu.Lock()
				pause := time.Duration(r.IntN(60)) * time.Millisecond
				w.mu.Unlock()
				time.Sleep(pause)
			}
			w.mu.Lock()
			calm = true
			w.mu.Unlock()
			time.Sleep(time.Minute)
			synctest.Wait()
			for m, n := range w.nodes {
				if len(n.dirty) > 0 {
					t.Errorf("round %d: %s has missed %v", round, m, n.dirty)
				}
			}
		})
	}
}

// Hints of one session become one, whose rows are those of both; many go in several messages.
func TestHintsMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := conversation.Member{Node: "a", Incarnation: 1}, conversation.Member{Node: "b", Incarnation: 2}
		var taken []Hint
		messages := 0
		there := New(Options{Others: func() []conversation.Member { return nil }, Take: func(h Hint) { taken = append(taken, h) }})
		here := New(Options{Others: func() []conversation.Member { return []conversation.Member{b} }, Send: func(_ conversation.Member, body []byte) bool {
			messages++
			there.Receive(a, body)
			return true
		}})
		key := conversation.SessionKey{Tenant: "t", Session: "s"}
		here.Changed(Hint{Key: key, Users: []conversation.UserID{"ann"}})
		here.Changed(Hint{Key: key, Users: []conversation.UserID{"bob", "ann"}})
		here.send(false)
		if len(taken) != 1 || messages != 1 || !slices.Equal(taken[0].Users, []conversation.UserID{"ann", "bob"}) || taken[0].Everyone {
			t.Errorf("%d messages: %+v", messages, taken)
		}
		taken = nil
		for i := range most + 1 {
			here.Changed(Hint{Key: conversation.SessionKey{Tenant: "t", Session: conversation.SessionID(fmt.Sprint(i))}, Everyone: true})
		}
		here.send(true)
		if len(taken) != most+1 || messages != 4 { // the last one says the number
			t.Errorf("%d messages, %d hints", messages, len(taken))
		}
		if <-there.again; len(there.again) != 0 {
			t.Error("only the first message of a node is a reason to read again")
		}
	})
}
