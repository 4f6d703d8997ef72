package listener

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// queue is a listener that gives out what a test puts into it.
type queue struct {
	items chan any // a net.Conn or an error
	done  chan struct{}
	once  sync.Once
}

func newQueue(items ...any) *queue {
	q := &queue{items: make(chan any, 100), done: make(chan struct{})}
	for _, i := range items {
		q.items <- i
	}
	return q
}

func (q *queue) Accept() (net.Conn, error) {
	select {
	case i := <-q.items:
		if c, ok := i.(net.Conn); ok {
			return c, nil
		}
		return nil, i.(error)
	case <-q.done:
		return nil, net.ErrClosed
	}
}

func (q *queue) Close() error   { q.once.Do(func() { close(q.done) }); return nil }
func (q *queue) Addr() net.Addr { return &net.TCPAddr{} }

// end is one end of a connection from an address.
type end struct {
	net.Conn
	from   string
	closed *int
}

func (e *end) RemoteAddr() net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", e.from)
	return a
}

func (e *end) Close() error {
	if e.closed != nil {
		*e.closed++
	}
	return e.Conn.Close()
}

func from(address string) *end {
	a, _ := net.Pipe()
	return &end{Conn: a, from: address}
}

func system(call string, err error) error {
	return &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError(call, err)}
}

// A shortage is waited for, longer each time, and the connection behind it is taken.
func TestAcceptOutlivesShortages(t *testing.T) {
	for _, errno := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		synctest.Test(t, func(t *testing.T) {
			items := []any{}
			for range 12 {
				items = append(items, system("accept4", errno))
			}
			failed := 0
			l := New(newQueue(append(items, from("192.0.2.1:1"))...), Settings{Failed: func(err error) {
				if !errors.Is(err, errno) {
					t.Errorf("told of %v", err)
				}
				failed++
			}})
			began := time.Now()
			c, err := l.Accept()
			if err != nil || c == nil {
				t.Fatalf("%v: %v", errno, err)
			}
			// 5, 10, 20 … 640 ms, and then a second each time.
			if took := time.Since(began); failed != 12 || took != 1275*time.Millisecond+4*time.Second {
				t.Errorf("%v: %d failures took %v", errno, failed, took)
			}
			_ = l.Close()
		})
	}
}

// What does not pass is returned, and Close ends a rest.
func TestAcceptEnds(t *testing.T) {
	final := system("accept4", syscall.EBADF)
	if _, err := New(newQueue(final), Settings{}).Accept(); !errors.Is(err, syscall.EBADF) {
		t.Errorf("%v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		for range 20 {
			q.items <- system("accept4", syscall.EMFILE)
		}
		l := New(q, Settings{})
		ended := make(chan error)
		go func() { _, err := l.Accept(); ended <- err }()
		time.Sleep(3 * time.Second) // in the middle of a rest of a second
		began := time.Now()
		_ = l.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		_ = l.Close()
	})
}

// group counts a /8 as one, and nobody of 10.0.0.0/8.
func group(address string) string {
	if address[:3] == "10." {
		return ""
	}
	return address[:3]
}

// takeAll accepts until the listener fails.
func takeAll(l *Bounded) (all []net.Conn) {
	for {
		c, err := l.Accept()
		if err != nil {
			return all
		}
		all = append(all, c)
	}
}

func TestLimits(t *testing.T) {
	for name, x := range map[string]struct {
		o       Settings
		from    []string
		let     int      // of from, the first ones
		refused []string // limit and whom
	}{
		"none":   {Settings{}, []string{"192.0.2.1:1", "192.0.2.1:2"}, 2, nil},
		"in all": {Settings{Connections: 2}, []string{"192.0.2.1:1", "198.0.2.1:1", "199.0.2.1:1"}, 2, []string{"connections 199.0.2.1:1"}},
		"of an address": {
			Settings{PerAddress: 1, Group: group}, []string{"192.0.2.1:1", "198.0.2.1:1", "192.9.9.9:1"}, 2,
			[]string{"connections_per_address 192"},
		},
		"of an address that is not counted": {
			Settings{PerAddress: 1, Connections: 3, Group: group}, []string{"10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3", "10.0.0.1:4"}, 3,
			[]string{"connections 10.0.0.1:4"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			closed, open := 0, 0
			var refused []string
			x.o.Refused = func(limit, from string) {
				if early := closed - len(refused); len(refused) < len(x.refused) && early != 0 {
					t.Errorf("%s from %s is told of when the connection is closed already", limit, from)
				}
				refused = append(refused, limit+" "+from)
			}
			x.o.Open = func(change int) { open += change }
			q := newQueue()
			for _, f := range x.from {
				e := from(f)
				e.closed = &closed
				q.items <- e
			}
			q.items <- system("accept4", syscall.EBADF)
			l := New(q, x.o)
			taken := takeAll(l)
			if len(taken) != x.let || open != x.let || l.Count() != x.let {
				t.Fatalf("%d were let in, %d told of, %d counted; want %d", len(taken), open, l.Count(), x.let)
			}
			if !slices.Equal(refused, x.refused) || closed != len(x.refused) {
				t.Errorf("refused %v, want %v; %d were closed", refused, x.refused, closed)
			}
			for range 2 { // the second time it does not count
				_ = taken[0].Close()
			}
			q.items <- from(x.from[0])
			q.items <- from(x.from[0]) // there was room for one
			q.items <- system("accept4", syscall.EBADF)
			if again := takeAll(l); len(x.refused) > 0 && len(again) != 1 {
				t.Errorf("after one had gone %d were let in", len(again))
			}
			if n := l.CloseAll(); n == 0 || l.Count() != 0 || open != 0 || len(l.address) != 0 {
				t.Errorf("%d were closed, %d and %v are left, %d counted", n, l.Count(), l.address, open)
			}
			q.items <- from("203.0.113.1:1") // too late
			q.items <- system("accept4", syscall.EBADF)
			if late := takeAll(l); len(late) != 0 {
				t.Error("a connection was let in after CloseAll")
			}
		})
	}
}

// Connections that were never used are closed apart from those that were.
func TestCloseUnused(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(inner, Settings{})
	defer l.CloseAll()
	defer l.Close()
	dial := func() (client, server net.Conn) {
		client, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		if server, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		return client, server
	}
	unused, _ := dial()
	used, at := dial()
	if _, err := used.Write([]byte("G")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if _, err := at.Read(b); err != nil {
		t.Fatal(err)
	}
	if _, ok := at.(syscall.Conn); !ok {
		t.Error("sockets cannot be written to without waiting")
	}
	l.CloseUnused()
	if _, err := unused.Read(b); !errors.Is(err, io.EOF) {
		t.Errorf("the unused one: %v", err)
	}
	if l.Count() != 1 {
		t.Errorf("%d are open", l.Count())
	}
	if _, err := at.Write([]byte("x")); err != nil {
		t.Errorf("the other one: %v", err)
	}
}

func TestAuto(t *testing.T) {
	for files, want := range map[int]int{0: 0, 200: 100, 1000: 500, 1024: 512, 20_000: 19_488, 1 << 20: 1<<20 - Reserve} {
		if got := left(files); got != want {
			t.Errorf("of %d files %d are for connections, want %d", files, got, want)
		}
	}
	if Auto() <= 0 {
		t.Errorf("Auto is %d here", Auto())
	}
}
