package listener

import (
	"io"
	"net"
	"time"
)

// A client that sends its whole request before it reads has not read the answer when the server
// closes: what it sends then is answered by a reset, and the system forgets the answer that it
// has. So the server says that it sends no more, and reads on for a moment.

// How long, and how much, is read of a client that is answered and still sends.
const (
	lingerSilence = 2 * time.Second // without a byte
	lingerTime    = 10 * time.Second
	lingerBytes   = 64 << 20
)

// Linger has the next Close read on, and throw away, what the client still sends, in a goroutine
// and for a moment only. Without a place for that, and once the listener is closed, it is
// closed at once.
func (c *conn) Linger() { c.lingers.Store(true) }

// Linger is that of the connection below; what it throws away need not be decrypted.
func (c *secured) Linger() { c.raw.Linger() }

// linger is true if the connection is closed by a goroutine.
func (l *Bounded) linger(c *conn) bool {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return false
	}
	l.mu.Lock()
	_, open := l.open[c]
	select {
	case <-l.closed:
		open = false
	default:
	}
	if !open || l.lingering >= l.o.Lingering {
		l.mu.Unlock()
		return false
	}
	l.lingering++
	c.answered = true
	l.mu.Unlock()
	go func() { // ends after lingerTime, or when the connection is closed by somebody else
		if half.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(&leftover{c.Conn, time.Now().Add(lingerTime)}, lingerBytes))
		}
		_ = c.Close()
		l.mu.Lock()
		l.lingering--
		l.mu.Unlock()
	}()
	return true
}

// leftover is what a client still sends.
type leftover struct {
	net.Conn
	end time.Time
}

func (r *leftover) Read(b []byte) (int, error) {
	until := time.Now().Add(lingerSilence)
	if until.After(r.end) {
		until = r.end
	}
	if err := r.SetReadDeadline(until); err != nil {
		return 0, err
	}
	return r.Conn.Read(b)
}
