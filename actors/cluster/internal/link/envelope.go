package link

import (
	"parley/actors/cluster/internal/fields"
	"parley/conversation"
)

// envelope is one message between nodes. Its fields are a protobuf message, so that
// one that an older node does not know is left out by it. Numbers are never used again.
type envelope struct {
	kind   kind                // 1
	id     uint64              // 2, of a request and its answer
	from   conversation.Member // 3 node, 4 incarnation
	to     conversation.Member // 5 node, 6 incarnation
	topic  Topic               // 7
	wait   uint64              // 8, milliseconds that the asker still waits
	body   []byte              // 9
	more   bool                // 10: the body goes on in the next envelope of the same sender
	fail   string              // 11, of an answer: why there is none
	offset uint64              // 12: where in the whole body this one begins
}

// kind is what an envelope is for.
type kind uint64

const (
	kindMessage kind = 1
	kindRequest kind = 2
	kindAnswer  kind = 3
	kindProbe   kind = 4 // which of these requests are being worked on? The body is their ids
	kindGone    kind = 5 // these are not
)

func (e *envelope) append(b []byte) []byte {
	b = fields.AppendNumber(b, 1, uint64(e.kind))
	b = fields.AppendNumber(b, 2, e.id)
	b = fields.AppendText(b, 3, e.from.Node)
	b = fields.AppendNumber(b, 4, uint64(e.from.Incarnation))
	b = fields.AppendText(b, 5, e.to.Node)
	b = fields.AppendNumber(b, 6, uint64(e.to.Incarnation))
	b = fields.AppendNumber(b, 7, uint64(e.topic))
	b = fields.AppendNumber(b, 8, e.wait)
	b = fields.AppendFlag(b, 10, e.more)
	b = fields.AppendText(b, 11, e.fail)
	b = fields.AppendNumber(b, 12, e.offset)
	return fields.AppendBytes(b, 9, e.body)
}

// read fills an envelope; its body shares b's memory.
func (e *envelope) read(b []byte) error {
	return fields.Read(b, func(field fields.Number, n uint64, v []byte) {
		switch field {
		case 1:
			e.kind = kind(n)
		case 2:
			e.id = n
		case 3:
			e.from.Node = conversation.NodeID(v)
		case 4:
			e.from.Incarnation = conversation.Incarnation(n)
		case 5:
			e.to.Node = conversation.NodeID(v)
		case 6:
			e.to.Incarnation = conversation.Incarnation(n)
		case 7:
			e.topic = Topic(n)
		case 8:
			e.wait = n
		case 9:
			e.body = v
		case 10:
			e.more = n != 0
		case 11:
			e.fail = string(v)
		case 12:
			e.offset = n
		}
	})
}
