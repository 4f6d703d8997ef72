package ws

import (
	"errors"
	"os"
	"time"

	"parley/gateway/fanout"
	"parley/gateway/protocol"
)

// The writer of a connection is whoever has taken it from the line of the senders,
// and then the goroutine that one has handed it to. There is one at a time: the queue
// says that something is there once, and again after a Take that gave nothing.

// send writes what waits, as long as nothing has to be waited for. kept is true when o
// belongs to the goroutine that waits, with the frames in it: they are not copied, because
// followers that do not read share a session's frames.
func (c *conn) send(o *out) (kept bool) {
	crashed := true
	defer func() {
		if crashed {
			c.writerCrashed(recover())
		}
	}()
	for more := true; more; {
		t := c.out.TakeQueued(o.scratch)
		switch {
		case t.Behind:
			kept, more = true, false
			go c.sendWaiting(o, fanout.Taken{}, 0)
		case t.Frames > 0:
			n, err := o.try(c.raw, t.Data)
			c.Metrics.Writes.Inc()
			if err == nil && n < len(t.Data) {
				kept, more = true, false
				go c.sendWaiting(o, t, n)
			} else {
				more = c.wrote(t, n, err)
			}
		default:
			more = false
			if t.Ended {
				close(c.writer)
			}
		}
	}
	crashed = false
	return kept
}

// sendWaiting writes the rest of t, of which the socket has taken n bytes, and what
// comes meanwhile, until nothing waits. It reads the log for subscriptions that are
// behind. o, in which t may be, is its own.
func (c *conn) sendWaiting(o *out, t fanout.Taken, n int) {
	crashed := true
	defer func() {
		if crashed {
			c.writerCrashed(recover())
		}
	}()
	defer outs.Put(o)
	more := t.Frames == 0 || c.flush(t, n)
	for more {
		t := c.out.Take(c.ctx, o.scratch)
		switch {
		case t.Err != nil:
			if c.ctx.Err() == nil {
				c.Log.Error("replay failed", "session", string(t.Session), "error", t.Err)
			}
			c.closeWith(protocol.CloseInternal, "the log could not be read")
		case t.Frames > 0:
			n, err := o.try(c.raw, t.Data)
			c.Metrics.Writes.Inc()
			if err == nil && n < len(t.Data) {
				more = c.flush(t, n)
			} else {
				more = c.wrote(t, n, err)
			}
		default:
			more = false
			if t.Ended {
				close(c.writer)
			}
		}
	}
	crashed = false
}

// flush writes the rest of t and waits for that, but at most Times.Write. The
// deadline is set for this write only: moving one costs a tenth of a write, and most
// writes do not wait.
func (c *conn) flush(t fanout.Taken, n int) (more bool) {
	_ = c.net.SetWriteDeadline(c.Now().Add(c.Times.Write))
	m, err := c.net.Write(t.Data[n:])
	c.Metrics.Writes.Inc()
	if err == nil {
		_ = c.net.SetWriteDeadline(time.Time{})
	}
	return c.wrote(t, n+m, err)
}

// wrote ends the writing of t, of which n bytes went out. When a write was blocked for
// longer than Times.Write the connection ends with 4004, if the client reads again at
// once to hear of it. more is false when nothing will be written any more.
func (c *conn) wrote(t fanout.Taken, n int, err error) (more bool) {
	c.Metrics.BytesOut.Add(float64(n))
	if err == nil {
		c.Metrics.FramesOut.Add(float64(t.Frames))
		c.clock.write.Store(c.since(c.Now()))
		if t.Last {
			// The reader waits for the client's own close frame, but not for long.
			c.deadline(c.Times.Close)
			close(c.writer)
		}
		return !t.Last
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && c.code.CompareAndSwap(0, protocol.CloseSlow) {
		// A frame may be half out: end it before the close frame.
		rest := remainder(t.Data, n)
		_ = c.net.SetWriteDeadline(c.Now().Add(c.Times.Close))
		_, _ = c.net.Write(append(append([]byte(nil), rest...), protocol.CloseFrame(protocol.CloseSlow, "too slow")...))
	}
	_ = c.net.Close() // the reader ends as well
	close(c.writer)
	return false
}

// writerCrashed ends the connection after a panic: no writer is left for a close frame.
func (c *conn) writerCrashed(r any) {
	c.panicked("writer", r)
	_ = c.net.Close()
	close(c.writer)
}

// remainder is the rest of the frame that a write of n bytes has begun.
func remainder(data []byte, n int) []byte {
	b := data
	for len(b) > 0 {
		_, _, rest := protocol.NextFrame(b)
		if end := len(data) - len(rest); end >= n {
			return data[n:end]
		}
		b = rest
	}
	return nil
}
