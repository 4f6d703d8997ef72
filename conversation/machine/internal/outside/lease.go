package outside

import (
	"hash/fnv"
	"strconv"
	"time"

	"parley/conversation"
	"parley/conversation/machine/internal/state"
)

// stored is the part of a lease by which its end must move for that to be stored.
const stored = 3

// Grant is what a claim gets.
type Grant struct {
	Generation uint32
	Until      time.Time
	Store      bool // the hand-out is an event: it is a new one, or its end moves
}

// Give reckons the hand-out of a task to a runtime. One that was handed the task and
// gave no sign of life gets it again, with the same generation: its answer was lost.
// An error refuses the claim.
// Rule 9.11c.
func Give(l *state.Lease, to conversation.RuntimeName, now time.Time, length time.Duration) (Grant, *conversation.Error) {
	switch {
	case l == nil:
		return Grant{1, end(now, length), true}, nil
	case l.Held() && l.Runtime == to && !l.Heard:
		until, moved := Prolonged(l, now, length)
		return Grant{l.Generation, until, moved}, nil
	case l.Held():
		refusal := conversation.Errorf(conversation.Conflict, "the message is in the hands of a runtime already, with generation %d", l.Generation)
		refusal.Generation = l.Generation
		return Grant{}, refusal
	case l.NotBefore.After(now):
		return Grant{}, conversation.Errorf(conversation.Unavailable, "the message is not handed out again before %s", l.NotBefore.Format(time.RFC3339))
	default:
		return Grant{l.Generation + 1, end(now, length), true}, nil
	}
}

// end is the end of a lease of some length; zero = it has none.
func end(now time.Time, length time.Duration) time.Time {
	if length == 0 {
		return time.Time{}
	}
	return conversation.Stamp(now.Add(length))
}

// Prolonged is the end of a lease after a sign of life, and whether it moves so far
// that it is to be stored; if not, it is the stored one. A clock that was set back
// shortens no lease.
// Rule 9.11d.
func Prolonged(l *state.Lease, now time.Time, length time.Duration) (until time.Time, moved bool) {
	until = end(now, length)
	switch {
	case until.IsZero() || l.Until.IsZero():
		moved = until.IsZero() != l.Until.IsZero()
	default:
		moved = until.Sub(l.Until) >= max(length/stored, time.Millisecond)
	}
	if !moved {
		until = l.Until
	}
	return until, moved
}

// Alive is what a sign of life says, and whether it is stored: if it is the first one,
// the first "read", or moves the lease's end far enough.
// Rule 9.11d.
func Alive(l *state.Lease, message conversation.MessageID, said conversation.RuntimeState, now time.Time, length time.Duration) (status conversation.RuntimeStatus, store bool) {
	until, moved := Prolonged(l, now, length)
	status = conversation.RuntimeStatus{Message: message, Status: said, Generation: l.Generation, Runtime: l.Runtime, Until: until}
	return status, moved || !l.Heard || said == conversation.RuntimeRead && !l.Read
}

// Failed is what ends a lease without an answer.
func Failed(l *state.Lease, message conversation.MessageID, why string, permanent bool) conversation.RuntimeStatus {
	return conversation.RuntimeStatus{
		Message: message, Status: conversation.RuntimeFailed, Generation: l.Generation, Runtime: l.Runtime, Error: why, Permanent: permanent,
	}
}

// RanOut is true when a lease is over that nobody has ended.
func RanOut(l *state.Lease, now time.Time) bool {
	return l.Held() && !l.Until.IsZero() && !l.Until.After(now)
}

// Counts says whether the word of a runtime counts that names this generation; 0 = it
// names none, which is right as long as nobody has a lease.
// Rule 9.11e.
func Counts(l *state.Lease, generation uint32) *conversation.Error {
	var last uint32
	if l != nil {
		last = l.Generation
	}
	if l.Held() && generation == last || !l.Held() && generation == 0 {
		return nil
	}
	refusal := conversation.Errorf(conversation.Conflict, "the last hand-out of the message has generation %d, not %d", last, generation)
	switch {
	case generation == 0:
		refusal = conversation.Errorf(conversation.Conflict, "the message is in the hands of a runtime; a word about it names its generation, %d", last)
	case last == 0:
		refusal = conversation.Errorf(conversation.Conflict, "the message was handed out to nobody, so there is no generation %d", generation)
	case generation == last:
		refusal = conversation.Errorf(conversation.Conflict, "the lease of generation %d has ended; claim the message again", generation)
	}
	refusal.Generation = last
	return refusal
}

// Claimable is what a claim may take of an outside session: its RUNNING task, unless
// a runtime has it that is known to have it.
// Rule 9.11c.
func Claimable(st *state.State) *conversation.Claimable {
	if !st.Agent.Outside() {
		return nil
	}
	t := st.Running()
	if t == nil || t.Cancelling != nil {
		return nil
	}
	c := &conversation.Claimable{Task: t.ID(), Agent: st.Agent, Since: t.Created}
	switch l := t.Lease; {
	case l == nil:
	case l.Ended:
		c.From = l.NotBefore
	case l.Heard:
		return nil
	default:
		c.Runtime = l.Runtime
	}
	return c
}

// Jitter is the draw in [0, 1) for the pause after a hand-out that ended without an
// answer: neither a Tick nor the word of a runtime brings one. It is another one for
// each hand-out, and the same in every replay.
func Jitter(message conversation.MessageID, generation uint32) float64 {
	h := fnv.New64a()
	h.Write([]byte(string(message) + "\x00" + strconv.FormatUint(uint64(generation), 10)))
	return float64(h.Sum64()>>11) / (1 << 53)
}
