package parley

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"sync"
	"time"

	"parley/clients/go/internal/pace"
)

// From says where a follow begins.
type From struct {
	// Since is the last event that is known already; with it and the Log that it
	// belongs to, a program goes on where it ended. nil = begin with the tail.
	Since *uint64
	Log   string
	Tail  *int // how many events to begin with; nil = 50
}

// Start is the beginning of the log.
func Start() From { var zero uint64; return From{Since: &zero} }

// ErrReplaced is the end of a Following whose session was followed again.
var ErrReplaced = errors.New("parley: the session was followed again")

const (
	maxQueue   = 4096 // events that wait for their reader; beyond, the follow goes on from the log later
	maxRepairs = 4    // follows that bring nothing new, before the connection is made anew
)

// A Following is a session that is followed: all its events in order, each once,
// whatever becomes of the connection.
type Following struct {
	client  *Client
	session string
	ready   chan struct{} // capacity 1: there is something for Next

	mu      sync.Mutex
	queue   []Event
	err     error // the end, behind the queue
	from    From
	last    uint64 // the last event that was taken
	log     string
	began   bool
	live    bool // events of link are taken
	need    bool // to be followed on the next occasion
	behind  bool // events were left out, because the queue is full
	link    *link
	repairs int
}

// Follow follows a session. One client follows a session once: another Follow of it
// replaces this one. The events wait in memory until they are read; a reader that is
// far behind gets them from the log.
func (c *Client) Follow(session string, from From) *Following {
	f := &Following{client: c, session: session, from: from, log: from.Log, need: true, ready: make(chan struct{}, 1)}
	if from.Since != nil {
		f.last = *from.Since
	}
	c.mu.Lock()
	if c.follows == nil {
		c.mu.Unlock()
		f.stop(context.Cause(c.ctx))
		return f
	}
	before, l := c.follows[session], c.link
	c.follows[session] = f
	delete(c.over, session)
	c.mu.Unlock()
	if before != nil {
		before.stop(ErrReplaced)
	}
	if l != nil {
		l.nudge()
	}
	return f
}

// Session is what is followed.
func (f *Following) Session() string { return f.session }

// Cursor is where a program that ends now can go on later: behind the events that
// Next has returned and those that wait for it.
func (f *Following) Cursor() From {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.last
	for _, e := range f.queue {
		if e.Seq > 0 {
			last = e.Seq - 1
			break
		}
	}
	return From{Since: &last, Log: f.log}
}

// Next waits for the next event. After [Gone] it returns io.EOF, and after Close,
// its own or the client's, ErrClosed.
func (f *Following) Next(ctx context.Context) (Event, error) {
	for {
		f.mu.Lock()
		if len(f.queue) > 0 {
			e := f.queue[0]
			f.queue[0] = Event{}
			f.queue = f.queue[1:]
			f.mu.Unlock()
			return e, nil
		}
		err, behind := f.err, f.behind
		if behind {
			f.behind, f.need = false, true
		}
		f.mu.Unlock()
		if err != nil {
			return Event{}, err
		}
		if behind {
			f.client.nudge()
		}
		select {
		case <-f.ready:
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		}
	}
}

// All are the events until the follow or ctx ends; an end other than Gone comes as an
// error, the last pair.
func (f *Following) All(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			e, err := f.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Close ends the follow.
func (f *Following) Close() {
	c := f.client
	c.mu.Lock()
	if c.follows[f.session] == f {
		delete(c.follows, f.session)
		if c.link != nil {
			c.over[f.session] = true
		}
	}
	c.mu.Unlock()
	c.nudge()
	f.stop(ErrClosed)
}

func (f *Following) stop(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live, f.need, f.behind = false, false, false
	if f.err == nil {
		f.err = err
	}
	f.wake()
}

// wake tells Next. The caller holds mu.
func (f *Following) wake() {
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// want asks for a follow on a new connection.
func (f *Following) want() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live, f.need, f.repairs = false, f.err == nil && !f.behind, 0
}

// push queues an event. The caller holds mu.
func (f *Following) push(e Event) bool {
	if len(f.queue) >= maxQueue {
		f.live, f.behind = false, true
		return false
	}
	f.queue = append(f.queue, e)
	f.wake()
	return true
}

// interrupt says that a link has ended.
func (f *Following) interrupt(l *link, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.link == l && f.err == nil && !f.behind {
		f.live, f.link = false, nil
		f.push(Event{Type: TypeInterrupted, Session: f.session, Body: &Interrupted{Err: err}})
	}
}

// take takes an event of a link: drops what was seen before, and asks again for what
// is missing. True means that the follow has ended with it.
func (f *Following) take(l *link, e Event) (ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.live || f.link != l {
		return false
	}
	upto := e.After // the event whose place is before this one
	if s, ok := e.Body.(*Synced); ok {
		upto = s.Head
	}
	if e.Seq > 0 {
		if e.Seq <= f.last {
			return false
		}
		upto = e.Seq - 1
	}
	if upto > f.last { // a gap
		f.live, f.need = false, true
		if f.repairs++; f.repairs > maxRepairs {
			l.end(errGaps)
			return false
		}
		l.nudge()
		return false
	}
	if !f.push(e) {
		return false
	}
	if e.Seq > 0 {
		f.last, f.repairs = e.Seq, 0
	}
	if _, gone := e.Body.(*Gone); gone {
		f.live, f.err = false, io.EOF
		return true
	}
	return false
}

// drop forgets a follow that has ended by itself.
func (c *Client) drop(f *Following) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.follows[f.session] == f {
		delete(c.follows, f.session)
	}
}

// followed takes the answer to a follow; the events come behind it.
func (f *Following) followed(l *link, frame *frameIn, err error) {
	if err != nil { // the connection has ended; the next one follows again
		return
	}
	if frame.Error != nil {
		refused := refusedBy(frame.Error)
		if !refused.Retryable {
			f.stop(refused)
			f.client.drop(f)
			return
		}
		f.mu.Lock()
		f.need = f.err == nil
		wait := max(refused.RetryAfter, pace.Jitter(f.client.options.LeastPause, f.client.options.MostPause, f.repairs))
		f.repairs++
		f.mu.Unlock()
		time.AfterFunc(wait, l.nudge)
		return
	}
	body := &Followed{}
	if err := json.Unmarshal(frame.Data, body); err != nil {
		l.end(err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil || f.need || f.behind { // a newer follow is on its way
		return
	}
	body.Again = f.began
	if !body.Resumed {
		f.last = max(body.First, 1) - 1
	}
	f.began, f.log, f.link, f.live = true, body.Log, l, true
	f.push(Event{Type: TypeFollowed, Session: f.session, After: f.last, Body: body})
}

// nudge makes the present link look for what is to be sent.
func (c *Client) nudge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil {
		c.link.nudge()
	}
}

// keepFollowing sends the follows and watches of a link, as long as it lasts.
func (c *Client) keepFollowing(l *link) {
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.kick:
		}
		for {
			send := c.nextFollow(l)
			if send == nil {
				break
			}
			if pace.Wait(l.ctx, l.pace.Take(time.Now())) != nil || send() != nil {
				return
			}
		}
	}
}

// nextFollow is the next command that is due; nil if none is.
func (c *Client) nextFollow(l *link) func() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for session := range c.over {
		delete(c.over, session)
		return func() error {
			_, err := l.command("unfollow", session, nil, c.options.Answer, func(*frameIn, error) {})
			return err
		}
	}
	for _, w := range c.watches {
		if w.need {
			w.need = false
			return func() error { return w.send(l) }
		}
	}
	for _, f := range c.follows {
		if f.due() {
			return func() error { return f.send(l) }
		}
	}
	return nil
}

// due says whether the follow is to be sent, once.
func (f *Following) due() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	needed := f.need
	f.need = false
	return needed
}

func (f *Following) send(l *link) error {
	f.mu.Lock()
	data := struct {
		Since *uint64 `json:"since,omitempty"`
		Log   string  `json:"log,omitempty"`
		Tail  *int    `json:"tail,omitempty"`
	}{Log: f.log, Tail: f.from.Tail}
	if f.began || f.from.Since != nil {
		since := f.last
		data.Since = &since
	}
	f.mu.Unlock()
	_, err := l.command("follow", f.session, data, f.client.options.Answer, func(frame *frameIn, err error) { f.followed(l, frame, err) })
	return err
}
