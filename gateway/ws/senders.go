package ws

import (
	"net"
	goruntime "runtime"
	"sync"
	"syscall"

	"parley/gateway/fanout"
)

// senders write to the sockets of all connections. A connection has no goroutine
// that writes: its queue puts it into the line when it has something, and one of a
// few goroutines takes it from there, writes what the socket takes at once, and goes
// on with the next one. What would have to wait, for a client that does not read or
// for the log, goes on in a goroutine of its own until all is written.
//
// With a writer for each connection an event for a thousand followers woke a
// thousand goroutines, every write had to set a deadline in case it blocked, and each
// idle socket kept a second stack.
type senders struct {
	most int // how many goroutines write at once

	mu      sync.Mutex
	line    []*conn // those before first have been taken
	first   int
	running int
}

func newSenders() *senders { return &senders{most: goruntime.GOMAXPROCS(0)} }

// add puts a connection into the line. It never blocks.
func (s *senders) add(c *conn) {
	s.mu.Lock()
	if len(s.line) == cap(s.line) && s.first > len(s.line)/2 {
		n := copy(s.line, s.line[s.first:])
		clear(s.line[n:])
		s.line, s.first = s.line[:n], 0
	}
	s.line = append(s.line, c)
	start := s.running < s.most
	if start {
		s.running++
	}
	s.mu.Unlock()
	if start {
		go s.run()
	}
}

// run serves the line until nobody waits.
func (s *senders) run() {
	o := outs.Get().(*out)
	for c := s.next(); c != nil; c = s.next() {
		if c.send(o) {
			o = outs.Get().(*out)
		}
	}
	outs.Put(o)
}

// next takes the first connection of the line; nil = nobody waits, and the goroutine
// that asks is not counted any more.
func (s *senders) next() *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == len(s.line) {
		s.running--
		if s.line, s.first = s.line[:0], 0; cap(s.line) > 1024 {
			s.line = nil
		}
		return nil
	}
	c := s.line[s.first]
	s.line[s.first] = nil
	s.first++
	return c
}

// outs hold what a goroutine that writes needs. A connection has
// one only while it has something to write.
var outs = sync.Pool{New: func() any {
	o := &out{scratch: make([]byte, 0, fanout.WriteBytes+1024)}
	o.attempt = o.write
	return o
}}

// out is the frames of one write, and a write that does not wait.
type out struct {
	scratch []byte

	attempt func(fd uintptr) bool // write, made once: it would be an allocation a write
	data    []byte
	n       int
	err     error
}

// rawSocket is how a socket is written to without waiting; nil = it cannot be.
func rawSocket(socket net.Conn) syscall.RawConn {
	if s, ok := socket.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// try writes as much of data as the socket takes without waiting.
func (o *out) try(socket syscall.RawConn, data []byte) (int, error) {
	if socket == nil {
		return 0, nil
	}
	o.data, o.n, o.err = data, 0, nil
	if err := socket.Write(o.attempt); err != nil {
		o.err = err // it was closed
	}
	o.data = nil
	return o.n, o.err
}
