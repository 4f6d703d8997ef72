package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"parley/actors/cluster/internal/fields"
	"parley/conversation"
	"parley/conversation/member"
)

// Topic says who of a node a message is for. The numbers are those of other versions as
// well, and are never used again.
type Topic uint64

// Handler takes what comes in on a topic. It must not block, and may keep body. reply, which
// is nil for a message, is called once, from any goroutine.
type Handler func(from conversation.Member, body []byte, reply func([]byte))

// Sizes and times of a link.
const (
	pieceBytes   = 256 << 10 // of a larger body a message holds so much
	batch        = 128       // messages that are written at once: with their pieces well below receiveBytes
	receiveBytes = 64 << 20
	maxBody      = 256 << 20
	retryConnect = 100 * time.Millisecond
	door         = "door" // the one actor of a node that others can reach
)

// The reasons why a request has no answer, beside its deadline.
var (
	ErrUnreachable = errors.New("the node cannot be reached")
	ErrNotTaken    = errors.New("the node has certainly not taken the request") // beside one of the others
	ErrTooMuch     = fmt.Errorf("%w: too much waits to be sent to it", ErrNotTaken)
	errNobody      = fmt.Errorf("%w: %w", ErrUnreachable, ErrNotTaken)
	errTimeout     = fmt.Errorf("%w: no answer in time", ErrUnreachable)
	errUnknown     = fmt.Errorf("%w: %s", errNobody, unknownRequest)
)

// unknownRequest is what nodes of all versions answer to a topic that they do not have.
const unknownRequest = "the node does not know the request"

// IsUnknown is true if the other node has answered that it does not know the request: it is there,
// and its program is older.
func IsUnknown(err error) bool { return errors.Is(err, errUnknown) }

// Options are what a Link works with.
type Options struct {
	Cluster   string // nodes of other clusters are refused
	Self      conversation.Member
	Listen    string      // host:port
	Advertise string      // host:port where other nodes reach it
	TLS       *tls.Config // for both directions; nil = none
	MaxQueued int         // bytes that may wait to be sent to one node
	Handlers  map[Topic]Handler
	Log       *slog.Logger
	Count     func(direction string, bytes int) // of what crosses: "in" or "out"
}

// Link is a node's way to the others. Its methods may be called from any goroutine.
type Link struct {
	o      Options
	system *actor.ActorSystem
	remote *remote.Remote
	self   *actor.PID // the door
	ids    atomic.Uint64
	closed atomic.Bool
	said   said

	mu      sync.Mutex
	peers   map[conversation.NodeID]*peer
	streams map[string]*outStream       // to addresses
	inbound map[conversation.Member]int // streams of other nodes that are open
	asked   map[uint64]*request
	serving map[served]struct{} // what this node works on for others
	probing bool                // probe will be called

	partsMu sync.Mutex
	parts   map[conversation.Member][]byte // bodies of which the rest is to come
}

// peer is another node as this one knows it now.
type peer struct {
	conversation.Member
	address string
	dead    bool
	door    *actor.PID
	order   sync.Mutex   // held while the pieces of a body are queued
	queued  atomic.Int64 // bytes, as they are sent
}

// sent notes that so much waits no more.
func (p *peer) sent(bytes int) {
	for {
		now := p.queued.Load()
		if p.queued.CompareAndSwap(now, max(now-int64(bytes), 0)) {
			return
		}
	}
}

// request waits for its answer.
type request struct {
	began time.Time
	to    conversation.Member
	timer *time.Timer
	done  func([]byte, error)
}

// CanListen says why a node could not listen on an address.
func CanListen(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return l.Close()
}

// Open begins to listen.
func Open(o Options) (l *Link, err error) {
	host, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("%q is no port", port)
	}
	l = &Link{
		o: o, peers: map[conversation.NodeID]*peer{}, streams: map[string]*outStream{}, asked: map[uint64]*request{}, serving: map[served]struct{}{},
		inbound: map[conversation.Member]int{}, parts: map[conversation.Member][]byte{},
	}
	l.system = actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(quiet{o.Log.Handler()}) }),
		actor.WithDeadLetterRequestLogging(false),
	)
	if err := CanListen(o.Listen); err != nil { // the library panics then
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			l, err = nil, fmt.Errorf("the cluster port %s: %v", o.Listen, r)
		}
	}()
	if l.self, err = l.system.Root.SpawnNamed(actor.PropsFromFunc(l.receive), door); err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		host = "[" + host + "]" // the library joins them with a colon only
	}
	l.remote = remote.NewRemote(l.system, l.config(host, number))
	l.system.EventStream.Subscribe(func(e any) {
		if ended, ok := e.(*remote.EndpointTerminatedEvent); ok {
			l.lostAddress(ended.Address)
		}
	})
	l.remote.Start()
	l.self = actor.NewPID(l.system.Address(), door)
	return l, nil
}

func (l *Link) config(host string, port int) *remote.Config {
	dial, serve := insecure.NewCredentials(), insecure.NewCredentials()
	if l.o.TLS != nil {
		dial, serve = credentials.NewTLS(l.o.TLS), doorman{credentials.NewTLS(l.o.TLS), l}
	}
	alive := keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second, PermitWithoutStream: true}
	pace := backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond}
	c := remote.Configure(host, port,
		remote.WithAdvertisedHost(l.o.Advertise),
		remote.WithEndpointWriterBatchSize(batch),
		remote.WithEndpointWriterQueueSize(1024), // it grows
		remote.WithDialOptions(
			grpc.WithTransportCredentials(dial), grpc.WithNoProxy(), grpc.WithKeepaliveParams(alive),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: pace, MinConnectTimeout: 3 * time.Second}),
			grpc.WithStreamInterceptor(l.connect),
		),
		remote.WithServerOptions(
			grpc.Creds(serve), grpc.MaxRecvMsgSize(receiveBytes),
			grpc.KeepaliveParams(keepalive.ServerParameters{Time: alive.Time, Timeout: alive.Timeout}),
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: alive.Time / 2, PermitWithoutStream: true}),
			grpc.StreamInterceptor(l.serve), grpc.UnaryInterceptor(refuseCalls),
		),
	)
	c.MaxRetryCount = 1 // connect tries again by itself; the library would sleep for two seconds each time
	return c
}

// Peers says who the other members are now. Requests to one that is dead, or gone, or that
// has started again, have no answer.
func (l *Link) Peers(all []member.Peer) {
	l.mu.Lock()
	now := map[conversation.NodeID]*peer{}
	addresses := map[string]bool{}
	var lost []*peer
	for _, m := range all {
		if m.Node == l.o.Self.Node {
			continue
		}
		p := l.peers[m.Node]
		if p == nil || p.Member != m.Member || p.address != m.Address {
			p = &peer{Member: m.Member, address: m.Address, door: actor.NewPID(m.Address, door)}
		}
		if p.dead = m.Dead; !m.Dead {
			addresses[p.address] = true
		} else {
			lost = append(lost, p)
		}
		now[m.Node] = p
	}
	for node, p := range l.peers {
		if now[node] != p {
			lost = append(lost, p)
		}
	}
	l.peers = now
	var end []context.CancelFunc
	for address, s := range l.streams {
		if !addresses[address] {
			end = append(end, s.cancel)
		}
	}
	l.mu.Unlock()
	for _, cancel := range end {
		cancel()
	}
	for _, p := range lost {
		l.lost(p.Member)
	}
}

// peer is a living member as it is known; nil = it is not.
func (l *Link) peer(m conversation.Member) *peer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.peers[m.Node]; p != nil && p.Member == m && !p.dead {
		return p
	}
	return nil
}

// Send sends a message. It is false when the message is certainly not sent: nobody is there,
// or too much waits already. It may get lost all the same.
func (l *Link) Send(to conversation.Member, t Topic, body []byte) bool {
	p := l.peer(to)
	if p == nil || l.closed.Load() {
		return false
	}
	return l.post(p, envelope{kind: kindMessage, to: to, topic: t, body: body})
}

// Request sends a message that is answered. done is called exactly once, from any goroutine,
// perhaps before Request returns. After an error that is not ErrNotTaken the other may have done
// what it was asked.
func (l *Link) Request(to conversation.Member, t Topic, body []byte, wait time.Duration, done func([]byte, error)) {
	p := l.peer(to)
	if p == nil || l.closed.Load() {
		done(nil, errNobody)
		return
	}
	id := l.ids.Add(1)
	r := &request{to: to, done: done, began: time.Now()}
	l.mu.Lock()
	l.asked[id] = r
	l.wantProbe()
	r.timer = time.AfterFunc(wait, func() { l.answered(id, nil, errTimeout) })
	l.mu.Unlock()
	if !l.post(p, envelope{kind: kindRequest, id: id, to: to, topic: t, wait: uint64(max(wait.Milliseconds(), 1)), body: body}) {
		l.answered(id, nil, ErrTooMuch)
		return
	}
	if l.peer(to) == nil { // it has gone meanwhile, and nobody would say so
		l.answered(id, nil, ErrUnreachable)
	}
}

// answered ends a request; one that has ended already is no matter.
func (l *Link) answered(id uint64, body []byte, err error) {
	l.mu.Lock()
	r := l.asked[id]
	delete(l.asked, id)
	l.mu.Unlock()
	if r != nil {
		r.timer.Stop()
		r.done(body, err)
	}
}

// lost ends the requests to a member without an answer.
func (l *Link) lost(m conversation.Member) {
	l.mu.Lock()
	var ended []*request
	for id, r := range l.asked {
		if r.to == m {
			ended = append(ended, r)
			delete(l.asked, id)
		}
	}
	l.mu.Unlock()
	for _, r := range ended {
		r.timer.Stop()
		r.done(nil, ErrUnreachable)
	}
}

// lostAddress is told when the library has thrown away what waited to be sent to an address. The
// next message to it begins a new stream.
func (l *Link) lostAddress(address string) {
	l.mu.Lock()
	delete(l.streams, address)
	var members []conversation.Member
	for _, p := range l.peers {
		if p.address == address {
			members = append(members, p.Member)
			p.queued.Store(0)
		}
	}
	l.mu.Unlock()
	for _, m := range members {
		l.lost(m)
	}
}

// post queues an envelope for a node, in pieces. A body of any size is taken when nothing waits.
func (l *Link) post(p *peer, e envelope) bool {
	e.from = l.o.Self
	p.order.Lock()
	defer p.order.Unlock()
	if waits := p.queued.Load(); waits > 0 && waits+int64(len(e.body)) > int64(l.o.MaxQueued) {
		return false
	}
	body := e.body
	for e.offset = 0; ; e.offset += uint64(len(e.body)) {
		e.body = body[e.offset:min(int(e.offset)+pieceBytes, len(body))]
		e.more = int(e.offset)+len(e.body) < len(body)
		piece := e.append(make([]byte, 0, len(e.body)+96))
		p.queued.Add(int64(fields.SizeBytes(1, len(piece)))) // as a BytesValue: exactly what outStream takes off
		l.system.Root.RequestWithCustomSender(p.door, wrapperspb.Bytes(piece), l.self)
		if !e.more {
			return true
		}
	}
}

// ended says to the door that a node sends no more, behind all that it has sent.
type ended struct{ from conversation.Member }

// receive is the door: the actor to which the others' messages come.
func (l *Link) receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *wrapperspb.BytesValue:
		l.received(m, ctx.Sender())
	case ended:
		l.mu.Lock()
		again := l.inbound[m.from] > 0
		l.mu.Unlock()
		if !again {
			l.partsMu.Lock()
			delete(l.parts, m.from)
			l.partsMu.Unlock()
		}
	}
}

// received takes one message of another node. Whatever it does, the door stays open: the library
// would close it for ever after a few panics.
func (l *Link) received(m *wrapperspb.BytesValue, sender *actor.PID) {
	var e envelope
	defer func() {
		if r := recover(); r != nil {
			l.o.Log.Error("a message of another node cannot be dealt with", "node", e.from.String(), "topic", uint64(e.topic),
				"panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		}
	}()
	if err := e.read(m.Value); err != nil {
		l.o.Log.Warn("a message of another node cannot be read", "error", err)
		return
	}
	if !l.whole(&e) {
		return
	}
	switch e.kind {
	case kindAnswer:
		var err error
		if e.fail != "" {
			err = fmt.Errorf("%w: %s", errNobody, e.fail)
			if e.fail == unknownRequest {
				err = errUnknown
			}
		}
		l.answered(e.id, e.body, err)
	case kindMessage:
		if h := l.o.Handlers[e.topic]; h != nil && e.to == l.o.Self {
			h(e.from, e.body, nil)
		}
	case kindRequest:
		l.requested(&e, sender)
	case kindProbe:
		l.probed(&e, sender)
	case kindGone:
		l.gone(&e)
	}
}

// requested has a request answered.
func (l *Link) requested(e *envelope, sender *actor.PID) {
	from, id := e.from, e.id
	answer := func(body []byte, fail string) {
		if p := l.asker(from, sender); p != nil {
			l.post(p, envelope{kind: kindAnswer, id: id, to: from, body: body, fail: fail})
		}
	}
	h := l.o.Handlers[e.topic]
	switch {
	case e.to != l.o.Self:
		answer(nil, "the node has started again")
	case h == nil:
		answer(nil, unknownRequest)
	default:
		done, panics := l.serves(from, id), true
		defer func() {
			if panics {
				done()
			}
		}()
		h(from, e.body, func(body []byte) {
			answer(body, "")
			done() // behind the answer: see probed
		})
		panics = false
	}
}

// asker is the node that an answer goes to; nil = there is none any more.
func (l *Link) asker(from conversation.Member, sender *actor.PID) *peer {
	p := l.peer(from)
	if p == nil && sender != nil { // it has joined since this node has last seen the list
		p = &peer{Member: from, address: sender.Address, door: sender}
	}
	if l.closed.Load() {
		return nil
	}
	return p
}

// whole is true when an envelope has its whole body. The pieces of one come one after the
// other; what a broken connection has left of another one is dropped.
func (l *Link) whole(e *envelope) bool {
	if e.offset == 0 && !e.more {
		return true
	}
	l.partsMu.Lock()
	defer l.partsMu.Unlock()
	if e.offset == 0 {
		delete(l.parts, e.from)
	}
	have := l.parts[e.from]
	if uint64(len(have)) != e.offset || len(have)+len(e.body) > maxBody {
		delete(l.parts, e.from)
		return false
	}
	have = append(have, e.body...)
	if e.more {
		l.parts[e.from] = have
		return false
	}
	delete(l.parts, e.from)
	e.body = have
	return true
}

// Close ends it: requests that are open have no answer.
func (l *Link) Close() {
	if !l.closed.CompareAndSwap(false, true) {
		return
	}
	l.Peers(nil)
	l.remote.Shutdown(false)
	l.system.Shutdown()
}
