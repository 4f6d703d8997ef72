package listener

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Settings say how many connections there may be, and who hears of what happens.
type Settings struct {
	Connections int // open at once; 0 = no limit
	PerAddress  int // open at once from one group of addresses; 0 = no limit

	// Group is what PerAddress counts of an address "host:port". "" = it is not counted.
	// Required with PerAddress.
	Group func(address string) string

	TLS *tls.Config // nil = no TLS

	// What a client has more time to send than Patience must come at so many bytes a second,
	// from 15 s on; 0 = at any pace.
	Slowest  int
	Patience time.Duration

	// Lingering is how many connections there may be at once that are answered, and of which
	// something is still read: see Linger. 0 = none.
	Lingering int

	// What is told, by the goroutine that accepts; each may be nil.
	Open    func(change int)         // a connection has come or gone; by any goroutine
	Refused func(limit, from string) // a connection is closed at once: the limit's name, the group or address
	Slow    func()                   // something came more slowly than Slowest; by any goroutine
	Failed  func(err error)          // no connection could be taken; it is tried again
}

// The names of the limits in metrics.
const (
	LimitConnections = "connections"
	LimitPerAddress  = "connections_per_address"
)

// How long Accept waits before it tries again: twice as long each time.
const (
	firstRest = 5 * time.Millisecond
	lastRest  = time.Second
)

// Bounded takes connections from another one, which it closes with itself.
type Bounded struct {
	net.Listener
	o      Settings
	closed chan struct{}
	once   sync.Once
	err    error // of the close

	mu        sync.Mutex
	open      map[*conn]struct{}
	address   map[string]int // open ones by group
	lingering int            // open ones that are answered
	ended     bool           // CloseAll was called: what comes now is closed at once
}

// New takes connections from inner.
func New(inner net.Listener, o Settings) *Bounded {
	return &Bounded{
		Listener: inner, o: o, closed: make(chan struct{}),
		open: make(map[*conn]struct{}), address: make(map[string]int),
	}
}

// Accept returns the next connection that is let in. A shortage of descriptors or
// memory, or a client that is gone before it was taken, is no reason to end: it waits
// and tries again, until Close.
func (l *Bounded) Accept() (net.Conn, error) {
	rest := time.Duration(0)
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			if !passes(err) {
				return nil, err
			}
			if l.o.Failed != nil {
				l.o.Failed(err)
			}
			rest = min(max(2*rest, firstRest), lastRest)
			select {
			case <-time.After(rest):
				continue
			case <-l.closed:
				return nil, net.ErrClosed
			}
		}
		rest = 0
		c, limit := l.admit(raw)
		if c == nil {
			// Told of first: who sees the end of the connection finds it counted.
			if l.o.Refused != nil && limit != "" {
				l.o.Refused(limit, l.name(raw))
			}
			_ = raw.Close()
			continue
		}
		if l.o.TLS != nil {
			return &secured{Conn: tls.Server(c, l.o.TLS), raw: c}, nil
		}
		return c, nil
	}
}

// passes is true for errors of Accept that end by themselves.
func passes(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (l *Bounded) group(raw net.Conn) string {
	if l.o.PerAddress == 0 {
		return ""
	}
	return l.o.Group(raw.RemoteAddr().String())
}

// name says in a log line who was refused.
func (l *Bounded) name(raw net.Conn) string {
	if g := l.group(raw); g != "" {
		return g
	}
	return raw.RemoteAddr().String()
}

// admit keeps a connection, or says which limit refuses it; "" = the listener has ended.
func (l *Bounded) admit(raw net.Conn) (c *conn, limit string) {
	group := l.group(raw)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return nil, ""
	case l.o.Connections > 0 && len(l.open) >= l.o.Connections:
		return nil, LimitConnections
	case group != "" && l.address[group] >= l.o.PerAddress:
		return nil, LimitPerAddress
	}
	c = &conn{Conn: raw, of: l, group: group}
	l.open[c] = struct{}{}
	if group != "" {
		l.address[group]++
	}
	if l.o.Open != nil {
		l.o.Open(1)
	}
	return c, ""
}

// forget is called once for each connection that was admitted.
func (l *Bounded) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
	if c.group != "" {
		if l.address[c.group]--; l.address[c.group] == 0 {
			delete(l.address, c.group)
		}
	}
	if l.o.Open != nil {
		l.o.Open(-1)
	}
}

// Count is how many connections are open.
func (l *Bounded) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// Close takes no more connections. Those that are open stay. Idempotent.
func (l *Bounded) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.err = l.Listener.Close()
	})
	return l.err
}

// CloseUnused closes the connections on which nothing has come yet (browsers open such ones,
// to have them at hand), and those that are answered.
func (l *Bounded) CloseUnused() {
	for _, c := range l.all(func(c *conn) bool { return !c.used.Load() || c.answered }) {
		_ = c.Close()
	}
}

// CloseAll closes every connection, and from now on each new one, and says how many
// there were. It waits for nobody: what is not sent yet stays unsent.
func (l *Bounded) CloseAll() int {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	all := l.all(func(*conn) bool { return true })
	for _, c := range all {
		_ = c.Close()
	}
	return len(all)
}

func (l *Bounded) all(which func(*conn) bool) (all []*conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		if which(c) {
			all = append(all, c)
		}
	}
	return all
}

// conn is a connection that counts until it is closed.
type conn struct {
	net.Conn
	of       *Bounded
	group    string // that it counts for; "" = none
	answered bool   // under the listener's lock: it lingers
	used     atomic.Bool
	gone     atomic.Bool
	lingers  atomic.Bool          // as soon as it is closed
	pace     atomic.Pointer[pace] // nil = any
}

// Read notes that the client has said something. Under TLS its handshake is not that.
func (c *conn) Read(b []byte) (int, error) {
	p := c.pace.Load()
	n, err := c.Conn.Read(b)
	if p != nil {
		c.came(p, n, err)
	}
	if n > 0 && c.of.o.TLS == nil && !c.used.Load() {
		c.used.Store(true)
	}
	return n, err
}

// Close closes the connection; only the first call counts.
func (c *conn) Close() error {
	if c.lingers.CompareAndSwap(true, false) && c.of.linger(c) {
		return nil
	}
	if !c.gone.CompareAndSwap(false, true) {
		return net.ErrClosed
	}
	defer c.of.forget(c)
	return c.Conn.Close()
}

// SyscallConn lets frames be written to the socket without waiting.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// secured is a connection under TLS.
type secured struct {
	*tls.Conn
	raw *conn
}

// Read notes that the client has said something.
func (c *secured) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.raw.used.Load() {
		c.raw.used.Store(true)
	}
	return n, err
}
