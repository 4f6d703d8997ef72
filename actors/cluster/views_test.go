package cluster_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/actors"
	"parley/actors/cluster"
	"parley/conversation"
	"parley/conversation/member"
	"parley/conversation/policy"
	"parley/gateway/fanout"
	"parley/gateway/protocol"
	"parley/persistence/persistencetest"
)

// The nodes see lists of members that are not the same, and change all the time, while clients
// say, ask, cancel and follow at any of them. Leases stay true. No task ends in ERROR, nothing that was
// acknowledged is lost, every session has one writer at a time, and nothing of a writer is shown
// behind what a newer one has said. When the nodes agree again, everything is served.
func TestDisagreeingViews(t *testing.T) {
	seed, lasts := rand.Uint64(), 5*time.Second
	if s := os.Getenv("PARLEY_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	if testing.Short() {
		lasts = 2 * time.Second
	}
	// Goroutines race: a seed does not always do the same.
	t.Logf("again: PARLEY_SEED=%d go test ./actors/cluster -run TestDisagreeingViews", seed)
	w := &dispute{
		T: t, seed: seed, store: persistencetest.NewMemory(), writers: map[written]conversation.NodeID{}, words: map[string]conversation.Epoch{},
		codes: map[conversation.Code]int{}, over: make(chan struct{}),
	}
	for i := range 3 {
		w.leaver(conversation.NodeID(fmt.Sprint("left", i)))
	}
	for i := range 12 {
		w.keys = append(w.keys, key(i))
	}
	for i, name := range []string{"a", "b", "c", "d", "gate"} {
		w.node(i, name)
	}
	for _, k := range w.keys {
		made := make(chan error, 1)
		w.at(0).sessions.Create(k, conversation.Create{Owner: "ada", Agent: conversation.Coordinator}, func(_ conversation.SessionKey, _ bool, err error) { made <- err })
		if err := <-made; err != nil {
			t.Fatal(err)
		}
	}

	w.wrong.Store(true)
	var work, watching sync.WaitGroup
	for i := range 16 {
		work.Go(func() { w.talk(i) })
	}
	watch, unwatch := context.WithCancel(t.Context())
	defer unwatch()
	for i := range 16 {
		watching.Go(func() { w.watch(watch, i) })
	}
	for i, name := range []string{"a", "b", "c", "d", "gate"} {
		for _, k := range w.keys[i : i+4] {
			if name != "d" {
				watching.Go(func() { w.stay(watch, w.at(i), k) })
			}
		}
	}
	w.wait(lasts / 4)
	w.leave(3) // one that really leaves, and comes back
	w.wait(lasts / 4)
	w.node(3, "d")
	w.wait(lasts / 2)
	w.wrong.Store(false)
	w.agreed = time.Now()
	close(w.over)
	work.Wait()
	w.probe()
	w.finish()
	unwatch()
	watching.Wait()
	w.check()
}

// The bounds of what happens when the nodes agree again. They are for a machine that does other things, too.
const (
	servedWithin = 10 * time.Second // of each request
	doneWithin   = 15 * time.Second // of all that was begun
)

// dispute is a cluster whose nodes see different members, and what its clients saw.
type dispute struct {
	*testing.T
	seed  uint64
	store *persistencetest.Memory
	left  []member.Peer // have left before anything begins
	keys  []conversation.SessionKey
	nodes [5]atomic.Pointer[clustered]
	wrong atomic.Bool // the lists are
	over  chan struct{}
	begun int // nodes

	agreed time.Time // since then the lists are true

	mu      sync.Mutex
	writers map[written]conversation.NodeID
	words   map[string]conversation.Epoch // of each model call, and whose it is
	codes   map[conversation.Code]int     // of refusals
	acks    []acked
	shown   []*showing
	staying []*staying
	slowest time.Duration
}

// staying is a client that follows one session through one node all the time.
type staying struct {
	key  conversation.SessionKey
	node conversation.NodeID
	last atomic.Uint64
}

// written is what one writer may write.
type written struct {
	key   conversation.SessionKey
	epoch conversation.Epoch
}

// acked is a message that was acknowledged.
type acked struct {
	client int
	key    conversation.SessionKey
	id     conversation.ClientMsgID
	text   string
	conversation.Receipt
}

// showing is what one subscription has brought, in its order.
type showing struct {
	key   conversation.SessionKey
	node  conversation.NodeID
	after conversation.Seq // it began behind this event
	seen  []seen
}

// seen is an event, or text that streams.
type seen struct {
	seq  conversation.Seq // 0 = text
	sum  uint64           // of the event's frame
	text string
	how  string // text came as a delta, or as the whole draft
}

func (w *dispute) at(i int) *clustered { return w.nodes[i].Load() }

func (w *dispute) any(r *rand.Rand) *clustered { return w.at(r.IntN(len(w.nodes))) }

func (w *dispute) random(of string, n int) *rand.Rand {
	return rand.New(rand.NewPCG(w.seed, uint64(len(of))<<32+uint64(of[0])<<16+uint64(n)))
}

func (w *dispute) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// leaver is a member that has been there, and has left.
func (w *dispute) leaver(name conversation.NodeID) {
	who := member.Info{Member: conversation.Member{Node: name}, Address: freePort(w), Sessions: true, Version: "test"}
	m, err := w.store.Join(w.Context(), who, time.Hour)
	if err != nil {
		w.Fatal(err)
	}
	if err := w.store.Leave(w.Context(), m); err != nil {
		w.Fatal(err)
	}
	who.Member = m
	w.left = append(w.left, member.Peer{Info: who, Left: time.Hour})
}

// node starts one, with everything around it that looks on.
func (w *dispute) node(i int, name string) {
	w.Helper()
	w.begun++
	speaks := fmt.Sprintf("%s%d-", name, w.begun)
	n := startWith(w, w.store, name, parts{
		table:   &disputed{Table: w.store, w: w, r: w.random("table", i)},
		through: &signed{Store: w.store, w: w, node: conversation.NodeID(name)},
		tune: func(c *actors.Config) {
			c.Rules.Agents[conversation.Coordinator] = policy.Profile{Name: conversation.Coordinator, MayAsk: true, EngineTools: true}
			c.Rules.Policy.BackoffMin, c.Rules.Policy.BackoffMax = 20*time.Millisecond, 200*time.Millisecond
			c.DrainTimeout = 50 * time.Millisecond // what streams is parked now and then
			c.Idle, c.IdleJitter = 50*time.Millisecond, 0
			c.DueEvery = 500 * time.Millisecond
		},
		shows: func(b both) conversation.Publisher { return &delayed{both: b, w: w, r: w.random("delayed", i)} },
		equip: func(d *actors.Deps) {
			d.Publisher = &reader{Publisher: d.Publisher, w: w}
			d.Models = map[string]conversation.Model{"": &talker{w: w, name: speaks}}
		},
	}, func(o *cluster.Options) {
		o.GatewayOnly = name == "gate"
		o.RequestTimeout = 2 * time.Second
	})
	w.nodes[i].Store(n)
}

// leave drains a node and ends it.
func (w *dispute) leave(i int) {
	ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
	defer cancel()
	if err := w.at(i).Drain(ctx); err != nil {
		w.Errorf("draining: %v", err)
	}
	w.at(i).stop(w)
}

// disputed is the list of members as one node sees it: an older one, one without some members, or
// with one that has left. Its own lease, and what it says of itself, are true.
type disputed struct {
	member.Table
	w *dispute

	mu    sync.Mutex
	r     *rand.Rand
	past  []member.List
	view  func(now []member.Peer) []member.Peer
	until time.Time // it sees this for so long
}

func (d *disputed) Renew(ctx context.Context, who member.Info) (member.List, error) {
	list, err := d.Table.Renew(ctx, who)
	if err != nil || !d.w.wrong.Load() {
		return list, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.past = append(d.past, list)
	if now := time.Now(); !now.Before(d.until) {
		d.view, d.until = d.other(who.Member), now.Add(time.Duration(30+d.r.IntN(300))*time.Millisecond)
	}
	seen := d.view(slices.Clone(list.Members))
	itself := slices.IndexFunc(list.Members, func(p member.Peer) bool { return p.Member == who.Member })
	seen = append(slices.DeleteFunc(seen, func(p member.Peer) bool { return p.Node == who.Node }), list.Members[itself])
	slices.SortFunc(seen, func(a, b member.Peer) int { return cmp.Compare(a.Node, b.Node) })
	for i := range seen { // it looks again when it is to see something else
		if !seen[i].Dead {
			seen[i].Left = min(seen[i].Left, time.Until(d.until))
		}
	}
	list.Members = seen
	return list, nil
}

// other is another way to see the members.
func (d *disputed) other(self conversation.Member) func([]member.Peer) []member.Peer {
	switch d.r.IntN(8) {
	case 0:
		return func(now []member.Peer) []member.Peer { return now }
	case 1:
		older := d.past[d.r.IntN(len(d.past))].Members
		return func([]member.Peer) []member.Peer { return slices.Clone(older) }
	case 2, 3, 4: // an owner that sees more members than there are gives sessions up
		living := d.w.left[:1+d.r.IntN(len(d.w.left))]
		return func(now []member.Peer) []member.Peer { return append(now, living...) }
	case 5: // it believes that it is alone
		return func([]member.Peer) []member.Peer { return nil }
	default:
		others := slices.DeleteFunc(slices.Clone(d.past[len(d.past)-1].Members), func(p member.Peer) bool { return p.Member == self })
		if len(others) == 0 {
			return func(now []member.Peer) []member.Peer { return now }
		}
		hidden := others[d.r.IntN(len(others))].Node
		return func(now []member.Peer) []member.Peer {
			return slices.DeleteFunc(now, func(p member.Peer) bool { return p.Node == hidden })
		}
	}
}

// signed is the store as one node sees it, and notes who writes.
type signed struct {
	conversation.Store
	w    *dispute
	node conversation.NodeID
}

func (s *signed) Acquire(ctx context.Context, key conversation.SessionKey, how conversation.AcquireHow) (conversation.Head, error) {
	head, err := s.Store.Acquire(ctx, key, how)
	if err == nil {
		s.sign(key, head.Epoch)
	}
	return head, err
}

func (s *signed) Commit(ctx context.Context, key conversation.SessionKey, c conversation.Commit) error {
	err := s.Store.Commit(ctx, key, c)
	if err == nil {
		s.sign(key, c.Epoch)
	}
	return err
}

func (s *signed) CommitAsync(ctx context.Context, key conversation.SessionKey, c *conversation.Commit, done func(error)) {
	epoch := c.Epoch
	s.Store.CommitAsync(ctx, key, c, func(err error) {
		if err == nil {
			s.sign(key, epoch)
		}
		done(err)
	})
}

// sign notes that the node has written as that writer.
func (s *signed) sign(key conversation.SessionKey, epoch conversation.Epoch) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	as := written{key, epoch}
	if other, known := s.w.writers[as]; known && other != s.node {
		s.w.Errorf("%s has two writers of epoch %d: %s and %s", key, epoch, other, s.node)
	}
	s.w.writers[as] = s.node
}

// reader stands behind an engine, and notes which writer's each text is.
type reader struct {
	conversation.Publisher
	w *dispute
}

func (p *reader) Show(key conversation.SessionKey, epoch conversation.Epoch, after conversation.Seq, e conversation.Ephemeral) {
	if delta, is := e.(conversation.Delta); is {
		p.w.mu.Lock()
		for _, word := range strings.Fields(delta.Text) {
			if first, known := p.w.words[word]; known && first != epoch {
				p.w.Errorf("%s of epoch %d and %d", word, first, epoch)
			}
			p.w.words[word] = epoch
		}
		p.w.mu.Unlock()
	}
	p.Publisher.Show(key, epoch, after, e)
}

// delayed stands before a hub. Now and then it holds up what comes, as a goroutine that gets no time
// or a line that is slow: the session may have another writer when it goes on, who is not held up.
type delayed struct {
	both
	w *dispute

	mu sync.Mutex
	r  *rand.Rand
}

func (p *delayed) Publish(key conversation.SessionKey, epoch conversation.Epoch, events []conversation.Event) {
	p.delay(20)
	p.both.Publish(key, epoch, events)
}

func (p *delayed) Show(key conversation.SessionKey, epoch conversation.Epoch, after conversation.Seq, e conversation.Ephemeral) {
	p.delay(8)
	p.both.Show(key, epoch, after, e)
}

// delay waits, once in so many times.
func (p *delayed) delay(once int) {
	p.mu.Lock()
	late := time.Duration(0)
	if p.r.IntN(once) == 0 {
		late = time.Duration(p.r.IntN(150)) * time.Millisecond
	}
	p.mu.Unlock()
	if late > 0 && p.w.wrong.Load() {
		p.w.wait(late)
	}
}

// talker is a model that streams one word, another one in each call, or asks.
type talker struct {
	w    *dispute
	name string
	n    atomic.Int64
}

func (m *talker) Label() string { return "talker" }

func (m *talker) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		n := m.n.Add(1)
		word := m.name + strconv.FormatInt(n, 10)
		answer := &conversation.ModelAnswer{Usage: conversation.Usage{InputTokens: 10, OutputTokens: 5}}
		if n%7 == 0 && !r.WrapUp && m.w.wrong.Load() {
			answer.Items = []conversation.Item{{Kind: conversation.ItemCall, ID: word, Tool: conversation.ToolAsk, Args: `{"question":"Which?"}`}}
			yield(conversation.Output{Done: answer}, nil)
			return
		}
		tick := time.NewTicker(15 * time.Millisecond)
		defer tick.Stop()
		text := ""
		for range 2 + n%12 {
			select {
			case <-tick.C:
			case <-ctx.Done():
				yield(conversation.Output{}, ctx.Err())
				return
			}
			text += word + " "
			if !yield(conversation.Output{Delta: word + " "}, nil) {
				return
			}
		}
		answer.Items = []conversation.Item{{Kind: conversation.ItemText, Text: text, Streamed: true}}
		yield(conversation.Output{Done: answer}, nil)
	}
}

// talk is a client, which says one thing after the other at any node, and repeats what was
// refused until it is taken.
func (w *dispute) talk(client int) {
	r := w.random("client", client)
	last := map[conversation.SessionKey]conversation.Seq{}
	for n := 0; w.wrong.Load(); n++ {
		k := w.keys[r.IntN(len(w.keys))]
		id := conversation.ClientMsgID(fmt.Sprintf("c%d-%d", client, n))
		switch r.IntN(10) {
		case 0:
			w.ask(r, "cancel", func(n *clustered) error {
				_, err := n.tell(k, conversation.Cancel{By: conversation.ByUser, Author: "ada", ClientMsgID: id})
				return err
			}, conversation.NotFound) // there is no task
		case 1, 2:
			w.reply(r, k, id)
		case 3, 4:
			var v conversation.View
			w.ask(r, "view", func(n *clustered) (err error) {
				v, err = n.look(k)
				return err
			})
			if v.Head < last[k] {
				w.Errorf("%s is at %d, and this client was told %d before", k, v.Head, last[k])
			}
		default:
			last[k] = max(last[k], w.say(r, client, k, id))
		}
	}
}

// say says something until it is acknowledged, and gives its seq.
func (w *dispute) say(r *rand.Rand, client int, k conversation.SessionKey, id conversation.ClientMsgID) conversation.Seq {
	a := acked{client: client, key: k, id: id, text: "this is " + string(id)}
	if !w.ask(r, "say", func(n *clustered) (err error) {
		a.Receipt, err = n.tell(k, conversation.Say{Author: "ada", ClientMsgID: id, Text: a.text})
		return err
	}) {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acks = append(w.acks, a)
	return a.Seq
}

// reply answers what is asked in a session.
func (w *dispute) reply(r *rand.Rand, k conversation.SessionKey, id conversation.ClientMsgID) {
	var v conversation.View
	w.ask(r, "view", func(n *clustered) (err error) {
		v, err = n.look(k)
		return err
	})
	if len(v.Questions) > 0 {
		w.ask(r, "reply", func(n *clustered) error {
			_, err := n.tell(k, conversation.Reply{Author: "ada", ClientMsgID: id, Task: v.Questions[0].Task, Text: "that one"})
			return err
		}, conversation.TaskNotAwaiting, conversation.NotFound) // somebody was faster
	}
}

// ask asks one node after the other until one does it. The codes are answers, too.
func (w *dispute) ask(r *rand.Rand, what string, do func(n *clustered) error, answers ...conversation.Code) bool {
	for {
		n, began := w.any(r), time.Now()
		err := do(n)
		refused := conversation.AsError(err)
		switch {
		case refused == nil || slices.Contains(answers, refused.Code):
			w.count("", time.Since(began))
			return refused == nil
		case errors.Is(err, errNoAnswer) || !slices.Contains([]conversation.Code{conversation.Unavailable, conversation.Overloaded, conversation.Timeout}, refused.Code):
			w.Errorf("%s at %s: %v", what, n.Member(), err)
			return false
		}
		w.count(refused.Code, time.Since(began))
		select {
		case <-time.After(time.Duration(5+r.IntN(20)) * time.Millisecond):
		case <-w.over:
			if late := time.Since(w.agreed); late > servedWithin {
				w.Errorf("%s at %s, %v after the nodes agreed: %v", what, n.Member(), late, err)
				return false
			}
			w.wait(5 * time.Millisecond)
		}
	}
}

func (w *dispute) count(code conversation.Code, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.codes[code]++
	w.slowest = max(w.slowest, took)
}

var errNoAnswer = errors.New("there is no answer")

// tell gives a command to a session, and waits for the answer; one must come.
func (n *clustered) tell(k conversation.SessionKey, c conversation.Command) (conversation.Receipt, error) {
	got := make(chan func() (conversation.Receipt, error), 1)
	n.sessions.Tell(k, "ada", c, func(r conversation.Receipt, err error) {
		got <- func() (conversation.Receipt, error) { return r, err }
	})
	return answered(got)
}

// look is view for a test in which answers may be lost.
func (n *clustered) look(k conversation.SessionKey) (conversation.View, error) {
	got := make(chan func() (conversation.View, error), 1)
	n.sessions.View(k, "ada", func(v conversation.View, err error) {
		got <- func() (conversation.View, error) { return v, err }
	})
	return answered(got)
}

func answered[T any](got chan func() (T, error)) (none T, _ error) {
	late := time.NewTimer(20 * time.Second)
	defer late.Stop()
	select {
	case answer := <-got:
		return answer()
	case <-late.C:
		return none, errNoAnswer
	}
}

// watch is a client that follows a session for a while through one node, then another one. It goes on
// where it was.
func (w *dispute) watch(ctx context.Context, client int) {
	r := w.random("watcher", client)
	cursors := map[conversation.SessionKey]conversation.Seq{}
	for ctx.Err() == nil {
		k := w.keys[r.IntN(len(w.keys))]
		short, cancel := context.WithTimeout(ctx, time.Duration(50+r.IntN(800))*time.Millisecond)
		cursors[k] = w.follow(short, w.any(r), k, cursors[k], func(conversation.Seq) {})
		cancel()
	}
}

// stay is a client that follows a session through one node until all is over.
func (w *dispute) stay(ctx context.Context, n *clustered, k conversation.SessionKey) {
	stays := &staying{key: k, node: n.Member().Node}
	w.mu.Lock()
	w.staying = append(w.staying, stays)
	w.mu.Unlock()
	for since := conversation.Seq(0); ctx.Err() == nil; { // else it was refused
		since = w.follow(ctx, n, k, since, func(seq conversation.Seq) { stays.last.Store(uint64(seq)) })
	}
}

// follow shows a session from an event on until ctx ends, and gives the last event that was shown.
func (w *dispute) follow(ctx context.Context, n *clustered, k conversation.SessionKey, since conversation.Seq, shown func(conversation.Seq)) conversation.Seq {
	s, _, err := n.hub.Subscribe(ctx, n.sessions, protocol.DefaultLimits(), fanout.Options{Key: k, As: "ada", Since: since, Drafts: true, Values: true})
	if err != nil {
		if e := conversation.AsError(err); ctx.Err() == nil && e.Code != conversation.Unavailable && e.Code != conversation.Timeout && e.Code != conversation.Overloaded {
			w.Errorf("following %s behind %d at %s: %v", k, since, n.Member(), err)
		}
		return since
	}
	defer s.Close()
	saw := &showing{key: k, node: n.Member().Node, after: since}
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.shown = append(w.shown, saw)
	}()
	for {
		d, err := s.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				w.Errorf("following %s at %s: %v", k, n.Member(), err)
			}
			return since
		}
		for i := range d.Events {
			saw.seen = append(saw.seen, seen{seq: d.Events[i].Seq, sum: sumOf(k, &d.Events[i])})
			since = d.Events[i].Seq
			shown(since)
		}
		if delta, is := d.Ephemeral.(conversation.Delta); is {
			saw.seen = append(saw.seen, seen{text: delta.Text, how: fmt.Sprint("delta behind ", d.After)})
		}
		if d.Draft != nil {
			saw.seen = append(saw.seen, seen{text: d.Draft.Text, how: fmt.Sprint("draft behind ", d.After)})
		}
	}
}

// sumOf tells events apart as clients see them.
func sumOf(k conversation.SessionKey, e *conversation.Event) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(protocol.AppendEventFrame(nil, k.Session, e, false)) // never fails
	return h.Sum64()
}

// probe asks every node for every session, now that all see the same.
func (w *dispute) probe() {
	var all sync.WaitGroup
	for i := range w.nodes {
		for j, k := range w.keys {
			all.Go(func() {
				r, began := w.random("probe", i*100+j), time.Now()
				id := conversation.ClientMsgID(fmt.Sprintf("p%d", i))
				for {
					_, err := w.at(i).tell(k, conversation.Say{Author: "ada", ClientMsgID: id, Text: "this is " + string(id)})
					if err == nil {
						return
					}
					if time.Since(began) > servedWithin {
						w.Errorf("%s at %s, %v after the nodes agreed: %v", k, w.at(i).Member(), time.Since(w.agreed), err)
						return
					}
					w.wait(time.Duration(5+r.IntN(20)) * time.Millisecond)
				}
			})
		}
	}
	all.Wait()
	w.Logf("%v after the nodes agreed every node serves every session", time.Since(w.agreed).Round(time.Millisecond))
}

// finish answers all questions, and waits until nothing is left to do; then every node has shown all.
func (w *dispute) finish() {
	began, r, n := time.Now(), w.random("finish", 0), 0
	for i := 0; i < len(w.keys); {
		v, err := w.any(r).look(w.keys[i])
		switch {
		case err == nil && len(v.Tasks)+len(v.Inbox) == 0:
			i++
			continue
		case err == nil && len(v.Questions) > 0:
			n++
			w.reply(r, w.keys[i], conversation.ClientMsgID(fmt.Sprint("f", n)))
		}
		if time.Since(began) > doneWithin {
			w.Fatalf("%s has not come to its end: %+v, %v", w.keys[i], v, err)
		}
		w.wait(10 * time.Millisecond)
	}
	w.mu.Lock()
	stay := slices.Clone(w.staying)
	w.mu.Unlock()
	for _, s := range stay {
		head, err := w.store.Head(w.Context(), s.key)
		if err != nil {
			w.Fatal(err)
		}
		for late := time.Now().Add(servedWithin); s.last.Load() < uint64(head.Last); w.wait(5 * time.Millisecond) {
			if time.Now().After(late) {
				w.Errorf("who follows %s by %s is at %d of %d", s.key, s.node, s.last.Load(), head.Last)
				break
			}
		}
	}
	w.Logf("%v after the nodes agreed nothing is left to do", time.Since(w.agreed).Round(time.Millisecond))
}

// check holds what clients were told and shown against the log.
func (w *dispute) check() {
	epochs := map[conversation.SessionKey]map[conversation.Seq]conversation.Epoch{}
	for _, c := range w.store.Commits() {
		of := epochs[c.Key]
		if of == nil {
			of = map[conversation.Seq]conversation.Epoch{}
			epochs[c.Key] = of
		}
		for _, e := range c.Commit.Events {
			of[e.Seq] = c.Commit.Epoch
		}
	}
	sums, moves := map[conversation.SessionKey]map[conversation.Seq]uint64{}, 0
	accepted := map[conversation.SessionKey]map[conversation.ClientMsgID]conversation.Event{}
	for _, k := range w.keys {
		sums[k], accepted[k] = map[conversation.Seq]uint64{}, map[conversation.ClientMsgID]conversation.Event{}
		moves += w.readLog(k, epochs[k], sums[k], accepted[k])
	}
	last := map[string]conversation.Seq{} // of each client in each session
	for _, a := range w.acks {            // those of a client are in their order
		e, is := accepted[a.key][a.id]
		said, _ := e.Body.(conversation.MessageAccepted)
		if !is || e.Seq != a.Seq || said.Message != a.Message || said.Text != a.text {
			w.Errorf("%s in %s was acknowledged as %+v, and the log has %+v", a.id, a.key, a.Receipt, e)
		}
		of := fmt.Sprint(a.client, a.key)
		if a.Seq <= last[of] {
			w.Errorf("%s in %s is at %d, behind one at %d that was acknowledged before", a.id, a.key, a.Seq, last[of])
		}
		last[of] = a.Seq
	}
	events, texts := 0, 0
	for _, s := range w.shown {
		next, newest := s.after+1, conversation.Epoch(0)
		for _, what := range s.seen {
			if what.seq == 0 {
				texts++
				for _, word := range strings.Fields(what.text) {
					epoch, known := w.words[word]
					if !known || epoch < newest {
						w.Errorf("%s by %s: %q of epoch %d (%v), a %s, was shown behind what is of %d, at %d", s.key, s.node, word, epoch, known, what.how, newest, next-1)
						break
					}
					newest = epoch
				}
				continue
			}
			events++
			if what.seq != next || what.sum != sums[s.key][what.seq] {
				w.Errorf("%s by %s: event %d was shown where %d comes next; it is the log's: %v", s.key, s.node, what.seq, next, what.sum == sums[s.key][what.seq])
			}
			if epoch := epochs[s.key][what.seq]; epoch < newest {
				w.Errorf("%s by %s: event %d of epoch %d was shown behind what is of %d", s.key, s.node, what.seq, epoch, newest)
			} else {
				newest = epoch
			}
			next = what.seq + 1
		}
	}
	w.Logf("%d messages, %d writers, %d events and %d texts shown; answers %v, the slowest after %v", len(w.acks), moves, events, texts, w.codes, w.slowest.Round(time.Millisecond))
	if len(w.acks) == 0 || moves <= len(w.keys) || events == 0 || texts == 0 {
		w.Error("too little has happened to see anything")
	}
}

// readLog looks at one session's log, and counts its writers.
func (w *dispute) readLog(k conversation.SessionKey, epochs map[conversation.Seq]conversation.Epoch, sums map[conversation.Seq]uint64, accepted map[conversation.ClientMsgID]conversation.Event) int {
	open, writers, last := map[conversation.MessageID]bool{}, map[conversation.Epoch]bool{}, conversation.Event{}
	for record, err := range w.store.Records(w.Context(), k, conversation.Range{}) {
		if err != nil {
			w.Fatal(err)
		}
		for _, e := range record.Events {
			if e.Seq != last.Seq+1 || epochs[e.Seq] < epochs[last.Seq] {
				w.Errorf("the log of %s has %d of epoch %d behind %d of %d", k, e.Seq, epochs[e.Seq], last.Seq, epochs[last.Seq])
			}
			last, sums[e.Seq], writers[epochs[e.Seq]] = e, sumOf(k, &e), true
			switch b := e.Body.(type) {
			case conversation.MessageAccepted:
				if _, twice := accepted[b.ClientMsgID]; twice {
					w.Errorf("%s was accepted twice in %s", b.ClientMsgID, k)
				}
				accepted[b.ClientMsgID], open[b.Message] = e, true
			case conversation.MessageResolved:
				if !open[b.Message] {
					w.Errorf("%s in %s is resolved, and was not open", b.Message, k)
				}
				delete(open, b.Message)
			case conversation.TaskStatusChanged:
				if b.New == conversation.TaskError {
					w.Errorf("a task of %s has ended in ERROR: %+v", k, b.Error)
				}
			}
		}
	}
	if len(open) > 0 {
		w.Errorf("%s has messages that nobody has resolved: %v", k, slices.Collect(maps.Keys(open)))
	}
	return len(writers)
}
