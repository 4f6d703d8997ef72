package ws

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"parley/gateway/fanout"
	"parley/gateway/protocol"
)

// write is the writer: the only goroutine that writes to the socket.
func (c *conn) write() {
	defer close(c.writer)
	crashed := true
	defer func() {
		if crashed { // no writer is left for a close frame
			_ = c.net.Close()
		}
	}()
	defer c.recoverPanic("writer")
	c.writeAll()
	crashed = false
}

// writeAll writes what comes until the connection ends.
func (c *conn) writeAll() {
	var due atomic.Bool // a heartbeat
	// A timer of the select would cost each sleep of the writer as much as the
	// channel itself.
	beat := time.AfterFunc(c.Times.Heartbeat, func() {
		due.Store(true)
		c.out.Nudge()
	})
	defer beat.Stop()
	var scratch *[]byte
	release := func() {
		if scratch != nil {
			writeBuffers.Put(scratch)
			scratch = nil
		}
	}
	defer release()
	for {
		if scratch == nil {
			scratch = writeBuffers.Get().(*[]byte)
		}
		t := c.out.Take(c.ctx, *scratch)
		switch {
		case t.Err != nil:
			if c.ctx.Err() == nil {
				c.Log.Error("replay failed", "session", string(t.Session), "error", t.Err)
			}
			c.closeWith(protocol.CloseInternal, "the log could not be read")
			continue
		case t.Frames > 0:
			if !c.flush(t.Data, t.Frames) {
				return
			}
			if t.Last {
				// The reader waits for the client's own close frame, but not for long.
				c.deadline(c.Times.Close)
				return
			}
			continue
		case t.Ended:
			return
		}
		release()
		if !due.Load() { // it may have become so while the writer was not asleep
			<-c.out.Wake()
		}
		if due.CompareAndSwap(true, false) {
			beat.Reset(c.heartbeat())
		}
	}
}

// writeBuffers hold the frames of one write. A connection
// has one only while it has something to write.
var writeBuffers = sync.Pool{New: func() any { b := make([]byte, 0, fanout.WriteBytes+1024); return &b }}

// flush writes whole frames. A write that is blocked for longer than Times.Write
// ends the connection with 4004, if the client reads again at once to hear of it.
func (c *conn) flush(data []byte, frames int) bool {
	now := c.Now()
	_ = c.net.SetWriteDeadline(now.Add(c.Times.Write))
	n, err := c.net.Write(data)
	c.Metrics.Writes.Inc()
	c.Metrics.BytesOut.Add(float64(n))
	if err == nil {
		c.Metrics.FramesOut.Add(float64(frames))
		c.clock.write.Store(c.since(now))
		return true
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && c.code.CompareAndSwap(0, protocol.CloseSlow) {
		// A frame may be half out: end it before the close frame.
		rest := remainder(data, n)
		_ = c.net.SetWriteDeadline(c.Now().Add(c.Times.Close))
		_, _ = c.net.Write(append(append([]byte(nil), rest...), protocol.CloseFrame(protocol.CloseSlow, "too slow")...))
	}
	_ = c.net.Close() // the reader ends as well
	return false
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
