package relay

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/wire"
)

// tally is a Meter that a test can look at.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func newTally() *tally { return &tally{counts: map[string]int{}} }

func (t *tally) add(what string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[what] += n
}

func (t *tally) Follows(there, here int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts["there"], t.counts["here"] = there, here
}

func (t *tally) Renewal(outcome string) { t.add("renewal "+outcome, 1) }
func (t *tally) Gap(of string)          { t.add("gap of "+of, 1) }
func (t *tally) Dropped(reason string)  { t.add("dropped "+reason, 1) }

func (t *tally) Message(direction string, bytes int) {
	t.add(direction, 1)
	t.add(direction+" bytes", bytes)
}

// now is all that was counted, and begins anew.
func (t *tally) now() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.counts
	t.counts = map[string]int{}
	return all
}

// wants fails unless these are the counts since it was asked last.
func (t *tally) wants(test *testing.T, when string, want map[string]int) {
	test.Helper()
	if got := t.now(); !maps.Equal(got, want) {
		test.Errorf("%s: counted %v, want %v", when, got, want)
	}
}

// The counts of two nodes say the same of what crosses between them.
func TestCountsOfFollows(t *testing.T) {
	run(t, func(w *world) {
		a, b := w.nodes[0], w.nodes[1]
		s := keyOf("s")
		w.owner["s"] = "a"
		a.load(s)
		b.follow(s)
		b.follow(s)
		a.follow(s) // of the node itself
		w.pass(Interval)
		atA, atB := a.tally.now(), b.tally.now()
		if atA["in"] != atB["out"] || atA["out"] != atB["in"] || atA["in"] == 0 || atA["out"] == 0 {
			t.Errorf("messages: %v and %v", atA, atB)
		}
		if atA["in bytes"] != atB["out bytes"] || atA["out bytes"] != atB["in bytes"] || atA["in bytes"] <= atA["in"] {
			t.Errorf("bytes: %v and %v", atA, atB)
		}
		if atA["there"] != 0 || atA["here"] != 1 || atB["there"] != 1 || atB["here"] != 0 {
			t.Errorf("follows: %v and %v", atA, atB)
		}
		if atB["renewal answered"] != 2 { // with the first follower, and with time
			t.Errorf("renewals: %v", atB)
		}
		a.mu.Lock()
		a.lose = func(_ conversation.Member, m *message) bool { return m.kind == kindEphemeral }
		a.mu.Unlock()
		a.stream(s, "1.1.0", "hel")
		a.mu.Lock()
		a.lose = nil
		a.mu.Unlock()
		a.stream(s, "1.1.0", "lo")
		if n := b.tally.now()["gap of text"]; n != 1 {
			t.Errorf("%d gaps of text", n)
		}
		a.mu.Lock()
		a.over = true
		a.mu.Unlock()
		a.stream(s, "1.1.0", "late")
		if n := a.tally.now()["dropped lease"]; n != 1 {
			t.Errorf("%d dropped without a lease", n)
		}
		w.mu.Lock()
		w.dead["a"], w.owner["s"] = true, "b"
		w.mu.Unlock()
		w.changed()
		w.pass(Interval)
		if now := b.tally.now(); now["gap of events"] == 0 || now["there"] != 0 {
			t.Errorf("after the death of the owner: %v", now)
		}
		w.pass(2 * forget)
		if now := b.tally.now(); now["renewal lost"] != 0 {
			t.Errorf("renewals at nobody: %v", now)
		}
	}, "a", "b")
}

// A renewal that nobody answers is counted once, when it is given up.
func TestCountsOfLostRenewals(t *testing.T) {
	run(t, func(w *world) {
		a, b := w.nodes[0], w.nodes[1]
		s := keyOf("s")
		w.owner["s"] = "a"
		a.lose = func(_ conversation.Member, m *message) bool { return m.kind == kindRenewed }
		b.follow(s)
		w.pass(forget + Interval + time.Second)
		if n := b.tally.now()["renewal lost"]; n != 1 {
			t.Errorf("%d renewals are lost, want the first one", n)
		}
	}, "a", "b")
}

// Each reason to drop something has its count.
func TestCountsOfTheDropped(t *testing.T) {
	s := keyOf("s")
	says := func(epoch conversation.Epoch) []byte {
		e := wire.AppendEphemeral(nil, conversation.Delta{Draft: conversation.DraftID(fmt.Sprint(epoch, ".1.0")), Text: "text"})
		return (&message{kind: kindEphemeral, key: s, epoch: epoch, body: e}).append(nil)
	}
	for reason, do := range map[string]func(l *lone){
		droppedNotSent:    func(l *lone) { l.full = true; l.Typing(s, 1, "ada", true) },
		droppedUnreadable: func(l *lone) { l.Receive(l.owner, []byte{0xff}) },
		droppedStranger:   func(l *lone) { l.Receive(memberOf("c"), says(1)) },
		droppedReplaced:   func(l *lone) { l.Receive(l.owner, says(2)); l.Receive(l.owner, says(1)) },
		droppedSilent:     func(l *lone) { l.answered[l.owner] = time.Now().Add(-time.Minute); l.Receive(l.owner, says(1)) },
		droppedLease:      func(l *lone) { l.o.Holds = func() bool { return false }; l.Show(s, 1, 1, conversation.Delta{}) },
	} {
		t.Run(reason, func(t *testing.T) {
			l := alone(t)
			l.Followed(s)
			l.Receive(l.owner, (&message{kind: kindRenewed, id: l.sent[l.owner][0].id}).append(nil))
			l.tally.now()
			do(l)
			for what, n := range l.tally.now() {
				if of := "dropped " + reason; what == of && n != 1 || what != of && what != "in" && what != "in bytes" {
					t.Errorf("%s: %d", what, n)
				}
			}
		})
	}
	l := alone(t)
	l.full = true
	l.Followed(s)
	l.tally.wants(t, "a renewal that was not sent", map[string]int{"renewal not_sent": 1, "dropped not_sent": 1})
	if len(l.renewals) != 0 {
		t.Errorf("%d renewals wait for an answer", len(l.renewals))
	}
}
