package relay

import (
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/wire"
)

// late is what a writer says that another one has replaced.
var late = wire.AppendEphemeral(nil, conversation.Delta{Draft: "1.1.0", At: 3, Text: "late"})

// A client of one node sees what happens in a session of another one as a client there does.
func TestFollowElsewhere(t *testing.T) {
	run(t, func(w *world) {
		a, b, c := w.nodes[0], w.nodes[1], w.nodes[2]
		s := keyOf("s")
		w.owner["s"] = "a"
		a.load(s)
		a.say(s)
		atA, atB, atC, alsoB := a.follow(s), b.follow(s), c.follow(s), b.follow(s)
		all := map[string]*client{"a": atA, "b": atB, "c": atC, "the other of b": alsoB}
		a.say(s)
		a.stream(s, "1.1.0", "hel")
		a.stream(s, "1.1.0", "lo")
		a.commit(s, conversation.PartialResponse{Part: conversation.Part{Draft: "1.1.0"}})
		for who, c := range all {
			c.wants(t, who, "2", "1.1.0@0:hel", "1.1.0@3:lo", "3")
		}
		atB.sub.Typing("bob", true)
		w.pass(0)
		atA.sub.Typing("ada", false)
		atA.wants(t, "a", "bob types true")
		atB.wants(t, "b", "ada types false")
		alsoB.wants(t, "the other of b", "bob types true", "ada types false")
		atC.wants(t, "c", "bob types true", "ada types false")
	}, "a", "b", "c")
}

// Who comes in the middle of an answer is shown the text so far, by the node where it is.
func TestFollowInTheMiddle(t *testing.T) {
	run(t, func(w *world) {
		a, b := w.nodes[0], w.nodes[1]
		s := keyOf("s")
		w.owner["s"] = "a"
		a.load(s)
		a.stream(s, "1.1.0", "hel")
		atB := b.follow(s)
		a.stream(s, "1.1.0", "lo")
		atB.wants(t, "b", "1.1.0=hel", "1.1.0@3:lo")
	}, "a", "b")
}

// What is lost on the way is read from the log: with the next event, or with the next renewal.
func TestLostOnTheWay(t *testing.T) {
	run(t, func(w *world) {
		a, b := w.nodes[0], w.nodes[1]
		s := keyOf("s")
		w.owner["s"] = "a"
		a.load(s)
		atB := b.follow(s)
		losing := func(k kind) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.lose = func(_ conversation.Member, m *message) bool { return m.kind == k }
		}
		losing(kindEvents)
		a.say(s)
		atB.wants(t, "b")
		losing(0)
		a.say(s)
		atB.wants(t, "b", "1", "2")

		losing(kindEvents)
		a.say(s)
		a.say(s)
		atB.wants(t, "b")
		w.pass(Interval)
		atB.wants(t, "b", "3", "4")

		losing(kindEphemeral) // the whole text comes
		a.stream(s, "1.1.0", "hel")
		losing(0)
		a.stream(s, "1.1.0", "lo")
		a.stream(s, "1.1.0", "!")
		atB.wants(t, "b", "1.1.0=hello", "1.1.0@5:!")
	}, "a", "b")
}

// Text that is lost on the way and that another client of the node is shown as a view: who was
// there already is shown the whole text as well, not only what follows.
func TestLostAndShownToAnother(t *testing.T) {
	run(t, func(w *world) {
		a, b := w.nodes[0], w.nodes[1]
		s := keyOf("s")
		w.owner["s"] = "a"
		a.load(s)
		first := b.follow(s)
		a.mu.Lock()
		a.lose = func(_ conversation.Member, m *message) bool { return m.kind == kindEphemeral }
		a.mu.Unlock()
		a.stream(s, "1.1.0", "hel")
		second := b.follow(s)
		a.mu.Lock()
		a.lose = nil
		a.mu.Unlock()
		a.stream(s, "1.1.0", "lo")
		a.stream(s, "1.1.0", "!")
		first.wants(t, "who was there", "1.1.0=hello", "1.1.0@5:!")
		second.wants(t, "who came", "1.1.0=hel", "1.1.0=hello", "1.1.0@5:!")
	}, "a", "b")
}

// A view that is read from the store, because the owner froze, does not have what streams: when the
// owner goes on, who was shown it is shown the whole text first.
func TestStoredViewOfStream(t *testing.T) {
	run(t, func(w *world) {
		a, b := w.nodes[0], w.nodes[1]
		s := keyOf("s")
		w.owner["s"] = "a"
		a.load(s)
		first := b.follow(s)
		a.stream(s, "1.1.0", "hel")
		a.mu.Lock()
		a.silent = true
		a.mu.Unlock()
		second := b.follow(s)
		a.mu.Lock()
		a.silent = false
		a.mu.Unlock()
		a.stream(s, "1.1.0", "lo")
		a.stream(s, "1.1.0", "!")
		first.wants(t, "who was there", "1.1.0@0:hel", "1.1.0=hello", "1.1.0@5:!")
		second.wants(t, "who came", "1.1.0=hello", "1.1.0@5:!")
	}, "a", "b")
}

// A request to be noted that is lost is made again; what happened meanwhile is in the log.
func TestNotNoted(t *testing.T) {
	for name, lost := range map[string]kind{"the request": kindRenew, "its answer": kindRenewed, "both the request and the view": kindView} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				a, b := w.nodes[0], w.nodes[1]
				s := keyOf("s")
				w.owner["s"] = "a"
				a.load(s)
				losing := true
				drop := func(_ conversation.Member, m *message) bool {
					return losing && (m.kind == lost || lost == kindView && m.kind == kindRenew)
				}
				a.lose, b.lose = drop, drop
				atB := b.follow(s)
				a.say(s)
				b.mu.Lock()
				a.mu.Lock()
				losing = false
				a.mu.Unlock()
				b.mu.Unlock()
				w.pass(Interval)
				w.pass(Interval)
				atB.wants(t, "b", "1")
				a.say(s)
				atB.wants(t, "b", "2")
			}, "a", "b")
		})
	}
}

// The owner dies with an event that it has stored and shown to nobody, and an answer that
// streams: the next one shows the event, and the text is dropped. What the dead one has
// said and nobody has read yet is not shown.
func TestOwnerDies(t *testing.T) {
	run(t, func(w *world) {
		a, b, c := w.nodes[0], w.nodes[1], w.nodes[2]
		s := keyOf("s")
		w.owner["s"] = "a"
		epoch := a.load(s)
		atB, atC := b.follow(s), c.follow(s)
		a.say(s)
		a.stream(s, "1.1.0", "hel")
		a.store(s, conversation.SessionUpdated{})
		atB.wants(t, "b", "1", "1.1.0@0:hel")
		atC.wants(t, "c", "1", "1.1.0@0:hel")
		w.mu.Lock()
		w.dead["a"], w.owner["s"] = true, "c"
		w.mu.Unlock()
		w.changed()
		atB.wants(t, "b", "dropped 1.1.0", "2")
		atC.wants(t, "c", "dropped 1.1.0", "2")
		b.relay.Receive(a.self, (&message{kind: kindEphemeral, key: s, epoch: epoch, seq: 2, body: late}).append(nil))
		c.load(s)
		b.relay.Receive(a.self, (&message{kind: kindEphemeral, key: s, epoch: epoch, seq: 2, body: late}).append(nil))
		c.say(s)
		c.stream(s, "2.1.0", "new")
		atB.wants(t, "b", "3", "2.1.0@0:new")
		atC.wants(t, "c", "3", "2.1.0@0:new")
		b.relay.mu.Lock()
		defer b.relay.mu.Unlock()
		if n := len(b.relay.answered); n != 1 {
			t.Errorf("%d owners are remembered", n)
		}
	}, "a", "b", "c")
}

// A session that moves streams on where it is until it is handed over.
func TestHandOver(t *testing.T) {
	run(t, func(w *world) {
		a, b, c := w.nodes[0], w.nodes[1], w.nodes[2]
		s := keyOf("s")
		w.owner["s"] = "a"
		a.load(s)
		atA, atB, atC := a.follow(s), b.follow(s), c.follow(s)
		a.stream(s, "1.1.0", "hel")
		w.mu.Lock()
		w.owner["s"] = "b"
		w.mu.Unlock()
		w.changed()
		w.pass(3 * Interval)
		a.stream(s, "1.1.0", "lo")
		for who, at := range map[string]*client{"a": atA, "b": atB, "c": atC} {
			at.wants(t, who, "1.1.0@0:hel", "1.1.0@3:lo")
		}
		a.commit(s, conversation.PartialResponse{Part: conversation.Part{Draft: "1.1.0"}})
		a.unload(s)
		b.load(s)
		b.say(s)
		w.pass(3 * Interval)
		b.say(s)
		for who, at := range map[string]*client{"a": atA, "b": atB, "c": atC} {
			at.wants(t, who, "1", "2", "3")
		}
		for _, n := range []*node{b, c} {
			n.relay.mu.Lock()
			for _, site := range n.relay.follows[s].sites {
				if site.at == a.self {
					t.Errorf("%s still looks at the node of before", n.name())
				}
			}
			n.relay.mu.Unlock()
		}
		if n := a.relay.remote.Load(); n != 0 {
			t.Errorf("%d sessions are served by the node of before", n)
		}
	}, "a", "b", "c")
}

// Who comes while a session that moves still streams where it was is shown the text by the node
// that writes it: the one whose the session is next does not have it.
func TestFollowDuringHandOver(t *testing.T) {
	run(t, func(w *world) {
		a, b, c := w.nodes[0], w.nodes[1], w.nodes[2]
		s := keyOf("s")
		w.owner["s"] = "a"
		a.load(s)
		atA, atB, atC := a.follow(s), b.follow(s), c.follow(s)
		a.stream(s, "1.1.0", "hel")
		w.mu.Lock()
		w.owner["s"] = "b"
		w.mu.Unlock()
		w.changed()
		w.pass(3 * Interval)
		nextA, nextB, nextC := a.follow(s), b.follow(s), c.follow(s)
		a.stream(s, "1.1.0", "lo")
		for who, at := range map[string]*client{"a": atA, "b": atB, "c": atC} {
			at.wants(t, who, "1.1.0@0:hel", "1.1.0@3:lo")
		}
		for who, at := range map[string]*client{"a": nextA, "b": nextB, "c": nextC} {
			at.wants(t, "the next of "+who, "1.1.0=hel", "1.1.0@3:lo")
		}
	}, "a", "b", "c")
}

// A node whose lease is over shows nothing that is not stored, to nobody; and what it has said
// before, and what arrives only after it has been silent for a lease, is not shown either.
func TestStaleOwner(t *testing.T) {
	run(t, func(w *world) {
		a, b := w.nodes[0], w.nodes[1]
		s := keyOf("s")
		w.owner["s"] = "a"
		epoch := a.load(s)
		atA, atB := a.follow(s), b.follow(s)
		a.mu.Lock()
		a.over = true
		a.mu.Unlock()
		a.stream(s, "1.1.0", "late")
		atA.wants(t, "a")
		atB.wants(t, "b")
		a.mu.Lock()
		a.lose = func(conversation.Member, *message) bool { return true }
		a.mu.Unlock()
		w.pass(6 * time.Second)
		b.relay.Receive(a.self, (&message{kind: kindEphemeral, key: s, epoch: epoch, body: late}).append(nil))
		atB.wants(t, "b")
		a.mu.Lock()
		a.lose, a.over = nil, false
		a.mu.Unlock()
		w.pass(Interval)
		a.stream(s, "1.1.0", "again")
		atB.wants(t, "b", "1.1.0=lateagain")
	}, "a", "b")
}

// An owner that does not answer holds nobody up: the state is read from the store.
func TestSilentOwner(t *testing.T) {
	run(t, func(w *world) {
		a, b := w.nodes[0], w.nodes[1]
		s := keyOf("s")
		w.owner["s"] = "a"
		a.load(s)
		a.say(s)
		a.silent = true
		began := time.Now()
		atB := b.follow(s)
		if took := time.Since(began); took != viewWait {
			t.Errorf("it took %v", took)
		}
		a.say(s)
		atB.wants(t, "b", "2")
		b.relay.mu.Lock()
		defer b.relay.mu.Unlock()
		if n := len(b.relay.asked); n > 0 {
			t.Errorf("%d views are remembered", n)
		}
	}, "a", "b")
}

// What a user may not see is refused by the owner.
func TestViewIsRefused(t *testing.T) {
	run(t, func(w *world) {
		a, b := w.nodes[0], w.nodes[1]
		w.owner["s"], w.gone[keyOf("s")] = "a", true
		a.load(keyOf("s"))
		b.follow(keyOf("s")).wants(t, "b", "refused: not_found: there is no such session")
		if n := b.relay.followed() + int(a.relay.remote.Load()); n != 0 {
			t.Errorf("%d are followed still", n)
		}
	}, "a", "b")
}

// An erased session ends for all its followers, also for those who did not hear of it.
func TestGoneElsewhere(t *testing.T) {
	for name, lost := range map[string]bool{"told": false, "not told": true} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				a, b := w.nodes[0], w.nodes[1]
				s, below := keyOf("s"), keyOf("s/d1")
				w.owner["s"] = "a"
				a.load(s)
				a.load(below)
				atB, belowB := b.follow(s), b.follow(below)
				a.lose = func(_ conversation.Member, m *message) bool { return lost && m.kind == kindGone }
				w.mu.Lock()
				w.gone[s] = true
				w.mu.Unlock()
				a.unload(s)
				a.unload(below)
				a.relay.Gone(s, "erased")
				if lost {
					w.pass(Interval)
				}
				atB.wants(t, "b", "gone: erased")
				belowB.wants(t, "b", "gone: erased")
				if n := b.relay.followed() + int(a.relay.remote.Load()); n != 0 {
					t.Errorf("%d are followed still", n)
				}
			}, "a", "b")
		})
	}
}

// Who may not read a session any more is not shown it any more, on whatever node, also if
// its owner has died before it could say so.
func TestAudienceElsewhere(t *testing.T) {
	for name, dies := range map[string]bool{"told": false, "not told": true} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				a, b := w.nodes[0], w.nodes[1]
				s, below := keyOf("s"), keyOf("s/d1")
				w.owner["s"] = "a"
				a.load(s)
				a.load(below)
				atB, belowB := b.follow(s), b.follow(below)
				w.mu.Lock()
				w.readers[s] = []conversation.UserID{"bob"}
				w.dead["a"] = dies
				if dies {
					w.owner["s"] = "c"
				}
				w.mu.Unlock()
				if dies {
					w.changed()
				} else {
					a.relay.Audience(s, 1, conversation.Summary{Key: s, Owner: "bob"})
				}
				atB.wants(t, "b", "gone: forbidden")
				belowB.wants(t, "b", "gone: forbidden")
			}, "a", "b", "c")
		})
	}
}

// Two nodes see another ring than the one that has the session: it is followed where it is
// taken to be, and what happens is shown all the same.
func TestOtherRing(t *testing.T) {
	run(t, func(w *world) {
		a, b, c := w.nodes[0], w.nodes[1], w.nodes[2]
		s := keyOf("s")
		w.owner["s"] = "a"
		c.load(s)
		atA, atB, atC := a.follow(s), b.follow(s), c.follow(s)
		c.say(s)
		for who, at := range map[string]*client{"a": atA, "b": atB, "c": atC} {
			at.wants(t, who, "1")
		}
		a.mu.Lock()
		a.ring["s"] = "c" // and now a knows it
		a.mu.Unlock()
		w.pass(Interval)
		w.pass(Interval)
		c.stream(s, "1.1.0", "text")
		c.say(s)
		for who, at := range map[string]*client{"b": atB, "c": atC} {
			at.wants(t, who, "1.1.0@0:text", "2")
		}
	}, "a", "b", "c")
}

// Nodes each of which says that another one has a session are not asked round and round.
func TestNobodyHasIt(t *testing.T) {
	run(t, func(w *world) {
		a, b, c, d := w.nodes[0], w.nodes[1], w.nodes[2], w.nodes[3]
		s := keyOf("s")
		b.ring["s"], a.ring["s"], c.ring["s"], d.ring["s"] = "a", "c", "d", "c"
		b.follow(s)
		w.pass(time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.sent > 50 {
			t.Errorf("%d messages in a second", w.sent)
		}
	}, "a", "b", "c", "d")
}

// An owner that has not yet seen the change of the ring is asked again soon.
func TestOwnerSeesTheRingLate(t *testing.T) {
	run(t, func(w *world) {
		a, b := w.nodes[0], w.nodes[1]
		s := keyOf("s")
		w.owner["s"] = "a"
		a.ring["s"] = "c"
		atB := b.follow(s)
		a.mu.Lock()
		a.ring["s"] = ""
		a.mu.Unlock()
		w.pass(askAgain)
		a.load(s)
		a.stream(s, "1.1.0", "text")
		atB.wants(t, "b", "1.1.0@0:text")
	}, "a", "b", "c")
}

// Nodes that believe in each other's rings do not pass anything round for ever.
func TestRound(t *testing.T) {
	run(t, func(w *world) {
		a, b, c := w.nodes[0], w.nodes[1], w.nodes[2]
		s := keyOf("s")
		a.ring["s"], b.ring["s"], c.ring["s"] = "b", "c", "a"
		for _, n := range w.nodes {
			n.load(s) // each has it in memory, as it believes
		}
		atA, atB, atC := a.follow(s), b.follow(s), c.follow(s)
		c.say(s) // the newest writer
		atA.sub.Typing("bob", true)
		w.pass(10 * Interval)
		atA.wants(t, "a", "1")
		atB.wants(t, "b", "1", "bob types true")
		atC.wants(t, "c", "1")
	}, "a", "b", "c")
}

// An owner forgets a node that does not renew; one that says that it follows no more at once.
func TestForget(t *testing.T) {
	run(t, func(w *world) {
		a, b := w.nodes[0], w.nodes[1]
		s := keyOf("s")
		w.owner["s"] = "a"
		a.load(s)
		atB := b.follow(s)
		if n := a.relay.remote.Load(); n != 1 {
			t.Errorf("%d sessions are served", n)
		}
		atB.sub.Close()
		w.pass(0)
		if n := a.relay.remote.Load(); n != 0 {
			t.Errorf("%d sessions are served when nobody follows", n)
		}
		b.follow(s)
		b.mu.Lock()
		b.lose = func(conversation.Member, *message) bool { return true }
		b.mu.Unlock()
		w.pass(forget)
		if n := a.relay.remote.Load(); n != 1 {
			t.Errorf("%d sessions are served before the time", n)
		}
		w.pass(2 * Interval)
		if n := a.relay.remote.Load(); n != 0 {
			t.Errorf("%d sessions are served for a node that is silent", n)
		}
	}, "a", "b")
}

// What cannot be read ends nothing.
func TestUnreadable(t *testing.T) {
	run(t, func(w *world) {
		a, b := w.nodes[0], w.nodes[1]
		s := keyOf("s")
		w.owner["s"] = "a"
		a.load(s)
		atB := b.follow(s)
		a.store(s, conversation.SessionUpdated{})
		for _, k := range []kind{kindEvents, kindEphemeral, kindAudience, kindViewed, kindRenewed, 99} {
			b.relay.Receive(a.self, (&message{kind: k, key: s, body: []byte("rubbish")}).append(nil))
		}
		b.relay.Receive(a.self, []byte(strings.Repeat("\xff", 20)))
		atB.wants(t, "b", "1")
	}, "a", "b")
}

// followed counts the sessions that clients of the node follow.
func (r *Relay) followed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.follows)
}
