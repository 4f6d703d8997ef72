package ws

import (
	"sync"
	"time"

	"parley/gateway/protocol"
)

// beats call a connection's heartbeat from time to time, in a goroutine of the timer.
type beats struct {
	mu      sync.Mutex // held while one beats
	timer   *time.Timer
	stopped bool
}

func (c *conn) startHeartbeats() {
	c.beats.mu.Lock()
	defer c.beats.mu.Unlock()
	c.beats.timer = time.AfterFunc(c.Times.Heartbeat, func() {
		defer c.recoverPanic("heartbeat")
		c.beats.mu.Lock()
		defer c.beats.mu.Unlock()
		if !c.beats.stopped {
			c.beats.timer.Reset(c.heartbeat())
		}
	})
}

// stopHeartbeats returns when none beats any more.
func (c *conn) stopHeartbeats() {
	c.beats.mu.Lock()
	defer c.beats.mu.Unlock()
	c.beats.stopped = true
	c.beats.timer.Stop()
}

// touch notes that the client lives and moves the read deadline, at most once a
// second: a deadline costs more than a clock.
func (c *conn) touch(now time.Time) {
	if !c.wasOpen.Load() || c.closing() {
		return
	}
	since := c.since(now) - c.clock.read.Load()
	if since >= int64(min(time.Second, c.Times.Heartbeat/4)) {
		c.clock.read.Store(c.since(now))
		c.deadline(c.Times.ReadDeadline)
		if c.closing() { // meanwhile: the writer's deadline counts
			c.deadline(c.Times.Close)
		}
	}
}

// since is the connection's own time, in nanoseconds.
func (c *conn) since(now time.Time) int64 { return int64(now.Sub(c.clock.began)) }

func (c *conn) deadline(d time.Duration) { _ = c.net.SetReadDeadline(c.Now().Add(d)) }

// heartbeat speaks up when it was quiet, and says when to look again. A ping asks
// for a sign of life also of a client that only listens; hb is for clients whose
// language hides pings.
func (c *conn) heartbeat() time.Duration {
	now := c.Now()
	every := c.Times.Heartbeat
	heard, spoke := time.Duration(c.since(now)-c.clock.read.Load()), time.Duration(c.since(now)-c.clock.write.Load())
	quiet := every - every/20
	if heard >= quiet || spoke >= quiet {
		c.out.Ping()
	}
	if spoke >= quiet {
		c.out.Answer(func(b []byte) []byte { return protocol.AppendHeartbeat(b, now) })
	}
	next := every
	if heard < quiet && spoke < quiet {
		next = min(next, every-max(heard, spoke))
	}
	return max(next, time.Millisecond)
}
