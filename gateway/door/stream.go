package door

import (
	"bufio"
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"parley/conversation"
	"parley/gateway/door/internal/gone"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// Streamer is what answers a request with a stream. It is a connection of the server, so that
// a drain reaches it.
type Streamer interface {
	service.Connection
	// LeaseEnded says that the credential has expired or was taken back.
	LeaseEnded(why *conversation.Error)
	// Write writes until there is nothing more to write. It runs in the goroutine of the HTTP
	// library that writes the body.
	Write(w *bufio.Writer)
	// Release gives back what the source holds. It is called once, after Write.
	Release()
}

// StreamSlot takes a place for a stream, before anything is done for it. free gives it back.
func (d *HTTP) StreamSlot(c *fiber.Ctx, who *service.Principal) (free func(), err error) {
	if d.Connections.Draining() {
		return nil, service.ErrDraining
	}
	limits := []service.Most{
		{Slot: service.Slot{Name: "streams"}, Most: d.Limits.Streams},
		{Slot: service.Slot{Name: "streams_per_address", Of: service.AddressGroup(AddressOf(d.Services, c))}, Most: d.Limits.StreamsPerAddress},
	}
	if d.Auth.Mode() != "none" { // there everybody is the same user
		limits = append(limits, service.Most{Slot: service.Slot{Name: "streams_per_user", Of: who.ID()}, Most: d.Limits.StreamsPerUser})
	}
	free, refusedBy := d.open.Take(limits...)
	switch refusedBy {
	case "":
		return free, nil
	case "streams":
		err = conversation.Errorf(conversation.Overloaded, "there are too many streams open")
	default:
		err = conversation.Errorf(conversation.RateLimited, "you have too many streams open: limits.%s", refusedBy)
	}
	d.Metrics.Refused.WithLabelValues(refusedBy).Inc()
	return nil, err
}

// Stream answers a request with a stream of a content type. Everything that the source
// needs is taken out of the request before it writes: the request is reused by then. free
// gives the stream's place back.
func (d *HTTP) Stream(c *fiber.Ctx, who *service.Principal, contentType string, s Streamer, free func()) {
	if !d.Connections.Add(s) {
		s.Close()
	}
	lease := d.Lease(who, s.LeaseEnded)
	if over := lease.Over(); over != nil {
		s.LeaseEnded(over)
	}
	stop := gone.Watch(c.Context().Conn(), s.ForceClose)
	d.Metrics.Streams.Inc()
	c.Set(fiber.HeaderContentType, contentType)
	c.Set(fiber.HeaderCacheControl, "no-cache, no-transform")
	c.Set("X-Accel-Buffering", "no")
	c.Context().SetConnectionClose() // the deadlines that a stream sets must not meet another request
	c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		defer func() {
			stop()
			lease.Release()
			s.Release()
			free()
			d.Metrics.Streams.Dec()
			if r := recover(); r != nil {
				d.Metrics.Panics.Inc()
				d.Log.Error("panic", "where", "stream", "panic", r, "stack", service.Stack())
			}
			d.Connections.Remove(s) // last: a drain that finds no connection left may end the process
		}()
		s.Write(w)
	})
}

// EventStream is content that is server-sent events.
const EventStream = "text/event-stream"

// ServeEvents answers a request with server-sent events that write makes, in the goroutine that
// writes the body, until it returns. The caller has a place from StreamSlot; free gives it back.
//
// The context that write gets ends with the client, with its credential, and when the server
// goes away: nothing can be said of that in a protocol that is not ours, and the client comes back.
func (d *HTTP) ServeEvents(c *fiber.Ctx, who *service.Principal, free func(), write func(ctx context.Context, out *EventWriter)) {
	e := &EventWriter{Services: d.Services, net: c.Context().Conn(), write: write}
	e.ctx, e.cancel = context.WithCancel(d.Alive)
	d.Stream(c, who, EventStream, e, free)
}

// EventWriter writes server-sent events. Its methods are for the goroutine of write alone.
type EventWriter struct {
	*service.Services
	ctx    context.Context
	cancel context.CancelFunc
	net    net.Conn
	write  func(context.Context, *EventWriter)
	out    *bufio.Writer
	once   sync.Once
}

// Send writes text, which is whole events, at once. false = the client takes nothing any more.
func (e *EventWriter) Send(text []byte) bool {
	if e.ctx.Err() != nil {
		return false
	}
	_ = e.net.SetWriteDeadline(e.Now().Add(e.Times.Write))
	_, err := e.out.Write(text)
	if err == nil {
		err = e.out.Flush()
	}
	if err != nil {
		e.cancel()
		return false
	}
	e.Metrics.FramesOut.Inc()
	e.Metrics.BytesOut.Add(float64(len(text)))
	e.Metrics.Writes.Inc()
	return true
}

// Comment keeps a silent stream alive.
func (e *EventWriter) Comment() bool { return e.Send([]byte(": hb\n\n")) }

// Write implements Streamer.
func (e *EventWriter) Write(w *bufio.Writer) {
	e.out = w
	e.write(e.ctx, e)
}

// GoAway implements Streamer. There is no word for it in protocols that are not ours.
func (e *EventWriter) GoAway(int, string, time.Duration) {}

// Close implements Streamer.
func (e *EventWriter) Close() { e.cancel() }

// ForceClose implements Streamer.
func (e *EventWriter) ForceClose() {
	e.cancel()
	e.once.Do(func() { _ = e.net.Close() })
}

// LeaseEnded implements Streamer.
func (e *EventWriter) LeaseEnded(*conversation.Error) { e.cancel() }

// Release implements Streamer.
func (e *EventWriter) Release() { e.cancel() }

// AppendRetry tells a browser when to come back. It is an event of its own, without data.
func AppendRetry(dst []byte, after time.Duration) []byte {
	dst = append(dst, "retry: "...)
	dst = strconv.AppendInt(dst, after.Milliseconds(), 10)
	return append(dst, "\n\n"...)
}

// Retry is when a browser shall come back to a stream that has ended by itself: not all at
// the same time.
func Retry() time.Duration { return time.Second + rand.N(2*time.Second) }

// Waiting is a request that waits for what a session does.
type Waiting struct {
	// Context ends in time, with the client, with its credential, and when the server begins
	// to go away.
	Context context.Context
	lease   *service.Lease
	cancel  context.CancelFunc
	stop    func()
	free    func()
}

// Wait begins to wait for at most the time most. refusedBy is the limit below [limits] that
// has no room for it; then there is nothing to End.
func (d *HTTP) Wait(c *fiber.Ctx, who *service.Principal, key conversation.SessionKey, most time.Duration) (w *Waiting, refusedBy string) {
	free, refusedBy := d.open.Take(
		service.Most{Slot: service.Slot{Name: "waits_per_session", Of: key}, Most: d.Limits.WaitsPerSession},
		service.Most{Slot: service.Slot{Name: "waits_per_address", Of: service.AddressGroup(AddressOf(d.Services, c))}, Most: d.Limits.WaitsPerAddress},
	)
	if refusedBy != "" {
		d.Metrics.Refused.WithLabelValues(refusedBy).Inc()
		return nil, refusedBy
	}
	w = &Waiting{free: free}
	w.Context, w.cancel = context.WithTimeout(d.Serving, most)
	w.lease = d.Lease(who, func(*conversation.Error) { w.cancel() })
	w.stop = gone.Watch(c.Context().Conn(), w.cancel)
	if w.lease.Over() != nil {
		w.cancel()
	}
	return w, ""
}

// Over is true when the wait has ended without what was waited for.
func (w *Waiting) Over() bool { return w.Context.Err() != nil || w.lease.Over() != nil }

// End ends the wait. Until then nobody else may read from the connection.
func (w *Waiting) End() {
	w.stop()
	w.lease.Release()
	w.cancel()
	w.free()
}
