package lanes

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"parley/conversation"
)

// Job is something that one client asks of a session. It may be sent more than once.
type Job struct {
	// Send asks a member, the node itself among them. done is called exactly once, perhaps
	// before Send returns; an error for which Moved is true has the job sent again.
	Send func(to conversation.Member, t Turn, done func(error))
	// Done gets the last error, or nil. It must not block.
	Done  func(error)
	Bytes int // of its texts

	deadline time.Time
	again    bool

	to     conversation.Member // who was asked last; zero = nobody yet
	doubt  bool                // it was sent again: whoever was asked before may have done it
	behind []*wait             // what happens when Done has returned
}

// wait is something that comes behind the answers to jobs. Guarded by the shard's lock.
type wait struct {
	left int // so many answers
	then func()
}

// UnreachableError says that a member gave no answer: the job may have been done.
type UnreachableError struct {
	To    conversation.Member
	Cause error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no answer from the node %s: %v", e.To, e.Cause)
}

// AwayError says that the session is not where the job was sent to; nothing was done.
type AwayError struct {
	At   conversation.Member // who has it; zero = not known
	Owns bool                // the store says so, not only what a node believes of the ring
}

func (e *AwayError) Error() string {
	return fmt.Sprintf("the session is not there; it may be at %s", e.At)
}

// Moved is true for errors after which another member, or the same one a moment later, may
// do the job.
func Moved(err error) bool {
	var away *AwayError
	var unreachable *UnreachableError
	return errors.As(err, &away) || errors.As(err, &unreachable) || errors.Is(err, conversation.ErrFenced)
}

// Options are what Lanes work with.
type Options struct {
	// Owner is the member that a session belongs to, by the ring; false = nobody is there.
	Owner func(root conversation.SessionKey) (conversation.Member, bool)
	// Nobody is true when nobody has been there for so long that none is waited for; nil = never.
	Nobody   func() bool
	Timeout  time.Duration // a job is given up after this
	MaxJobs  int           // of one session that may wait or be under way
	MaxBytes int           // of their texts
	Again    func()        // a job has to be sent again; nil = nobody wants to know
}

// How long a lane waits before it asks again: the first time not at all, when it was told
// where to ask.
const (
	firstPause = 10 * time.Millisecond
	maxPause   = 500 * time.Millisecond
	shards     = 64
)

// Lanes send jobs to the members that their sessions belong to: those of one session in
// their order, also when it moves meanwhile. Its methods may be called from any goroutine.
type Lanes struct {
	o      Options
	rounds atomic.Uint64
	shards [shards]shard
}

type shard struct {
	mu     sync.Mutex
	lanes  map[conversation.SessionKey]*lane
	closed bool
}

// lane is what is under way to one session. It is there only while something is.
type lane struct {
	key     conversation.SessionKey
	queue   []*Job // to be sent, in order
	flight  []*Job // sent, in order; those that were answered for good have left
	unsaid  []*Job // sent, in order; those whose Done has returned have left
	open    int    // of flight: without an answer
	bytes   int
	sending bool                // somebody takes from the queue
	holding bool                // nothing is sent until all answers are there, and a pause is over
	to      conversation.Member // while flight is not empty
	turn    Turn                // of the next one
	hint    conversation.Member // who has it, as an answer said
	owns    bool                // hint comes from the store
	pause   time.Duration
	timer   *time.Timer
}

// New makes empty lanes.
func New(o Options) *Lanes {
	l := &Lanes{o: o}
	for i := range l.shards {
		l.shards[i].lanes = map[conversation.SessionKey]*lane{}
	}
	return l
}

func (l *Lanes) shard(key conversation.SessionKey) *shard {
	h := uint32(2166136261) // FNV-1a
	for i := range len(key.Session) {
		h = (h ^ uint32(key.Session[i])) * 16777619
	}
	return &l.shards[h%shards]
}

// Do has a job done. Jobs of one session that are begun one after the other get to it in
// that order.
func (l *Lanes) Do(key conversation.SessionKey, j *Job) {
	j.deadline = time.Now().Add(l.o.Timeout)
	s := l.shard(key)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		j.Done(errEnding())
		return
	}
	n := s.lanes[key]
	if n == nil {
		n = &lane{key: key}
		s.lanes[key] = n
	}
	if len(n.queue)+len(n.flight) >= l.o.MaxJobs || n.bytes+j.Bytes > l.o.MaxBytes && n.bytes > 0 {
		s.mu.Unlock()
		j.Done(errBusy())
		return
	}
	n.queue = append(n.queue, j)
	n.bytes += j.Bytes
	l.pump(s, n)
	s.mu.Unlock()
}

// pump sends what is in the queue, unless somebody does already. The lock is held by the
// caller; it is free while a job sends itself.
func (l *Lanes) pump(s *shard, n *lane) {
	if n.sending {
		return
	}
	n.sending = true
	for len(n.queue) > 0 && !n.holding {
		told := n.owns
		switch {
		case n.hint != conversation.Member{}:
			n.to, n.hint, n.owns = n.hint, conversation.Member{}, false
		case len(n.flight) == 0:
			to, ok := l.o.Owner(conversation.SessionKey{Tenant: n.key.Tenant, Session: n.key.Session.Root()})
			if !ok {
				n.holding = true
				continue
			}
			n.to = to
		}
		if len(n.flight) == 0 {
			n.turn = Turn{Round: l.rounds.Add(1)}
		}
		turn := n.turn
		turn.Told = told
		n.turn.Index++
		j := n.queue[0]
		n.queue = n.queue[1:]
		n.flight = append(n.flight, j)
		if j.to == (conversation.Member{}) {
			n.unsaid = append(n.unsaid, j)
		}
		j.to = n.to
		n.open++
		to := n.to
		s.mu.Unlock()
		j.Send(to, turn, func(err error) { l.answered(s, n, j, err) })
		s.mu.Lock()
	}
	n.sending = false
	l.settle(s, n)
}

// answered takes the answer to a job.
func (l *Lanes) answered(s *shard, n *lane, j *Job, err error) {
	s.mu.Lock()
	n.open--
	if Moved(err) && time.Now().Before(j.deadline) && !s.closed {
		j.again, j.doubt, n.holding = true, true, true
		if l.o.Again != nil {
			l.o.Again()
		}
		var away *AwayError
		if errors.As(err, &away) && away.At != (conversation.Member{}) && (away.Owns || !n.owns) {
			n.hint, n.owns = away.At, away.Owns
		}
		l.settle(s, n)
		s.mu.Unlock()
		return
	}
	n.flight = slices.DeleteFunc(n.flight, func(other *Job) bool { return other == j })
	n.bytes -= j.Bytes
	if err == nil {
		n.pause = 0
	}
	l.settle(s, n)
	s.mu.Unlock()
	if Moved(err) {
		err = errMoved(err)
	}
	l.say(s, n, j, err)
}

// say gives the answer to a job, and does what waited for that.
func (l *Lanes) say(s *shard, n *lane, j *Job, err error) {
	j.Done(err)
	var next []func()
	s.mu.Lock()
	n.unsaid = slices.DeleteFunc(n.unsaid, func(other *Job) bool { return other == j })
	for _, w := range j.behind {
		if w.left--; w.left == 0 {
			next = append(next, w.then)
		}
	}
	j.behind = nil
	l.leave(s, n)
	s.mu.Unlock()
	for _, then := range next {
		then()
	}
}

// Behind has then called when all that was asked of a session before is answered: for who
// knows what happened there by another way than that on which an answer may still be. What
// comes from a member comes behind its own answers: a job that was asked of that one alone
// is not waited for. false = there is nothing to wait for, and then is not called. It must
// not block.
func (l *Lanes) Behind(key conversation.SessionKey, from conversation.Member, then func()) bool {
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.lanes[key]
	if n == nil {
		return false
	}
	w := &wait{then: then}
	for _, j := range n.unsaid {
		if j.doubt || j.to != from {
			j.behind = append(j.behind, w)
			w.left++
		}
	}
	return w.left > 0
}

// settle goes on when a lane has come to rest: it is put away, or, when all answers are
// there, what has to be sent again goes before what waits.
func (l *Lanes) settle(s *shard, n *lane) {
	switch {
	case n.sending || n.open > 0 || n.timer != nil:
	case n.holding:
		n.queue, n.flight = append(n.flight, n.queue...), nil
		if s.closed {
			return
		}
		pause := n.pause
		if (n.pause == 0) && (n.hint == conversation.Member{}) {
			pause = firstPause
		}
		n.pause = min(max(2*n.pause, firstPause), maxPause)
		if pause > 0 {
			pause += rand.N(pause / 2)
		}
		n.timer = time.AfterFunc(pause, func() { l.goOn(s, n) })
	default:
		l.leave(s, n)
	}
}

// leave puts a lane away on which nothing is left. The lock is held.
func (l *Lanes) leave(s *shard, n *lane) {
	if s.lanes[n.key] == n && !n.sending && !n.holding && n.timer == nil && len(n.queue)+len(n.flight)+len(n.unsaid) == 0 {
		delete(s.lanes, n.key)
	}
}

// goOn ends a hold: what has become too old is given up, the rest is sent.
func (l *Lanes) goOn(s *shard, n *lane) {
	s.mu.Lock()
	var late []*Job
	n.timer = nil
	if s.closed {
		s.mu.Unlock()
		return
	}
	n.holding = false
	now := time.Now()
	nobody := l.nobody(n)
	n.queue = slices.DeleteFunc(n.queue, func(j *Job) bool {
		j.again = false
		if now.Before(j.deadline) && !nobody {
			return false
		}
		late = append(late, j)
		n.bytes -= j.Bytes
		return true
	})
	l.pump(s, n)
	s.mu.Unlock()
	for _, j := range late {
		if nobody {
			l.say(s, n, j, ErrNobody())
		} else {
			l.say(s, n, j, errMoved(nil))
		}
	}
}

// nobody is true when no member is there for a lane, and none is waited for.
func (l *Lanes) nobody(n *lane) bool {
	if n.hint != (conversation.Member{}) || l.o.Nobody == nil || !l.o.Nobody() {
		return false
	}
	_, there := l.o.Owner(conversation.SessionKey{Tenant: n.key.Tenant, Session: n.key.Session.Root()})
	return !there
}

// Hurry has everything that waits sent at once: sessions belong to others than before, and
// who was asked in vain may not be asked again.
func (l *Lanes) Hurry() {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for _, n := range s.lanes {
			if n.timer != nil && n.timer.Stop() { // else it goes on by itself just now
				n.pause = 0
				n.timer = time.AfterFunc(0, func() { l.goOn(s, n) })
			}
		}
		s.mu.Unlock()
	}
}

// Close gives up what waits for a session that moves; what is under way is answered as
// it is, and new jobs are refused.
func (l *Lanes) Close() {
	var given []func()
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		s.closed = true
		for _, n := range s.lanes {
			if n.timer != nil {
				n.timer.Stop()
			}
			give := func(j *Job) { given = append(given, func() { l.say(s, n, j, errEnding()) }) }
			for _, j := range n.queue {
				give(j)
			}
			n.queue = nil
			n.flight = slices.DeleteFunc(n.flight, func(j *Job) bool {
				if j.again {
					give(j)
				}
				return j.again
			})
		}
		s.mu.Unlock()
	}
	for _, give := range given {
		give()
	}
}

// refused makes a refusal after which the same may be asked again.
func refused(code conversation.Code, text string, cause error) *conversation.Error {
	err := conversation.Errorf(code, "%s", text)
	err.RetryAfter, err.Err = time.Second, cause
	return err
}

func errMoved(cause error) error {
	return refused(conversation.Unavailable, "the session is moving to another server; please try again in a moment", cause)
}

// ErrNobody refuses what only a member that runs sessions can do.
func ErrNobody() error {
	return refused(conversation.Unavailable, "no server that runs sessions is there; please try again in a moment", nil)
}

func errEnding() error {
	return refused(conversation.Unavailable, "the server is restarting; please try again in a moment", nil)
}

func errBusy() error {
	return refused(conversation.Overloaded, "too many commands wait in this session; please try again in a moment", nil)
}
