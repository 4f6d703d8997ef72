package relay

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
)

// Sessions move, in good order and by deaths of leases, rings differ, lines lose, clients come
// and go, in any order. A client never sees a gap, an event twice, or text of a writer whom the
// events before it have replaced; and at the end each has seen all there is.
func TestRandomMoves(t *testing.T) {
	seed, runs := rand.Uint64(), 30
	if s := os.Getenv("PARLEY_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
		runs = 1
	}
	for range runs {
		run(t, func(w *world) { randomMoves(t, w, rand.New(rand.NewPCG(seed, 1))) }, "a", "b", "c", "d")
		if t.Failed() {
			t.Fatalf("again with: PARLEY_SEED=%d go test -run TestRandomMoves ./actors/cluster/internal/relay", seed)
		}
		seed++
	}
}

func randomMoves(t *testing.T, w *world, r *rand.Rand) {
	keys := []conversation.SessionKey{keyOf("s"), keyOf("s/d1"), keyOf("t")}
	holder := map[conversation.SessionKey]*node{}
	clients := map[conversation.SessionKey][]*client{}
	pick := func() *node { return w.nodes[r.IntN(len(w.nodes))] }
	begin := func(key conversation.SessionKey, n *node) {
		n.mu.Lock()
		n.over = false
		n.mu.Unlock()
		epoch := n.load(key)
		holder[key] = n
		n.commit(key, conversation.StepStarted{Step: conversation.StepNumber(epoch), Attempt: 1})
	}
	for _, key := range keys {
		w.owner[key.Session.Root()] = "a"
		begin(key, w.nodes[0])
	}
	for range 150 {
		key := keys[r.IntN(len(keys))]
		root, n := key.Session.Root(), holder[key]
		switch r.IntN(12) {
		case 0, 1, 2:
			n.say(key)
		case 3, 4, 5:
			n.stream(key, conversation.Draft(conversation.StepNumber(n.epochOf(key)), 1, 0), "text ")
		case 6:
			clients[key] = append(clients[key], pick().follow(key))
		case 7:
			if all := clients[key]; len(all) > 0 {
				i := r.IntN(len(all))
				all[i].sub.Close()
				clients[key] = append(all[:i:i], all[i+1:]...)
			}
		case 8: // handed over: the ring first
			to := pick()
			w.mu.Lock()
			w.owner[root] = to.name()
			w.mu.Unlock()
			w.changed()
			n.unload(key)
			begin(key, to)
		case 9: // taken, when its lease is over: the ring comes later
			to := pick()
			n.mu.Lock()
			n.over = n != to
			n.mu.Unlock()
			begin(key, to)
			if n != to {
				n.stream(key, "1.1.0", "of a writer that was replaced")
			}
			w.mu.Lock()
			w.owner[root] = to.name()
			w.mu.Unlock()
			w.pass(time.Duration(r.IntN(3000)) * time.Millisecond)
			w.changed()
			if n != to {
				n.unload(key)
			}
		case 10: // a line loses what it carries for a while
			p, dice := r.Float64(), rand.New(rand.NewPCG(r.Uint64(), 2))
			at := pick()
			at.mu.Lock()
			at.lose = func(conversation.Member, *message) bool { return dice.Float64() < p }
			if r.IntN(2) == 0 {
				at.lose = nil
			}
			at.mu.Unlock()
		case 11:
			other, believed := pick(), ""
			if r.IntN(2) == 0 {
				believed = pick().name()
			}
			other.mu.Lock()
			other.ring[root] = believed
			other.mu.Unlock()
			other.relay.Changed()
			w.pass(time.Duration(r.IntN(1000)) * time.Millisecond)
		}
	}
	for _, n := range w.nodes {
		n.mu.Lock()
		n.lose, n.over = nil, false
		clear(n.ring)
		n.mu.Unlock()
	}
	for _, key := range keys { // where the ring says
		holder[key].unload(key)
		begin(key, w.node(w.owner[key.Session.Root()]))
	}
	w.changed()
	w.pass(3 * Interval)
	for _, key := range keys {
		holder[key].say(key)
		for i, c := range clients[key] {
			if c.seen(t); c.last != conversation.Seq(len(w.log[key])) {
				t.Errorf("client %d of %s is at %d of %d", i, key.Session, c.last, len(w.log[key]))
			}
		}
	}
}

func (n *node) epochOf(key conversation.SessionKey) conversation.Epoch {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.epochs[key]
}

// seen looks at the order in which the client was shown things: no text of a step before the
// one that the events have come to.
func (c *client) seen(t *testing.T) {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	step := 0
	for _, line := range c.lines {
		if n, is := strings.CutPrefix(line, "step "); is {
			step, _ = strconv.Atoi(n)
			continue
		}
		draft, _, is := strings.Cut(line, ".")
		if of, err := strconv.Atoi(draft); is && err == nil && of < step {
			t.Errorf("%q in step %d: %q", line, step, c.lines)
			return
		}
	}
}
