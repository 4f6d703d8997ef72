package relay

import "parley/conversation"

// The answer to a command comes before the events of its commit (PROTOCOL.md, 1.5). One node's
// answers and events come in that order on the way from it. But what a node knows of a session
// may overtake an answer that is on another way: the store is ahead of its owner's answers, and so
// is the next owner of one that moves, or who hears of it and tells others. A log that the hub
// knows to go that far is read and shown. So the hub is told behind those answers.

// nobody is where things come from that are read from the store.
var nobody conversation.Member

// front tells the hub what happens in sessions, behind the answers that clients of this node
// wait for. Of what is published from the side of another member nothing is kept: it is known how
// far the log goes, and that is read.
type front struct {
	hub    Hub
	behind func(key conversation.SessionKey, from conversation.Member, then func()) bool // Options.Behind
}

// waits is true if then is called later, for answers are to come.
func (f front) waits(key conversation.SessionKey, from conversation.Member, then func()) bool {
	return f.behind != nil && f.behind(key, from, then)
}

// do does something behind the answers, mostly at once.
func (f front) do(key conversation.SessionKey, from conversation.Member, then func()) {
	if !f.waits(key, from, then) {
		then()
	}
}

// publish shows events.
func (f front) publish(from conversation.Member, key conversation.SessionKey, epoch conversation.Epoch, events []conversation.Event) {
	if !f.later(from, key, epoch, events[len(events)-1].Seq) {
		f.hub.Publish(key, epoch, events)
	}
}

// stored has shown what clients lack of a log up to head.
func (f front) stored(from conversation.Member, key conversation.SessionKey, epoch conversation.Epoch, head conversation.Seq) {
	if !f.later(from, key, epoch, head) {
		f.hub.Stored(key, epoch, head)
	}
}

// later is true if the log is shown up to head behind answers that are to come. That there is
// this writer is known at once.
func (f front) later(from conversation.Member, key conversation.SessionKey, epoch conversation.Epoch, head conversation.Seq) bool {
	if !f.waits(key, from, func() { f.hub.Stored(key, 0, head) }) {
		return false
	}
	f.hub.Stored(key, epoch, 0)
	return true
}
