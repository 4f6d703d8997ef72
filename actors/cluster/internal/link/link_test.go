package link

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/member"
)

const (
	echo   Topic = 1
	silent Topic = 2
	order  Topic = 3
	broken Topic = 4
	stuck  Topic = 5
)

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

type node struct {
	*Link
	member.Peer
	got   chan string
	held  chan chan struct{} // one of them: the next of stuck waits until it is closed
	stuck chan struct{}
}

func open(t testing.TB, name string, incarnation conversation.Incarnation, at, cluster string) *node {
	t.Helper()
	return openWith(t, name, incarnation, at, cluster, nil)
}

func openTLS(t testing.TB, name string, c *tls.Config) *node {
	t.Helper()
	return openWith(t, name, 1, freePort(t), "c", func(o *Options) { o.TLS = c })
}

func openWith(t testing.TB, name string, incarnation conversation.Incarnation, at, cluster string, change func(*Options)) *node {
	t.Helper()
	n := &node{got: make(chan string, 10_000), held: make(chan chan struct{}, 1), stuck: make(chan struct{}, 1)}
	n.Member, n.Address = conversation.Member{Node: conversation.NodeID(name), Incarnation: incarnation}, at
	o := Options{
		Cluster: cluster, Self: n.Member, Listen: at, Advertise: at, MaxQueued: 64 << 20, Log: slog.New(slog.DiscardHandler), Count: func(string, int) {},
		Handlers: map[Topic]Handler{
			echo:   func(from conversation.Member, body []byte, reply func([]byte)) { reply(body) },
			silent: func(conversation.Member, []byte, func([]byte)) {},
			order:  func(from conversation.Member, body []byte, reply func([]byte)) { n.got <- string(body) },
			broken: func(conversation.Member, []byte, func([]byte)) { panic("on purpose") },
			stuck: func(conversation.Member, []byte, func([]byte)) {
				n.stuck <- struct{}{}
				<-<-n.held
			},
		},
	}
	if change != nil {
		change(&o)
	}
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	n.Link = l
	t.Cleanup(l.Close)
	return n
}

func know(nodes ...*node) {
	var all []member.Peer
	for _, n := range nodes {
		all = append(all, n.Peer)
	}
	for _, n := range nodes {
		n.Peers(all)
	}
}

type reply struct {
	body []byte
	err  error
}

func (n *node) ask(to *node, topic Topic, body []byte, wait time.Duration) reply {
	got := make(chan reply, 2)
	n.Request(to.Member, topic, body, wait, func(b []byte, err error) { got <- reply{b, err} })
	return <-got
}

// Requests are answered, bodies of any size cross whole, and messages keep their order.
func TestLink(t *testing.T) {
	a, b := open(t, "a", 1, freePort(t), "c"), open(t, "b", 1, freePort(t), "c")
	know(a, b)
	for _, size := range []int{0, 1, pieceBytes, pieceBytes + 1, 5*pieceBytes + 17} {
		body := bytes.Repeat([]byte{byte(size)}, size)
		if r := a.ask(b, echo, body, 10*time.Second); r.err != nil || !bytes.Equal(r.body, body) {
			t.Fatalf("%d bytes: %d came back, %v", size, len(r.body), r.err)
		}
	}
	for i := range 5000 {
		if !a.Send(b.Member, order, fmt.Append(nil, i)) {
			t.Fatal("not sent")
		}
	}
	for i := range 5000 {
		if got := <-b.got; got != fmt.Sprint(i) {
			t.Fatalf("message %d is %s", i, got)
		}
	}
	if r := a.ask(b, 99, nil, 10*time.Second); !errors.Is(r.err, ErrUnreachable) {
		t.Errorf("a request that the other does not know: %v", r.err)
	}
	if r := a.ask(b, silent, nil, 10*time.Millisecond); !errors.Is(r.err, ErrUnreachable) {
		t.Errorf("a request without an answer: %v", r.err)
	}
}
