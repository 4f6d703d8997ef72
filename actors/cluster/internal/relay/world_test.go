package relay

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/gateway/fanout"
	"parley/gateway/protocol"
)

// world is a cluster whose lines, store and engines are this test's. It lives in a bubble: time
// passes by pass only, and step waits until nobody has anything left to do.
type world struct {
	t     *testing.T
	ctx   context.Context
	nodes []*node
	work  sync.WaitGroup

	mu      sync.Mutex
	log     map[conversation.SessionKey][]conversation.Event
	epochs  map[conversation.SessionKey]conversation.Epoch
	readers map[conversation.SessionKey][]conversation.UserID // nil = ada
	gone    map[conversation.SessionKey]bool
	owner   map[conversation.SessionID]string // by root: what the ring says
	dead    map[string]bool
	sent    int // messages
}

// plenty is more messages than any test needs: nodes answer each other without end.
const plenty = 50_000

// node is one node: a real hub and a relay, with the sessions that its engine has in memory.
type node struct {
	w     *world
	self  conversation.Member
	hub   *fanout.Hub
	relay *Relay
	open  *open // what its clients ask of sessions
	tally *tally

	mu     sync.Mutex
	epochs map[conversation.SessionKey]conversation.Epoch // of the sessions in memory
	drafts map[conversation.SessionKey][]conversation.DraftView
	over   bool                                          // its lease is over
	silent bool                                          // its engine answers no views
	ring   map[conversation.SessionID]string             // what it believes beside the ring
	lose   func(to conversation.Member, m *message) bool // messages that are lost on the way
	in     []func()
	more   chan struct{}
}

// run has f work with a cluster of these nodes.
func run(t *testing.T, f func(w *world), names ...string) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{
			t: t, ctx: ctx, log: map[conversation.SessionKey][]conversation.Event{}, epochs: map[conversation.SessionKey]conversation.Epoch{},
			readers: map[conversation.SessionKey][]conversation.UserID{}, gone: map[conversation.SessionKey]bool{},
			owner: map[conversation.SessionID]string{}, dead: map[string]bool{},
		}
		for _, name := range names {
			w.join(name)
		}
		f(w)
		cancel()
		w.work.Wait()
	})
}

func (w *world) join(name string) *node {
	n := &node{
		w: w, self: conversation.Member{Node: conversation.NodeID(name), Incarnation: 1}, hub: fanout.NewHub(nil),
		epochs: map[conversation.SessionKey]conversation.Epoch{}, drafts: map[conversation.SessionKey][]conversation.DraftView{},
		ring: map[conversation.SessionID]string{}, more: make(chan struct{}, 1), tally: newTally(),
	}
	n.relay = New(Options{
		Behind: n.behind, Self: n.self, Lease: 5 * time.Second, Hub: n.hub, Owner: n.owner, Send: n.send, Meter: n.tally,
		Alive: func(m conversation.Member) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return !w.dead[string(m.Node)]
		},
		Holds: func() bool { n.mu.Lock(); defer n.mu.Unlock(); return !n.over },
	})
	n.hub.SetUpstream(n.relay)
	n.relay.Serve(n)
	w.nodes = append(w.nodes, n)
	w.work.Go(func() { n.relay.Run(w.ctx) })
	w.work.Go(n.receive)
	return n
}

// send brings a message to another node, which takes one after the other.
func (n *node) send(to conversation.Member, body []byte) bool {
	var m message
	if err := m.read(body); err != nil {
		n.w.t.Error(err)
	}
	n.mu.Lock()
	lost := n.lose != nil && n.lose(to, &m)
	n.mu.Unlock()
	other := n.w.node(string(to.Node))
	n.w.mu.Lock()
	n.w.sent++
	if n.w.sent == plenty {
		n.w.t.Error("messages without end")
	}
	lost = lost || n.w.sent >= plenty
	n.w.mu.Unlock()
	if lost || other == nil || n.w.isDead(n.name()) {
		return true
	}
	other.mu.Lock()
	other.in = append(other.in, func() { other.relay.Receive(n.self, body) })
	other.mu.Unlock()
	select {
	case other.more <- struct{}{}:
	default:
	}
	return true
}

func (n *node) receive() {
	for {
		n.mu.Lock()
		in := n.in
		n.in = nil
		n.mu.Unlock()
		for _, f := range in {
			if !n.w.isDead(n.name()) {
				f()
			}
		}
		if len(in) > 0 {
			continue
		}
		select {
		case <-n.w.ctx.Done():
			return
		case <-n.more:
		}
	}
}

func (n *node) name() string { return string(n.self.Node) }

func (w *world) node(name string) *node {
	i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.name() == name })
	if i < 0 {
		return nil
	}
	return w.nodes[i]
}

func (w *world) isDead(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead[name]
}

func (n *node) owner(root conversation.SessionKey) (conversation.Member, bool) {
	n.mu.Lock()
	believed := n.ring[root.Session]
	n.mu.Unlock()
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	name := cmp.Or(believed, n.w.owner[root.Session])
	return conversation.Member{Node: conversation.NodeID(name), Incarnation: 1}, name != ""
}

// pass lets time go by until everybody waits.
func (w *world) pass(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}

// changed has all nodes look at the ring.
func (w *world) changed() {
	synctest.Wait()
	for _, n := range w.nodes {
		if !w.isDead(n.name()) {
			n.relay.Changed()
		}
	}
	synctest.Wait()
}

// What an engine does.

// load takes a session into memory, as its newest writer.
func (n *node) load(key conversation.SessionKey) conversation.Epoch {
	n.w.mu.Lock()
	n.w.epochs[key]++
	epoch, head := n.w.epochs[key], conversation.Seq(len(n.w.log[key]))
	n.w.mu.Unlock()
	n.mu.Lock()
	n.epochs[key] = epoch
	delete(n.drafts, key)
	n.mu.Unlock()
	n.relay.Stored(key, epoch, head)
	return epoch
}

func (n *node) unload(key conversation.SessionKey) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.epochs, key)
	delete(n.drafts, key)
}

// store commits an event without publishing it; false = another writer has replaced this one.
func (n *node) store(key conversation.SessionKey, body conversation.EventBody) (events []conversation.Event, epoch conversation.Epoch) {
	n.mu.Lock()
	epoch = n.epochs[key]
	n.mu.Unlock()
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if epoch == 0 || epoch != n.w.epochs[key] {
		return nil, epoch
	}
	e := conversation.Event{Seq: conversation.Seq(len(n.w.log[key]) + 1), Body: body}
	n.w.log[key] = append(n.w.log[key], e)
	return []conversation.Event{e}, epoch
}

func (n *node) commit(key conversation.SessionKey, body conversation.EventBody) {
	if events, epoch := n.store(key, body); events != nil {
		n.relay.Publish(key, epoch, events)
	}
	synctest.Wait()
}

func (n *node) say(key conversation.SessionKey) {
	n.commit(key, conversation.SessionUpdated{})
}

// stream shows text of a draft, as the call does that runs beside the session.
func (n *node) stream(key conversation.SessionKey, draft conversation.DraftID, text string) {
	n.mu.Lock()
	epoch, at := n.epochs[key], 0
	i := slices.IndexFunc(n.drafts[key], func(d conversation.DraftView) bool { return d.Draft == draft })
	if i < 0 {
		n.drafts[key] = append(n.drafts[key], conversation.DraftView{Draft: draft})
		i = len(n.drafts[key]) - 1
	}
	at = len(n.drafts[key][i].Text)
	n.drafts[key][i].Text += text
	n.mu.Unlock()
	n.w.mu.Lock()
	head := conversation.Seq(len(n.w.log[key]))
	n.w.mu.Unlock()
	n.relay.Show(key, epoch, head, conversation.Delta{Draft: draft, At: at, Text: text})
	synctest.Wait()
}

// Holds, View, Records and Summary are the engine and the store.
func (n *node) Holds(key conversation.SessionKey) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.epochs[key] != 0
}

func (n *node) View(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error)) {
	n.mu.Lock()
	drafts, silent := slices.Clone(n.drafts[key]), n.silent
	n.mu.Unlock()
	if silent {
		return
	}
	now, err := n.Summary(n.w.ctx, key)
	if err != nil {
		done(conversation.View{}, conversation.Errorf(conversation.NotFound, "there is no such session"))
		return
	}
	done(conversation.View{Key: key, Head: now.Last, Drafts: drafts}, nil)
}

func (n *node) Summary(_ context.Context, key conversation.SessionKey) (conversation.Summary, error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if n.w.gone[rootOf(key)] {
		return conversation.Summary{}, conversation.ErrNotFound
	}
	s := conversation.Summary{Key: key, Owner: "ada", Last: conversation.Seq(len(n.w.log[key]))}
	if now, changed := n.w.readers[rootOf(key)]; changed {
		s.Owner = now[0]
	}
	return s, nil
}

func (n *node) Records(_ context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error] {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	all := slices.Clone(n.w.log[key])
	return func(yield func(conversation.Record, error) bool) {
		for _, e := range all {
			if e.Seq > r.After && (r.Before == 0 || e.Seq < r.Before) && !yield(conversation.Record{Events: []conversation.Event{e}}, nil) {
				return
			}
		}
	}
}

// client follows a session and writes down what it is shown.
type client struct {
	sub *fanout.Subscription

	mu    sync.Mutex
	lines []string
	last  conversation.Seq
}

func (n *node) follow(key conversation.SessionKey) *client {
	c := &client{}
	s, v, err := n.hub.Subscribe(n.w.ctx, n, protocol.DefaultLimits(), fanout.Options{Key: key, As: "ada", Drafts: true, Values: true, FromNow: true})
	if err != nil {
		c.add("refused: " + err.Error())
		return c
	}
	c.sub, c.last = s, v.Head
	n.w.work.Go(func() {
		defer s.Close()
		for {
			d, err := s.Next(n.w.ctx)
			if err != nil {
				return
			}
			c.take(n.w.t, d)
		}
	})
	synctest.Wait()
	return c
}

func (c *client) take(t *testing.T, d fanout.Delivery) {
	for _, e := range d.Events {
		if e.Seq != c.last+1 {
			t.Errorf("event %d after %d", e.Seq, c.last)
		}
		c.last = e.Seq
		c.add(fmt.Sprint(e.Seq))
		if b, is := e.Body.(conversation.StepStarted); is {
			c.add(fmt.Sprint("step ", b.Step))
		}
	}
	switch e := d.Ephemeral.(type) {
	case conversation.Delta:
		c.add(fmt.Sprintf("%s@%d:%s", e.Draft, e.At, e.Text))
	case conversation.DraftDropped:
		c.add("dropped " + string(e.Draft))
	}
	switch {
	case d.Draft != nil:
		c.add(fmt.Sprintf("%s=%s", d.Draft.Draft, d.Draft.Text))
	case d.Typing != nil:
		c.add(fmt.Sprint(d.Typing.User, " types ", d.Typing.On))
	case d.Gone:
		c.add("gone: " + d.Reason)
	}
}

func (c *client) add(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
}

// wants fails unless the client was shown exactly this since it was asked last.
func (c *client) wants(t *testing.T, who string, lines ...string) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if got, want := strings.Join(c.lines, ", "), strings.Join(lines, ", "); got != want {
		t.Errorf("%s was shown %q, want %q", who, got, want)
	}
	c.lines = nil
}

func keyOf(session string) conversation.SessionKey {
	return conversation.SessionKey{Tenant: "default", Session: conversation.SessionID(session)}
}
