package fanout

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"parley/conversation"
	"parley/gateway/protocol"
)

// Options say what to follow, and how.
type Options struct {
	Key    conversation.SessionKey
	As     conversation.UserID // the session must be visible to this user
	Redact bool                // frames without arguments and results of tools; values are never redacted
	Drafts bool                // show text while it streams (Delta, DraftDropped)
	HTML   bool                // the HTML of each part behind it; for takers of frames only
	Values bool                // deliver events as values also; see Next

	// For Subscribe only.

	Since   conversation.Seq // begin after this event; 0 = at the first one
	FromNow bool             // begin after the last stored event; Since is ignored

	// Begin says where to begin, and with what, when the state is known; Since and FromNow
	// are ignored. It must not block. nil = those.
	Begin func(v conversation.View) Start
}

// phase says how a subscription gets its events.
type phase uint8

const (
	phaseWaiting phase = iota // in the hub already, but where it begins is not known yet
	phaseReplay               // the taker reads from the log
	phaseLive                 // what is published goes straight into the queue
	phaseEnded                // closed, replaced or erased
)

// Subscription is one client's view of one session: a cursor that only moves
// forward, one event at a time. Its events come either from the hub (live) or
// from the log, read by the taker of its queue (replay); the change from one to
// the other happens under the queue's lock, when the cursor has reached all that
// was published. So there is never a gap and never an overlap.
//
// The log is read only up to what the hub has published. The answer to a command
// is queued before its events are published, so it is always written first.
type Subscription struct {
	queue  *Queue
	key    conversation.SessionKey
	as     conversation.UserID
	redact atomic.Bool // changed under the lock of the hub's shard and queue.mu
	values bool
	html   bool

	// guarded by queue.mu

	phase   phase
	cursor  conversation.Seq // the last event that was queued
	until   conversation.Seq // the last event that is known to be published
	head    conversation.Seq // synced is shown when the cursor comes here
	synced  bool             // it was shown
	drafts  drafts
	refused bool // while it waits: its user may not read the session any more
	level   bool // it has once been where the session was
	begun   time.Time
	from    conversation.Seq
}

// NewSubscription prepares a subscription whose events go into q. It follows
// nothing until Follow is called.
func (q *Queue) NewSubscription(o Options) *Subscription {
	s := &Subscription{queue: q, key: o.Key, as: o.As, drafts: drafts{wanted: o.Drafts}, values: o.Values,
		html: o.HTML && !o.Values && q.hub.renderer != nil, begun: time.Now()}
	s.redact.Store(o.Redact)
	return s
}

// Key is the session that is followed.
func (s *Subscription) Key() conversation.SessionKey { return s.key }

// As is the user to whom the session is shown.
func (s *Subscription) As() conversation.UserID { return s.as }

// SetRedact changes whether frames are without arguments and results of tools: those
// that are queued after it has returned. What is queued already stays.
func (s *Subscription) SetRedact(redact bool) {
	shard := s.queue.hub.shard(s.key)
	shard.mu.Lock() // nothing is being published
	defer shard.mu.Unlock()
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.redact.Store(redact)
}

// End ends the subscription and tells its client why.
func (s *Subscription) End(reason string) {
	s.queue.hub.remove(s)
	s.gone(reason)
}

// Start says where a subscription begins, and with what.
type Start struct {
	Since   conversation.Seq        // the first event shown is the one after it
	Answer  func(dst []byte) []byte // appends the payload of a frame that comes first; nil = none
	Replace *Subscription           // ends with the answer; nil = none
}

// Follow adds the subscription to the hub and asks for the session's state; begin
// is called once with the answer, on a goroutine of the engine or before Follow
// returns, and must not block. It says where to begin; its error closes the
// subscription.
//
// The subscription is in the hub before the state is asked for, so nothing can
// happen unseen in between: what is published meanwhile only raises the mark up
// to which the log will be read. A user who may not read the session any more when the
// state comes does not get it.
func (s *Subscription) Follow(begin func(v conversation.View, err error) (Start, error)) {
	s.queue.hub.add(s)
	s.view(func(v conversation.View, err error) {
		if err == nil && s.isRefused() {
			v, err = conversation.View{}, errUnseen
		}
		start, err := begin(v, err)
		if err != nil {
			s.Close()
			return
		}
		live := s.start(start, v)
		if start.Replace != nil {
			start.Replace.Close()
		}
		if !live && s.Ended() {
			s.Close()
		}
		if live {
			s.showDrafts(v)
		}
	})
}

// start queues the answer and starts the replay. live is true when there is
// nothing to replay.
func (s *Subscription) start(start Start, v conversation.View) (live bool) {
	q := s.queue
	var answer *[]byte
	if start.Answer != nil {
		answer = protocol.GetBuffer()
		*answer = protocol.AppendFrame((*answer)[:0], protocol.OpText, start.Answer)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if start.Replace != nil && s.phase == phaseWaiting {
		start.Replace.end()
	}
	if answer != nil {
		q.push(frameBatch{data: *answer, frames: 1, pooled: answer})
	}
	if s.phase != phaseWaiting { // closed before it began: the command is answered all the same
		return false
	}
	s.cursor, s.from, s.head = start.Since, start.Since, v.Head
	if s.refused { // since begin was called
		s.tellGone(ReasonForbidden)
		return false
	}
	s.until = max(s.until, v.Head)
	s.drafts.missed = s.drafts.missed || len(v.Drafts) > 0
	if s.goLive() {
		return true
	}
	s.phase = phaseReplay
	q.replays = append(q.replays, s)
	q.wakeTaker()
	return false
}

// Close ends the subscription in every state. Frames that it has queued stay queued.
// Idempotent.
func (s *Subscription) Close() {
	s.queue.hub.remove(s)
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.end()
	s.queue.wakeTaker()
}

// end ends the subscription. The caller holds queue.mu.
func (s *Subscription) end() {
	s.phase = phaseEnded
	s.cancelReplay()
}

// Ended is true when the subscription was closed, replaced or its session erased.
func (s *Subscription) Ended() bool {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return s.phase == phaseEnded
}

// position is the last event that was queued, the last one that is known to be
// published, and whether the subscription has begun and not ended.
func (s *Subscription) position() (cursor, until conversation.Seq, following bool) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return s.cursor, s.until, s.phase == phaseLive || s.phase == phaseReplay
}

// publish takes a batch of durable events; frames are their bytes, and html is what
// their parts become, for who wants it.
func (s *Subscription) publish(events []conversation.Event, frames []byte, html []rendering) {
	first, last := events[0].Seq, events[len(events)-1].Seq
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	s.until = max(s.until, last)
	switch {
	case s.phase == phaseReplay:
		s.requestReplay()
	case s.phase != phaseLive || last <= s.cursor:
	case first != s.cursor+1: // events that never came: the log has them
		s.fallBehind()
	default:
		if !q.roomFor(len(events), len(frames)) {
			q.hub.metrics.LagDetaches.Inc()
			s.fallBehind()
			return
		}
		if len(html) > 0 {
			s.pushRendered(len(events), frames, html)
		} else {
			q.push(frameBatch{data: frames, frames: len(events), value: s.eventsValue(events)})
		}
		s.cursor = last
		if s.drafts.wanted {
			s.drafts.hear(events)
		}
		if s.drafts.missed && !s.drafts.asked { // deltas came before their event
			s.fallBehind()
		}
	}
}

// stored has the rest of the log up to head read, which was never published.
func (s *Subscription) stored(head conversation.Seq) {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if head <= s.until {
		return
	}
	s.until = head
	switch {
	case s.phase == phaseReplay:
		s.requestReplay()
	case s.phase == phaseLive && head > s.cursor:
		s.fallBehind()
	}
}

// requestReplay has the taker read the log again for a subscription that waits for
// more of it. The caller holds queue.mu.
func (s *Subscription) requestReplay() {
	if q := s.queue; !slices.Contains(q.replays, s) {
		q.replays = append(q.replays, s)
		q.wakeTaker()
	}
}

// fallBehind goes on from the log. The caller holds queue.mu.
func (s *Subscription) fallBehind() {
	s.phase = phaseReplay
	s.drafts.missed, s.drafts.asked, s.drafts.waiting = true, false, nil
	s.queue.replays = append(s.queue.replays, s)
	s.queue.wakeTaker()
}

// cancelReplay takes the subscription out of those that the taker reads for. The
// caller holds queue.mu.
func (s *Subscription) cancelReplay() {
	if i := slices.Index(s.queue.replays, s); i >= 0 {
		s.queue.replays = slices.Delete(s.queue.replays, i, i+1)
	}
}

// goLive ends the reading from the log if there is nothing left to read. The
// caller holds queue.mu and has taken the subscription out of queue.replays.
func (s *Subscription) goLive() bool {
	if !s.synced && s.cursor >= s.head {
		s.synced = true
		buf := protocol.GetBuffer()
		*buf = protocol.AppendFrame((*buf)[:0], protocol.OpText, func(b []byte) []byte { return protocol.AppendSynced(b, s.key.Session, s.head) })
		s.queue.push(frameBatch{data: *buf, frames: 1, pooled: buf, value: s.otherValue(value{synced: true})})
	}
	if s.synced && s.cursor >= s.until {
		s.phase = phaseLive
		s.resumed()
		s.drafts.asked = s.drafts.wanted && s.drafts.missed
		s.drafts.missed = s.drafts.asked
		return true
	}
	return false
}

// resumed counts how far behind the follower was, the first time that it is no more.
func (s *Subscription) resumed() {
	if !s.level {
		s.level = true
		s.queue.hub.metrics.ResumeEvents.Observe(float64(s.cursor - s.from))
		s.queue.hub.metrics.ResumeSeconds.Observe(time.Since(s.begun).Seconds())
	}
}

// gone shows that there is nothing to follow any more and ends the subscription.
func (s *Subscription) gone(reason string) {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	// Before the begin a client is not shown anything; Next must tell it all the same.
	if s.phase == phaseLive || s.phase == phaseReplay || s.phase == phaseWaiting && s.values {
		s.tellGone(reason)
	}
	s.end()
	q.wakeTaker()
}

// tellGone shows that nothing follows, and why, and ends the subscription. The caller
// holds queue.mu.
func (s *Subscription) tellGone(reason string) {
	q := s.queue
	frame := protocol.TextFrame(func(b []byte) []byte { return protocol.AppendGone(b, s.key.Session, s.cursor, reason) })
	q.push(frameBatch{data: frame, frames: 1, value: s.otherValue(value{gone: true, reason: reason})})
	s.end()
	q.wakeTaker()
}

// ReasonForbidden is why a feed ends whose user may not read the session any more.
const ReasonForbidden = "forbidden"

// errUnseen answers for a session that a user may not see.
var errUnseen = conversation.Errorf(conversation.NotFound, "there is no such session")

// admit ends the subscription, and tells its client, if its user may not read the session
// any more. Of one that still waits for its beginning it keeps the last word.
func (s *Subscription) admit(may bool) (ended bool) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	switch {
	case s.phase == phaseWaiting:
		s.refused = !may
	case !may && s.phase != phaseEnded:
		s.tellGone(ReasonForbidden)
		return true
	}
	return false
}

func (s *Subscription) isRefused() bool {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return s.refused
}

// wants is false for drafts that the client did not ask for.
func (s *Subscription) wants(e conversation.Ephemeral) bool {
	return s.drafts.wanted || !ofDraft(e)
}

func ofDraft(e conversation.Ephemeral) bool {
	switch e.(type) {
	case conversation.Delta, conversation.DraftDropped:
		return true
	default:
		return false
	}
}

// show takes an ephemeral frame: of e, or of typing. It is dropped when the event
// that it came after has not been queued yet, and when the client is slow.
func (s *Subscription) show(after conversation.Seq, e conversation.Ephemeral, typing *Typing, frame []byte) {
	if !s.wants(e) {
		return
	}
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.phase != phaseLive || after > s.cursor || (s.drafts.asked && ofDraft(e)) {
		if ofDraft(e) {
			s.drafts.pass(e)
		}
		return
	}
	delta, isDelta := e.(conversation.Delta)
	if isDelta && s.drafts.late(delta.Draft) {
		return
	}
	if isDelta && q.halfFull() && s.merge(after, delta) {
		q.hub.metrics.DeltasMerged.Inc()
		return
	}
	if !q.roomFor(1, len(frame)) || (q.halfFull() && !ofDraft(e)) {
		q.hub.metrics.EphemeralDrops.Inc()
		if ofDraft(e) { // the whole text is shown when there is room
			s.fallBehind()
		}
		return
	}
	b := frameBatch{data: frame, frames: 1}
	if isDelta || s.values { // a delta may be merged with the next one
		b.value = &value{of: s, after: after, ephemeral: e, typing: typing}
	}
	if isDelta {
		s.drafts.waits(b.value, delta.Draft)
	}
	q.push(b)
}

// Typing shows to all other followers of the session that a user types, or has
// stopped. Before the subscription has begun it shows nothing: that the user may
// see the session is not proved yet.
func (s *Subscription) Typing(user conversation.UserID, on bool) {
	if _, after, following := s.position(); following {
		s.queue.hub.typing(s.key, s.queue, after, user, on)
		if up := s.queue.hub.upstream; up != nil {
			up.Typing(s.key, after, user, on)
		}
	}
}

// Subscribe follows one session, with a queue of its own, and returns the session's
// state when it is known where the subscription begins. It fails with the
// engine's error when o.As may not see the session, with a conflict when o.Since
// is beyond the log's end (then the log is another one than the client knew),
// and with the context's error when ctx ends first; ctx ends nothing else.
func (h *Hub) Subscribe(ctx context.Context, source Source, l protocol.Limits, o Options) (*Subscription, conversation.View, error) {
	type begun struct {
		view conversation.View
		err  error
	}
	s := h.NewQueue(source, l).NewSubscription(o)
	answer := make(chan begun, 1)
	s.Follow(func(v conversation.View, err error) (Start, error) {
		start := Start{Since: o.Since}
		switch {
		case err != nil:
		case o.Begin != nil:
			start = o.Begin(v)
		case o.FromNow:
			start.Since = v.Head
		case o.Since > v.Head:
			err = conversation.Errorf(conversation.Conflict, "since is beyond the log's head, %d: the log is another one", v.Head)
		}
		answer <- begun{v, err}
		return start, err
	})
	select {
	case b := <-answer:
		if b.err != nil {
			s.Close()
			return nil, conversation.View{}, b.err
		}
		return s, b.view, nil
	case <-ctx.Done():
		s.Close()
		return nil, conversation.View{}, ctx.Err()
	}
}

// Queue returns the queue of the subscription's frames.
func (s *Subscription) Queue() *Queue { return s.queue }
