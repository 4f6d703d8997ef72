package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"parley/actors/cluster/internal/hints"
	"parley/actors/cluster/internal/lanes"
	"parley/actors/cluster/internal/link"
	"parley/actors/cluster/internal/membership"
	"parley/actors/cluster/internal/relay"
	"parley/actors/cluster/internal/singleton"
	"parley/actors/placement"
	"parley/conversation"
	"parley/conversation/member"
	"parley/metrics"
)

// ErrFrozen says that this process did not run for longer than its lease, and must end.
var ErrFrozen = membership.ErrFrozen

// Options describe a node.
type Options struct {
	Name           string              // of the cluster
	Node           conversation.NodeID // of this node; no two living nodes have the same
	Listen         string              // host:port for the other nodes
	Advertise      string              // host:port where they reach it; "" = Listen
	Lease          time.Duration       // a node that is silent for so long is taken for dead
	TLS            *tls.Config         // for both directions; nil = whoever reaches the port is believed
	GatewayOnly    bool                // it runs no sessions
	Version        string              // of the program, for people
	Feature        member.Feature      // the highest that the program can read
	RequestTimeout time.Duration       // a command waits so long for a session that moves; 0 = 30 s
	MaxJobs        int                 // commands of one session that may wait or be under way; 0 = 4,096
	MaxBytes       int                 // of their texts; 0 = 16 MiB
	MaxQueued      int                 // bytes that may wait to be sent to one node; 0 = 64 MiB
}

// Deps are the parts that a Node works with.
type Deps struct {
	Table  member.Table
	Logger *slog.Logger // nil = no log
	// Singletons says who has what; it is kept beside Table. nil = Node.Singleton is refused.
	Singletons member.Singletons
	Metrics    *metrics.Cluster
}

// Runner is the engine that this node's own sessions run on; actors.Engine is one.
type Runner interface {
	Service
	// AsOwner is Tell where the store has said that this node owns the session; so are the others.
	AsOwner(key conversation.SessionKey, as conversation.UserID, c conversation.Command, done func(conversation.Receipt, error))
	CreateAsOwner(key conversation.SessionKey, c conversation.Create, done func(key conversation.SessionKey, created bool, err error))
	EraseAsOwner(ctx context.Context, key conversation.SessionKey, as conversation.UserID) error
	// HandOver gives up the sessions in memory that are not Local any more.
	HandOver(ctx context.Context) error
	Suspend()
	Resume()
	Holds(key conversation.SessionKey) bool
	Owned() int // sessions in memory
	ScanNow()   // looks for due sessions
	// Offer takes what outside runtimes can claim in a session of another node; nil = nothing.
	Offer(key conversation.SessionKey, c *conversation.Claimable)
}

// Node is this process as a member of a cluster. Its methods may be called from any
// goroutine.
type Node struct {
	o     Options
	table member.Table
	log   *slog.Logger
	m     *metrics.Cluster

	self            conversation.Member
	loop            *membership.Loop
	link            carrier
	lanes           *lanes.Lanes
	gate            *lanes.Gate
	places          places
	standing        *standing
	engine          atomic.Pointer[Runner]
	router          atomic.Pointer[router]
	relay           atomic.Pointer[relay.Relay]
	hints           atomic.Pointer[hints.Hints]
	keeper          *singleton.Keeper // of what runs on one node only
	asking          *singleton.Switch
	answers         sync.Map // of singletons, by name
	keepsSingletons bool
	living          atomic.Pointer[map[conversation.Member]bool]
	draining        atomic.Bool
	changed         chan struct{} // sessions may have to be handed over
	handing         sync.Mutex    // one hand-over at a time

	mu      sync.Mutex
	list    member.List
	seen    time.Time // when list came
	ended   bool
	erasing sync.WaitGroup

	erasingCtx context.Context // ends with Leave
	endErasing context.CancelFunc
}

// Join takes a place among the members, and listens to the others. Sessions must be called
// next, then Run.
func Join(ctx context.Context, o Options, d Deps) (*Node, error) {
	o.defaults()
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Listen != "" {
		if err := link.CanListen(o.Listen); err != nil {
			return nil, fmt.Errorf("the cluster port (cluster.listen): %w", err)
		}
	}
	n := &Node{o: o, table: d.Table, log: d.Logger, m: d.Metrics, changed: make(chan struct{}, 1), gate: lanes.NewGate(), standing: newStanding()}
	n.erasingCtx, n.endErasing = context.WithCancel(context.WithoutCancel(ctx))
	began := time.Now()
	self, err := n.table.Join(ctx, n.info(), o.Lease)
	if err != nil {
		return nil, err
	}
	n.self = self
	n.places.self = self
	n.loop = membership.New(membership.Options{
		Table: n.table, Lease: o.Lease, Info: n.info, Changed: n.listed, Lost: n.lost, Held: n.held, Log: n.log,
		Renewed: func(ok bool) {
			outcome := "failed"
			if ok {
				outcome = "ok"
			}
			n.m.Renewals.WithLabelValues(outcome).Inc()
		},
		Clock: membership.SystemClock,
	}, began)
	n.keepsSingletons, n.keeper = d.Singletons != nil, n.newKeeper(d.Singletons)
	n.asking = n.newSwitch()
	n.lanes = lanes.New(lanes.Options{
		Owner: n.places.owner, Nobody: n.nobody, Timeout: o.RequestTimeout, MaxJobs: o.MaxJobs, MaxBytes: o.MaxBytes, Again: n.m.Again.Inc,
	})
	n.link = alone{}
	if o.Listen != "" {
		l, err := link.Open(link.Options{
			Cluster: o.Name, Self: self, Listen: o.Listen, Advertise: o.Advertise, TLS: o.TLS, MaxQueued: o.MaxQueued,
			Handlers: n.handlers(), Log: n.log,
			Count: func(direction string, bytes int) { n.m.Bytes.WithLabelValues(direction).Add(float64(bytes)) },
		})
		if err != nil {
			_ = n.table.Leave(context.WithoutCancel(ctx), self)
			return nil, fmt.Errorf("the cluster port (cluster.listen): %w", err)
		}
		n.link = l
	}
	if err := n.begin(ctx); err != nil {
		_ = n.Leave(context.WithoutCancel(ctx))
		return nil, err
	}
	return n, nil
}

func (o *Options) defaults() {
	if o.Advertise == "" {
		o.Advertise = o.Listen
	}
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = 30 * time.Second
	}
	set(&o.MaxJobs, 4096)
	set(&o.MaxBytes, 16<<20)
	set(&o.MaxQueued, 64<<20)
}

// begin reads the list for the first time, so that the node knows whose sessions are whose
// before it serves anybody, and lets the others know of it.
func (n *Node) begin(ctx context.Context) error {
	list, err := n.table.Renew(ctx, n.info())
	if err != nil {
		return err
	}
	if err := n.reachable(list); err != nil {
		return err
	}
	n.m.Lease.Set(1)
	n.listed(list)
	if list, err = n.settle(ctx, list); err != nil {
		return err
	}
	n.listed(list)
	n.nudgeAll()
	n.log.Info("joined the cluster", "cluster", n.o.Name, "feature", n.o.Feature, "node", n.self.String(), "address", n.o.Advertise, "members", len(list.Members))
	return nil
}

// reachable refuses to serve beside a node that cannot be asked for its sessions, or as one.
func (n *Node) reachable(list member.List) error {
	for _, m := range list.Members {
		switch {
		case m.Member == n.self || m.Dead:
		case n.o.Listen == "":
			return fmt.Errorf("the node %s at %s serves this database already: set cluster.listen, for nodes must reach each other", m.Node, m.Address)
		case m.Address == "":
			return fmt.Errorf("the node %s serves this database alone: it has no cluster.listen, and must be given one, or end, before others start", m.Node)
		}
	}
	return nil
}

// Member is this run of this node: the owner of its engine's sessions.
func (n *Node) Member() conversation.Member { return n.self }

// Placement says which sessions are this node's.
func (n *Node) Placement() placement.Map { return &n.places }

// Holds is false when the node's lease is over by its own clock.
func (n *Node) Holds() bool { return n.loop.Holds() }

// Feature is the lowest that all living members can read.
func (n *Node) Feature() member.Feature {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.list.Feature
}

// Run keeps the node among the members until ctx ends, which is no error; or until the
// process must end, and write nothing more: member.ErrDeposed or ErrFrozen.
func (n *Node) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { n.handOvers(ctx) })
	work.Go(func() { n.relaying(ctx) })
	work.Go(func() { n.hinting(ctx) })
	n.keeper.Begin(ctx)
	defer work.Wait()
	defer cancel()
	err := n.loop.Run(ctx)
	if err != nil { // nothing is waited for: singletons were told to end when the lease was over
		n.log.Error("this node must end", "node", n.self.String(), "error", err)
		return err
	}
	n.keeper.End()
	return nil
}

// Drain gives this node's sessions to the others: it takes no more of them, and those that
// it has are handed over. What comes for them meanwhile is sent to their new owners.
func (n *Node) Drain(ctx context.Context) error {
	if n.draining.CompareAndSwap(false, true) {
		n.places.drain()
		n.keeper.Changed()
		n.moved()
		n.loop.Nudge()
		n.nudgeAll()
		n.log.Info("draining: sessions are handed over", "node", n.self.String())
	}
	err := n.handOver(ctx)
	return errors.Join(err, n.keeper.Drain(ctx))
}

// goErase runs an erasure, which waits for the store, unless the node has ended.
func (n *Node) goErase(work func(ctx context.Context)) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return false
	}
	n.erasing.Go(func() {
		ctx, cancel := context.WithTimeout(n.erasingCtx, n.o.RequestTimeout)
		defer cancel()
		work(ctx)
	})
	return true
}

// Leave takes the node out of the list, as the last thing: its lease ends, and nobody has to
// wait until it does.
func (n *Node) Leave(ctx context.Context) error {
	n.mu.Lock()
	n.ended = true
	n.mu.Unlock()
	n.endErasing()
	n.erasing.Wait()
	n.lanes.Close()
	var err error
	if n.keeper.Busy() { // then the end of the lease lets others begin
		n.log.Warn("a singleton has not ended: this node stays in the list until its lease is over", "node", n.self.String())
	} else {
		err = n.table.Leave(ctx, n.self)
	}
	n.nudgeAll()
	n.link.Close()
	return err
}

// Members are the members as this node saw them last, with itself as it is now.
func (n *Node) Members() []member.Peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := append([]member.Peer(nil), n.list.Members...)
	age := time.Since(n.seen)
	for i := range all {
		all[i].Silent += age
		if all[i].Member == n.self {
			all[i].Info = n.info()
		}
	}
	return all
}

// Ready says why the node can serve nobody now; nil = it can.
func (n *Node) Ready() error {
	switch {
	case !n.loop.Holds():
		return &conversation.Error{Code: conversation.Unavailable, Message: "this node's lease is over: the database does not answer, or too late"}
	case !n.loop.Answers():
		return &conversation.Error{Code: conversation.Unavailable, Message: "the database does not answer this node; its lease still holds"}
	case !n.standing.ok():
		return errOut()
	case n.nobody():
		return lanes.ErrNobody()
	}
	return nil
}

// nobody is true when all who ran sessions have been gone for a lease: those that start again
// soon are waited for.
func (n *Node) nobody() bool { return n.places.nobody(n.o.Lease) }

// info is what the node says of itself now.
func (n *Node) info() member.Info {
	i := member.Info{
		Member: n.self, Address: n.o.Advertise, Sessions: !n.o.GatewayOnly && n.standing.ok(), Version: n.o.Version, Feature: n.o.Feature,
		Draining: n.draining.Load(),
	}
	if i.Node == "" {
		i.Node = n.o.Node
	}
	if e := n.engine.Load(); e != nil {
		i.Owned = (*e).Owned()
	}
	return i
}

// listed takes the list of a renewal.
func (n *Node) listed(list member.List) {
	n.mu.Lock()
	before := n.list
	n.list, n.seen = list, time.Now()
	n.mu.Unlock()
	living := 0
	for _, m := range list.Members {
		if !m.Dead {
			living++
		}
	}
	n.m.Members.Set(float64(living))
	n.tell(before, list)
	n.link.Peers(list.Members)
	n.stand(list.Members)
	others := n.live(list.Members)
	if n.places.set(list.Members) {
		others = true
		n.wantHandOver()
		n.keeper.Changed()
	}
	if others {
		n.moved()
		n.asking.Changed(n.alive)
		n.lanes.Hurry()
	}
}

// tell logs what has changed in the list.
func (n *Node) tell(before, now member.List) {
	was := map[conversation.NodeID]member.Peer{}
	for _, m := range before.Members {
		was[m.Node] = m
	}
	changed := func(kind string, m member.Peer) {
		if m.Member == n.self {
			return
		}
		n.m.Changes.WithLabelValues(kind).Inc()
		n.log.Info("a member of the cluster has changed", "change", kind, "member", m.Member.String(), "address", m.Address, "version", m.Version)
	}
	for _, m := range now.Members {
		old, known := was[m.Node]
		delete(was, m.Node)
		switch {
		case m.Dead && (!known || !old.Dead || old.Member != m.Member):
			changed("died", m)
		case !m.Dead && (!known || old.Dead || old.Member != m.Member):
			changed("joined", m)
		case m.Draining && !old.Draining:
			changed("draining", m)
		}
	}
	for _, m := range was {
		changed("left", m)
	}
}

// lost suspends the engine: the lease is over.
func (n *Node) lost() {
	n.keeper.Lost()
	n.m.Lease.Set(0)
	n.log.Warn("the lease is over: no session starts and nothing is accepted until it is renewed", "node", n.self.String())
	if e := n.engine.Load(); e != nil {
		(*e).Suspend()
	}
}

// held lets the engine go on.
func (n *Node) held() {
	n.m.Lease.Set(1)
	n.log.Info("the lease holds again", "node", n.self.String())
	n.keeper.Changed()
	if e := n.engine.Load(); e != nil {
		(*e).Resume()
	}
	n.wantHandOver()
}

func (n *Node) wantHandOver() {
	select {
	case n.changed <- struct{}{}:
	default: // one is wanted already
	}
}

// handOvers gives sessions up whenever the ring has changed.
func (n *Node) handOvers(ctx context.Context) {
	again := time.NewTicker(n.o.Lease) // a session may have been brought into memory for a while only, or beside its root
	defer again.Stop()
	for {
		changed := false
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		case <-n.changed:
			changed = true
		}
		if err := n.handOver(ctx); err != nil && ctx.Err() == nil {
			n.log.Warn("not all sessions of others could be handed over", "error", err)
		}
		if changed {
			n.scan() // some may have become this node's: of a member that has died, or has left
		}
	}
}

func (n *Node) handOver(ctx context.Context) error {
	e := n.engine.Load()
	if e == nil {
		return nil
	}
	n.handing.Lock()
	defer n.handing.Unlock()
	began := time.Now()
	before := (*e).Owned()
	err := (*e).HandOver(ctx)
	n.m.HandOver.Observe(time.Since(began).Seconds())
	if took := time.Since(began); (*e).Owned() == before && err == nil && took < time.Second {
		return nil // nothing that anybody has to know
	}
	n.log.Info("sessions handed over", "in_memory_before", before, "in_memory_after", (*e).Owned(), "took", time.Since(began).Round(time.Millisecond).String())
	return err
}
