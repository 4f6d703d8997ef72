package cluster

import (
	"context"
	"time"

	"parley/actors/cluster/internal/lanes"
	"parley/actors/cluster/internal/link"
	"parley/actors/cluster/internal/speech"
	"parley/conversation"
	"parley/conversation/member"
	"parley/conversation/wire"
)

// The topics of messages between nodes. The numbers are those of other versions as well,
// and are never used again.
const (
	topicNudge   link.Topic = 1 // the list of members has changed
	topicSession link.Topic = 2 // a request to a session
	topicDue     link.Topic = 3 // a session with open work was given up for the node that is told
	topicOffer   link.Topic = 4 // what can be claimed in a session
	topicFollow  link.Topic = 5 // about sessions that are followed
	topicGiven   link.Topic = 6 // a singleton was given up that belongs to the node that is told
	topicAsk     link.Topic = 7 // about requests to a singleton
	topicHello   link.Topic = 8 // is this way open, and the other one back?
	topicList    link.Topic = 9 // what has changed in lists of sessions
)

type answer = speech.Answer

// carrier brings messages to other nodes; see link.Link.
type carrier interface {
	Peers(all []member.Peer)
	Send(to conversation.Member, t link.Topic, body []byte) bool
	Request(to conversation.Member, t link.Topic, body []byte, wait time.Duration, done func([]byte, error))
	Close()
}

// alone is the carrier of a node without cluster.listen, which has no others.
type alone struct{}

func (alone) Peers([]member.Peer)                               {}
func (alone) Send(conversation.Member, link.Topic, []byte) bool { return false }
func (alone) Close()                                            {}
func (alone) Request(_ conversation.Member, _ link.Topic, _ []byte, _ time.Duration, done func([]byte, error)) {
	done(nil, link.ErrNotTaken)
}

// handlers are who takes what comes from other nodes.
func (n *Node) handlers() map[link.Topic]link.Handler {
	return map[link.Topic]link.Handler{
		topicNudge:   func(conversation.Member, []byte, func([]byte)) { n.loop.Nudge() },
		topicSession: n.asked,
		topicOffer:   n.offered,
		topicFollow:  n.follows,
		topicList:    n.hinted,
		topicAsk:     func(from conversation.Member, body []byte, reply func([]byte)) { n.asking.Receive(from, body, reply) },
		topicHello:   n.greeted,
		topicGiven:   func(conversation.Member, []byte, func([]byte)) { n.keeper.Changed() },
		topicDue:     func(conversation.Member, []byte, func([]byte)) { n.scan() },
	}
}

// HandedOver lets the new owner of a session that was given up with open work go on with it.
func (n *Node) HandedOver(key conversation.SessionKey) {
	key.Session = key.Session.Root()
	if owner, here := n.places.Local(key); !here {
		n.link.Send(owner, topicDue, nil)
	}
}

// scan looks for work in sessions that have become this node's.
func (n *Node) scan() {
	if e := n.engine.Load(); e != nil {
		(*e).ScanNow()
	}
}

// nudgeAll lets all others look at the list.
func (n *Node) nudgeAll() {
	for _, m := range n.Members() {
		if m.Member != n.self && !m.Dead {
			n.link.Send(m.Member, topicNudge, nil)
		}
	}
}

// ask sends a request to another node.
func (n *Node) ask(to conversation.Member, ask []byte, wait time.Duration, done func(error), read func(*answer) error) {
	began := time.Now()
	n.link.Request(to, topicSession, ask, max(wait, time.Millisecond), func(body []byte, err error) {
		if err != nil {
			done(&lanes.UnreachableError{To: to, Cause: err})
			return
		}
		n.m.Link.Observe(time.Since(began).Seconds())
		var a answer
		if err := a.Read(body); err != nil {
			done(errMoving(err))
			return
		}
		switch {
		case a.Moved && !n.loop.Holds(): // nobody has a lease: the database is away
			done(errMoving(nil))
		case a.Moved:
			done(&lanes.AwayError{At: a.At, Owns: a.Owns})
		case a.Error != nil:
			e, err := wire.DecodeError(a.Error)
			if err != nil {
				done(errMoving(err))
				return
			}
			done(e)
		case read != nil:
			if err := read(&a); err != nil { // of a newer program
				done(errMoving(err))
				return
			}
			done(nil)
		default:
			done(nil)
		}
	})
}

// asked answers a request of another node. It is never sent on: who asks is told where the
// session is, and asks there.
func (n *Node) asked(from conversation.Member, body []byte, reply func([]byte)) {
	var a speech.Ask
	engine := n.engine.Load()
	switch err := a.Read(body); {
	case reply == nil:
		return
	case err != nil:
		replyError(reply, errMoving(err))
		return
	case engine == nil:
		reply((&answer{Moved: true}).Append(nil))
		return
	}
	turn := lanes.Turn{Round: a.Round, Index: a.Index, Told: a.Told}
	if !n.loop.Holds() { // who asks may know of a new owner soon
		n.gate.Shut(from, a.Key, turn)
		reply((&answer{Moved: true}).Append(nil))
		return
	}
	if !n.gate.Enter(from, a.Key, turn) {
		reply((&answer{Moved: true}).Append(nil))
		return
	}
	n.serve(*engine, &a, func(ok answer, err error) {
		if away := n.away(a.Key, err); away != nil {
			n.gate.Shut(from, a.Key, turn)
			reply((&answer{Moved: true, At: away.At, Owns: away.Owns}).Append(nil))
			return
		}
		if err != nil {
			replyError(reply, err)
			return
		}
		reply(ok.Append(nil))
	})
}

// serve has this node's engine do what another node asks.
func (n *Node) serve(engine Runner, a *speech.Ask, done func(answer, error)) {
	switch a.What {
	case speech.Tell:
		c, err := wire.DecodeCommand(a.Command)
		if err != nil {
			done(answer{}, errMoving(err))
			return
		}
		tell(engine, a.Told)(a.Key, a.As, c, func(r conversation.Receipt, err error) {
			done(answer{Body: wire.AppendReceipt([]byte{}, r)}, n.forNewer(a.Key, err))
		})
	case speech.Create:
		c, err := wire.DecodeCommand(a.Command)
		create, ok := c.(conversation.Create)
		if err != nil || !ok {
			done(answer{}, errMoving(err))
			return
		}
		open(engine, a.Told)(a.Key, create, func(key conversation.SessionKey, created bool, err error) {
			done(answer{Session: key.Session, Created: created}, err)
		})
	case speech.View:
		engine.View(a.Key, a.As, func(v conversation.View, err error) {
			if err != nil {
				done(answer{}, n.forNewer(a.Key, err))
				return
			}
			done(answer{Body: wire.AppendView([]byte{}, v)}, nil)
		})
	case speech.Erase:
		if !n.goErase(func(ctx context.Context) {
			done(answer{}, erase(engine, a.Told)(ctx, a.Key, a.As))
		}) {
			done(answer{}, errMoving(nil))
		}
	default:
		done(answer{}, errMoving(nil))
	}
}

// tell is how an engine is told a command: as the owner of the session, if somebody has
// said that it is.
func tell(engine Runner, told bool) func(conversation.SessionKey, conversation.UserID, conversation.Command, func(conversation.Receipt, error)) {
	if told {
		return engine.AsOwner
	}
	return engine.Tell
}

// open is tell for a Create.
func open(engine Runner, told bool) func(conversation.SessionKey, conversation.Create, func(conversation.SessionKey, bool, error)) {
	if told {
		return engine.CreateAsOwner
	}
	return engine.Create
}

// erase is tell for an Erase.
func erase(engine Runner, told bool) func(context.Context, conversation.SessionKey, conversation.UserID) error {
	if told {
		return engine.EraseAsOwner
	}
	return engine.Erase
}

func replyError(reply func([]byte), err error) {
	reply((&answer{Error: wire.AppendError([]byte{}, conversation.AsError(err))}).Append(nil))
}

func askTell(key conversation.SessionKey, as conversation.UserID, c conversation.Command) []byte {
	return (&speech.Ask{What: speech.Tell, Key: key, As: as, Command: wire.AppendCommand(nil, c)}).Append(nil)
}

func askCreate(key conversation.SessionKey, c conversation.Create) []byte {
	return (&speech.Ask{What: speech.Create, Key: key, As: c.Owner, Command: wire.AppendCommand(nil, c)}).Append(nil)
}

func askView(key conversation.SessionKey, as conversation.UserID) []byte {
	return (&speech.Ask{What: speech.View, Key: key, As: as}).Append(nil)
}

func askErase(key conversation.SessionKey, as conversation.UserID) []byte {
	return (&speech.Ask{What: speech.Erase, Key: key, As: as}).Append(nil)
}
