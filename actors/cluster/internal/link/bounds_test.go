package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"parley/actors/cluster/internal/fields"
	"parley/conversation/member"
)

// until waits until what is asked for holds. Only a failing test waits long.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond) // nobody tells that a stream has gone
	defer look.Stop()
	for end := time.After(30 * time.Second); !holds(); {
		select {
		case <-look.C:
		case <-end:
			t.Fatalf("never: %s", what)
		}
	}
}

func (n *node) queued(to *node) int64 { return n.peer(to.Member).queued.Load() }

// What has crossed waits no more, to the byte: a node that has sent for months can send on.
func TestNothingWaitsAfterwards(t *testing.T) {
	a, b := openBounded(t, "a", freePort(t), 8<<10), openBounded(t, "b", freePort(t), 8<<10)
	know(a, b)
	for i := range 1000 {
		if r := a.ask(b, echo, []byte("x"), 20*time.Second); r.err != nil {
			t.Fatalf("request %d: %v", i, r.err)
		}
	}
	for _, size := range []int{0, 100, pieceBytes, 3*pieceBytes + 1} { // one that is larger than the bound goes alone
		if r := a.ask(b, echo, make([]byte, size), 20*time.Second); r.err != nil || len(r.body) != size {
			t.Fatalf("%d bytes: %d came back, %v", size, len(r.body), r.err)
		}
		until(t, "nothing waits", func() bool { return a.queued(b) == 0 && b.queued(a) == 0 })
	}
}

// No more waits for a node that does not answer than MaxQueued; what is over that is refused at
// once, and others are not kept waiting. When the node answers, what has waited gets there in
// its order, and more is taken.
func TestBoundOfWhatWaits(t *testing.T) {
	const bound, size = 1 << 20, 1 << 10
	at := freePort(t)
	a, c := openBounded(t, "a", freePort(t), bound), open(t, "c", 1, freePort(t), "c")
	b := &node{}
	b.Node, b.Incarnation, b.Address = "b", 1, at
	a.Peers([]member.Peer{a.Peer, b.Peer, c.Peer})
	c.Peers([]member.Peer{a.Peer, c.Peer})
	sent := 0
	for a.Send(b.Member, order, append(fmt.Appendf(nil, "%d ", sent), make([]byte, size)...)) {
		if sent++; sent > 2*bound/size {
			t.Fatal("nothing bounds what waits")
		}
	}
	if waits := a.queued(b); waits > bound || waits < bound*3/4 {
		t.Errorf("%d bytes wait, %d may", waits, bound)
	}
	if r := a.ask(b, echo, make([]byte, size), time.Hour); !errors.Is(r.err, ErrTooMuch) {
		t.Errorf("a request over the bound: %v", r.err)
	}
	if r := a.ask(c, echo, []byte("x"), 20*time.Second); r.err != nil {
		t.Errorf("to another node meanwhile: %v", r.err)
	}
	there := openBounded(t, "b", at, bound)
	there.Peers([]member.Peer{a.Peer, there.Peer})
	for i := range sent {
		if got := <-there.got; !bytes.HasPrefix([]byte(got), fmt.Appendf(nil, "%d ", i)) {
			t.Fatalf("message %d begins with %.10q", i, got)
		}
	}
	if r := a.ask(there, echo, []byte("x"), 20*time.Second); r.err != nil {
		t.Error(r.err)
	}
	until(t, "nothing waits", func() bool { return a.queued(b) == 0 })
}

// A node that has connected and reads nothing stops nobody else.
func TestPeerThatDoesNotRead(t *testing.T) {
	const bound = 4 << 20
	a, b, c := openBounded(t, "a", freePort(t), bound), open(t, "b", 1, freePort(t), "c"), open(t, "c", 1, freePort(t), "c")
	know(a, b, c)
	hold := make(chan struct{})
	b.held <- hold
	if !a.Send(b.Member, stuck, nil) {
		t.Fatal("not sent")
	}
	<-b.stuck
	for i := 0; a.Send(c.Member, order, []byte("x")) && i < 100; i++ {
		a.Send(b.Member, silent, make([]byte, pieceBytes))
	}
	for range 100 {
		<-c.got
	}
	if r := a.ask(c, echo, []byte("x"), 20*time.Second); r.err != nil {
		t.Error(r.err)
	}
	close(hold)
	if r := a.ask(b, echo, []byte("x"), 20*time.Second); r.err != nil && !errors.Is(r.err, ErrTooMuch) {
		t.Error(r.err)
	}
}

// What panics in the hands of one that takes messages is logged, and the next is taken.
func TestDoorStaysOpen(t *testing.T) {
	a, b := open(t, "a", 1, freePort(t), "c"), open(t, "b", 1, freePort(t), "c")
	know(a, b)
	for range 50 { // the library gives up after ten
		if !a.Send(b.Member, broken, nil) {
			t.Fatal("not sent")
		}
	}
	if r := a.ask(b, echo, []byte("x"), 5*time.Second); r.err != nil {
		t.Error(r.err)
	}
}

// A node that is proven to be one speaks in its own name only.
func TestOwnNameOnly(t *testing.T) {
	a, b := open(t, "a", 1, freePort(t), "c"), open(t, "b", 1, freePort(t), "c")
	know(a, b)
	for name, e := range map[string]envelope{
		"another's name": {kind: kindMessage, from: a.Member, to: b.Member, topic: order, body: []byte("x")},
		"no name":        {kind: kindMessage, to: b.Member, topic: order, body: []byte("x")},
	} {
		client, ctx := dial(t, b.Address) // as "evil"
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		s, err := client.Receive(ctx)
		if err != nil {
			t.Fatal(err)
		}
		data := fields.AppendBytes(nil, 1, e.append(nil)) // a BytesValue
		batch := &remote.MessageBatch{TypeNames: []string{"google.protobuf.BytesValue"}, Targets: []string{door}, Envelopes: []*remote.MessageEnvelope{{MessageData: data}}}
		if err := s.Send(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: batch}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: the stream ended with %v", name, err)
		}
	}
	if len(b.got) > 0 {
		t.Error("it was taken")
	}
}

// What was asked of a node that others take for dead has no answer, also while its stream is there.
func TestRequestsToTheDeadEnd(t *testing.T) {
	a, b := open(t, "a", 1, freePort(t), "c"), open(t, "b", 1, freePort(t), "c")
	know(a, b)
	if r := a.ask(b, echo, nil, 20*time.Second); r.err != nil {
		t.Fatal(r.err)
	}
	got := make(chan error, 1)
	a.Request(b.Member, silent, nil, time.Hour, func(_ []byte, err error) { got <- err })
	dead := b.Peer
	dead.Dead = true
	a.Peers([]member.Peer{a.Peer, dead})
	select {
	case err := <-got: // before Peers returns
		if !errors.Is(err, ErrUnreachable) {
			t.Error(err)
		}
	default:
		t.Error("the request waits")
	}
}

// Of members that have died nothing is kept: no goroutine, no stream, no piece of a body.
func TestDeadPeersAreForgotten(t *testing.T) {
	peers := 200
	if testing.Short() {
		peers = 20
	}
	a := open(t, "a", 1, freePort(t), "c")
	join := func(i int) {
		b := open(t, fmt.Sprint("b", i), 1, freePort(t), "c")
		know(a, b)
		for _, r := range []reply{a.ask(b, echo, make([]byte, 2*pieceBytes), 20*time.Second), b.ask(a, echo, nil, 20*time.Second)} {
			if r.err != nil {
				t.Fatal(r.err)
			}
		}
		// It dies amid a body.
		b.system.Root.RequestWithCustomSender(b.peer(a.Member).door, wrapperspb.Bytes((&envelope{
			kind: kindMessage, from: b.Member, to: a.Member, topic: order, more: true, body: make([]byte, pieceBytes),
		}).append(nil)), b.self)
		if r := b.ask(a, echo, nil, 20*time.Second); r.err != nil {
			t.Fatal(r.err)
		}
		b.Close()
		dead := b.Peer
		dead.Dead = true
		a.Peers([]member.Peer{a.Peer, dead})
	}
	join(0)
	a.Peers([]member.Peer{a.Peer})
	until(t, "the first one is forgotten", func() bool { return a.kept(t) == [4]int{} })
	goroutines, actors := runtime.NumGoroutine(), a.actors()
	for i := range peers {
		join(i + 1)
	}
	a.Peers([]member.Peer{a.Peer})
	until(t, "the others are forgotten", func() bool {
		return a.kept(t) == [4]int{} && a.actors() <= actors
	})
	until(t, "their goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
	t.Logf("%d goroutines after one, %d after %d more", goroutines, runtime.NumGoroutine(), peers)
}

// actors counts those of the library that are at work here.
func (n *node) actors() (count int) {
	for _, some := range n.system.ProcessRegistry.LocalPIDs.LocalPIDs {
		count += some.Count()
	}
	return count
}

// kept counts what is kept for others: peers, streams to them, streams from them, begun bodies.
func (n *node) kept(t *testing.T) [4]int {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.partsMu.Lock()
	defer n.partsMu.Unlock()
	return [4]int{len(n.peers), len(n.streams), len(n.inbound), len(n.parts)}
}

func openBounded(t testing.TB, name, at string, bound int) *node {
	t.Helper()
	return openWith(t, name, 1, at, "c", func(o *Options) { o.MaxQueued = bound })
}
