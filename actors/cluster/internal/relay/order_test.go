package relay

import (
	"testing"

	"parley/conversation"
)

// open is a command that a client of a node has asked of another one; package lanes has these.
type open struct {
	to     conversation.Member
	doubt  bool // it was sent again
	client *client
	behind []func()
}

// asks has the client of a node ask something of another one.
func (n *node) asks(c *client, to *node) { n.open = &open{to: to.self, client: c} }

// behind is Options.Behind.
func (n *node) behind(_ conversation.SessionKey, from conversation.Member, then func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open == nil || n.open.to == from && !n.open.doubt {
		return false
	}
	n.open.behind = append(n.open.behind, then)
	return true
}

// answered gives the client its answer.
func (n *node) answered() {
	n.open.client.add("answered")
	n.mu.Lock()
	next := n.open.behind
	n.open = nil
	n.mu.Unlock()
	for _, then := range next {
		then()
	}
}

// PROTOCOL.md, rule 1.5: on no node comes an event before the answer to its command, by whatever
// way the node hears of it meanwhile. What is not waited for is shown at once.
func TestAnswersBeforeEvents(t *testing.T) {
	body := conversation.SessionUpdated{}
	for name, x := range map[string]struct {
		meanwhile func(w *world, a, b, c *node, s conversation.SessionKey)
		before    []string // what is shown before the answer
		then      []string // and from it on
	}{
		"the store is looked at": {func(w *world, a, b, _ *node, s conversation.SessionKey) {
			a.store(s, body)
			b.relay.lookUp(s)
		}, nil, []string{"answered", "2"}},
		"the next owner says how far the log goes": {func(w *world, a, _, c *node, s conversation.SessionKey) {
			a.store(s, body)
			w.owner["s"] = "c"
			w.changed()
			c.load(s)
		}, nil, []string{"answered", "2"}},
		"the next owner goes on": {func(w *world, a, _, c *node, s conversation.SessionKey) {
			a.store(s, body)
			w.owner["s"] = "c"
			w.changed()
			c.load(s)
			c.say(s)
			c.say(s)
		}, nil, []string{"answered", "2", "3", "4"}},
		"a renewal tells": {func(w *world, a, b, c *node, s conversation.SessionKey) {
			a.store(s, body)
			a.relay.advance(s, 1, 2)
			w.owner["s"] = "c"
			w.changed() // c is asked now
			c.load(s)
			w.pass(Interval)
		}, nil, []string{"answered", "2"}},
		"a third node tells": {func(w *world, a, b, c *node, s conversation.SessionKey) {
			a.store(s, body)
			b.relay.Receive(c.self, (&message{kind: kindStored, key: s, epoch: 1, seq: 2}).append(nil))
		}, nil, []string{"answered", "2"}},
		"the session comes to this node": {func(w *world, a, b, _ *node, s conversation.SessionKey) {
			a.store(s, body)
			b.load(s)
			b.say(s)
		}, nil, []string{"answered", "2", "3"}},
		"its owner goes on": {func(w *world, a, _, _ *node, s conversation.SessionKey) {
			a.say(s) // of somebody else: the answer would have come before it
		}, []string{"2"}, []string{"answered"}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				a, b, c := w.nodes[0], w.nodes[1], w.nodes[2]
				s := keyOf("s")
				w.owner["s"] = "a"
				a.load(s)
				a.say(s)
				client := b.follow(s)
				b.asks(client, a)
				x.meanwhile(w, a, b, c, s)
				w.pass(0)
				client.wants(t, "before the answer the client", x.before...)
				b.answered()
				w.pass(0)
				client.wants(t, "then the client", x.then...)
			}, "a", "b", "c")
		})
	}
}

// What was sent again may have been done the first time: then what the first one tells is
// before the answer, too.
func TestAnswersThatAreAskedForAgain(t *testing.T) {
	run(t, func(w *world) {
		a, b := w.nodes[0], w.nodes[1]
		s := keyOf("s")
		w.owner["s"] = "a"
		a.load(s)
		client := b.follow(s)
		b.asks(client, a)
		b.open.doubt = true
		a.say(s)
		client.wants(t, "the client")
		b.answered()
		client.wants(t, "the client", "answered", "1")
		a.say(s)
		client.wants(t, "the client", "2")
	}, "a", "b")
}

// Who follows while a command is under way begins behind its answer, if the state is read from
// the store.
func TestFollowBehindAnAnswer(t *testing.T) {
	run(t, func(w *world) {
		a, b := w.nodes[0], w.nodes[1]
		s := keyOf("s")
		w.owner["s"] = "a"
		a.load(s)
		a.say(s)
		a.mu.Lock()
		a.silent = true // it answers neither the command nor the view
		a.mu.Unlock()
		var begun client
		b.asks(&begun, a)
		a.store(s, conversation.SessionUpdated{})
		b.relay.Followed(s)
		b.relay.View(s, "ada", func(v conversation.View, err error) {
			if err != nil || v.Head != 2 {
				t.Errorf("the view is of %d, %v", v.Head, err)
			}
			begun.add("begun")
		})
		w.pass(2 * viewWait)
		begun.wants(t, "before the answer the client")
		b.answered()
		begun.wants(t, "then the client", "answered", "begun")
	}, "a", "b")
}
