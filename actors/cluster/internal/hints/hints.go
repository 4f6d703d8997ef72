package hints

import (
	"context"
	"slices"
	"sync"
	"time"

	"parley/actors/cluster/internal/fields"
	"parley/conversation"
)

// The times and sizes of Hints.
const (
	Gather   = 50 * time.Millisecond // what changes within it goes in one message
	Interval = 2 * time.Second       // how often the last number is said, and what could not be sent is tried again
	most     = 500                   // hints in a message
)

// Hint says whose rows of a session have changed: everyone's in its tenant, or those of Users.
type Hint struct {
	Key      conversation.SessionKey
	Everyone bool
	Users    []conversation.UserID
}

// Options are what Hints work with. None of its functions may block or call Hints, but Again.
type Options struct {
	Others func() []conversation.Member // the other nodes whose lease holds, as far as this one knows
	Send   func(to conversation.Member, body []byte) bool
	Take   func(Hint)                      // of another node
	Again  func(ctx context.Context) error // changes may have been missed
}

// Hints are one node's. Its methods may be called from any goroutine.
type Hints struct {
	o     Options
	kick  chan struct{} // something waits to be sent
	again chan struct{} // the lists must be read again

	mu  sync.Mutex
	out map[conversation.Member]*outbox
	in  map[conversation.Member]uint64 // the last number that has come
}

// outbox is what another node was told.
type outbox struct {
	last    uint64
	waiting map[conversation.SessionKey]Hint
}

// New makes them.
func New(o Options) *Hints {
	return &Hints{
		o: o, kick: make(chan struct{}, 1), again: make(chan struct{}, 1),
		out: map[conversation.Member]*outbox{}, in: map[conversation.Member]uint64{},
	}
}

// Changed tells the other nodes a hint, soon.
func (h *Hints) Changed(hint Hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	others := h.others()
	for _, box := range others {
		now := hint
		if before, waits := box.waiting[hint.Key]; waits {
			now.Everyone = hint.Everyone || before.Everyone
			now.Users = slices.Clone(before.Users)
			for _, user := range hint.Users {
				if !slices.Contains(now.Users, user) {
					now.Users = append(now.Users, user)
				}
			}
		}
		box.waiting[hint.Key] = now
	}
	if len(others) > 0 {
		wake(h.kick)
	}
}

// others are the outboxes of all others. The caller holds the lock.
func (h *Hints) others() []*outbox {
	var all []*outbox
	for _, m := range h.o.Others() {
		if h.out[m] == nil {
			h.out[m] = &outbox{waiting: map[conversation.SessionKey]Hint{}}
		}
		all = append(all, h.out[m])
	}
	return all
}

// Moved says that other nodes live than before. What those that are gone had not said is
// looked for in the store, also if nothing has come from them yet.
func (h *Hints) Moved() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.others() // who has come has an outbox from now on, so that it is missed when it goes
	living := h.o.Others()
	gone := func(m conversation.Member) bool { return !slices.Contains(living, m) }
	for m := range h.out {
		if gone(m) {
			delete(h.out, m)
			wake(h.again)
		}
	}
	for m := range h.in {
		if gone(m) {
			delete(h.in, m)
			wake(h.again)
		}
	}
}

// Receive takes a message of another node. Those of one node come one after the other.
func (h *Hints) Receive(from conversation.Member, body []byte) {
	var number uint64
	var hints []Hint
	err := fields.Read(body, func(field fields.Number, n uint64, v []byte) {
		switch field {
		case 1:
			number = n
		case 2:
			hints = append(hints, read(v))
		}
	})
	h.mu.Lock()
	last, known := h.in[from]
	h.in[from] = number
	h.mu.Unlock()
	if len(hints) > 0 {
		last++
	}
	if !known || err != nil || number != last {
		wake(h.again)
	}
	for _, hint := range hints {
		h.o.Take(hint)
	}
}

// Run sends what has changed, and reads lists again, until ctx ends.
func (h *Hints) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { h.rereads(ctx) })
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	gather := time.NewTimer(0)
	defer gather.Stop()
	for {
		select {
		case <-ctx.Done():
			h.send(false) // what it has changed at last
			return
		case <-tick.C:
			h.send(true)
			continue
		case <-h.kick:
		}
		gather.Reset(Gather)
		select {
		case <-ctx.Done():
			h.send(false)
			return
		case <-gather.C:
			h.send(false)
		}
	}
}

// rereads reads the lists again when that is wanted.
func (h *Hints) rereads(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.again:
		}
		for h.o.Again(ctx) != nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
	}
}

// send sends what waits, and says the last number to those for whom nothing does, if asked to.
// What cannot be sent goes on waiting.
func (h *Hints) send(all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.others()
	for to, box := range h.out {
		for len(box.waiting) > 0 {
			body, sent := fields.AppendNumber(nil, 1, box.last+1), make([]conversation.SessionKey, 0, most)
			for key, hint := range box.waiting {
				body = fields.AppendBytes(body, 2, hint.append(nil))
				if sent = append(sent, key); len(sent) == most {
					break
				}
			}
			if !h.o.Send(to, body) {
				break
			}
			box.last++
			for _, key := range sent {
				delete(box.waiting, key)
			}
		}
		if all && len(box.waiting) == 0 {
			h.o.Send(to, fields.AppendNumber([]byte{}, 1, box.last))
		}
	}
}

func (hint *Hint) append(b []byte) []byte {
	b = fields.AppendText(b, 1, hint.Key.Tenant)
	b = fields.AppendText(b, 2, hint.Key.Session)
	b = fields.AppendFlag(b, 3, hint.Everyone)
	for _, user := range hint.Users {
		b = fields.AppendText(b, 4, user)
	}
	return b
}

// read reads a hint as far as it can be read.
func read(b []byte) (hint Hint) {
	_ = fields.Read(b, func(field fields.Number, n uint64, v []byte) {
		switch field {
		case 1:
			hint.Key.Tenant = conversation.TenantID(v)
		case 2:
			hint.Key.Session = conversation.SessionID(v)
		case 3:
			hint.Everyone = n != 0
		case 4:
			hint.Users = append(hint.Users, conversation.UserID(v))
		}
	})
	return hint
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
