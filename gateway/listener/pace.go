package listener

import (
	"errors"
	"os"
	"sync/atomic"
	"time"
)

// firstPace is how long nothing has to have come.
const firstPace = 15 * time.Second

// pace is how fast something comes that may take long.
type pace struct {
	since, until time.Time
	got          atomic.Int64
}

// end is until when more must have come.
func (p *pace) end(slowest int) time.Time {
	end := p.since.Add(firstPace + time.Duration(p.got.Load())*time.Second/time.Duration(slowest))
	if end.After(p.until) {
		return p.until
	}
	return end
}

// SetReadDeadline gives a client time to send. If that is more than Settings.Patience, what
// comes must come at a pace.
func (c *conn) SetReadDeadline(t time.Time) error {
	now := time.Now()
	if c.of.o.Slowest == 0 || t.Sub(now) <= c.of.o.Patience {
		c.pace.Store(nil)
		return c.Conn.SetReadDeadline(t)
	}
	p := &pace{since: now, until: t}
	c.pace.Store(p)
	return c.Conn.SetReadDeadline(p.end(c.of.o.Slowest))
}

// came notes that something has come at a pace, or not in time.
func (c *conn) came(p *pace, n int, err error) {
	switch {
	case n > 0:
		p.got.Add(int64(n))
		if c.pace.Load() == p {
			_ = c.Conn.SetReadDeadline(p.end(c.of.o.Slowest))
		}
	case errors.Is(err, os.ErrDeadlineExceeded) && p.end(c.of.o.Slowest).Before(p.until) && c.of.o.Slow != nil:
		c.of.o.Slow()
	}
}
