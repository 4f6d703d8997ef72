package relay

import (
	"errors"

	"parley/actors/cluster/internal/fields"
	"parley/conversation"
)

// kind says what a message is. The numbers are those of other versions as well, and are
// never used again.
type kind uint64

const (
	kindRenew     kind = 1  // to an owner: these sessions are followed here
	kindRenewed   kind = 2  // from an owner: what the asker does not know of them
	kindDrop      kind = 3  // to an owner: these sessions are not followed any more
	kindEvents    kind = 4  // from an owner, and so on
	kindEphemeral kind = 5  //
	kindStored    kind = 6  //
	kindAudience  kind = 7  //
	kindGone      kind = 8  //
	kindTyping    kind = 9  // to an owner, and from it to the others
	kindView      kind = 10 // to an owner
	kindViewed    kind = 11 // from an owner
)

// message is what one node tells another about followed sessions. Its fields are a protobuf
// message: a field that an older node does not know is left out by it.
type message struct {
	kind    kind                    // 1
	key     conversation.SessionKey // 2 tenant, 3 session
	epoch   conversation.Epoch      // 4
	seq     conversation.Seq        // 5: the event that it comes after, or the head
	body    []byte                  // 6
	user    conversation.UserID     // 7
	on      bool                    // 8
	text    string                  // 9: why a session is gone
	id      uint64                  // 10: of a view and its answer; of a renewal and its answer
	refused []byte                  // 11: the error instead of a view
	passed  bool                    // 12: by the owner; it goes no further
	entries []entry                 // 13
}

// entry is one session of a renewal.
type entry struct {
	key   conversation.SessionKey // 1 tenant, 2 session
	epoch conversation.Epoch      // 3
	head  conversation.Seq        // 4: the last event that the sender knows of
	state state                   // 5, in an answer
	at    conversation.Member     // 6 node, 7 incarnation: whose it is, with stateElsewhere
}

var errTooMany = errors.New("a message between nodes names too many sessions")

// state is what an owner says of a session that another node follows.
type state uint64

const (
	stateBehind    state = 1 // there is more than the asker knows of
	stateNew       state = 2 // the asker is noted from now on
	stateElsewhere state = 3 // it is not this node's; the asker is not noted
)

func (m *message) append(b []byte) []byte {
	b = fields.AppendNumber(b, 1, uint64(m.kind))
	b = fields.AppendText(b, 2, m.key.Tenant)
	b = fields.AppendText(b, 3, m.key.Session)
	b = fields.AppendNumber(b, 4, uint64(m.epoch))
	b = fields.AppendNumber(b, 5, uint64(m.seq))
	b = fields.AppendBytes(b, 6, m.body)
	b = fields.AppendText(b, 7, m.user)
	b = fields.AppendFlag(b, 8, m.on)
	b = fields.AppendText(b, 9, m.text)
	b = fields.AppendNumber(b, 10, m.id)
	b = fields.AppendBytes(b, 11, m.refused)
	b = fields.AppendFlag(b, 12, m.passed)
	var scratch []byte
	for i := range m.entries {
		scratch = m.entries[i].append(scratch[:0])
		b = fields.AppendBytes(b, 13, scratch)
	}
	return b
}

// read fills a message; its body shares b's memory.
func (m *message) read(b []byte) error {
	var broken error
	err := fields.Read(b, func(field fields.Number, n uint64, v []byte) {
		switch field {
		case 1:
			m.kind = kind(n)
		case 2:
			m.key.Tenant = conversation.TenantID(v)
		case 3:
			m.key.Session = conversation.SessionID(v)
		case 4:
			m.epoch = conversation.Epoch(n)
		case 5:
			m.seq = conversation.Seq(n)
		case 6:
			m.body = v
		case 7:
			m.user = conversation.UserID(v)
		case 8:
			m.on = n != 0
		case 9:
			m.text = string(v)
		case 10:
			m.id = n
		case 11:
			m.refused = v
		case 12:
			m.passed = n != 0
		case 13:
			var e entry
			if err := e.read(v); err != nil {
				broken = err
			}
			if len(m.entries) == maxRenew {
				broken = errTooMany
				return
			}
			m.entries = append(m.entries, e)
		}
	})
	if err == nil {
		err = broken
	}
	return err
}

func (e *entry) append(b []byte) []byte {
	b = fields.AppendText(b, 1, e.key.Tenant)
	b = fields.AppendText(b, 2, e.key.Session)
	b = fields.AppendNumber(b, 3, uint64(e.epoch))
	b = fields.AppendNumber(b, 4, uint64(e.head))
	b = fields.AppendNumber(b, 5, uint64(e.state))
	b = fields.AppendText(b, 6, e.at.Node)
	return fields.AppendNumber(b, 7, uint64(e.at.Incarnation))
}

func (e *entry) read(b []byte) error {
	return fields.Read(b, func(field fields.Number, n uint64, v []byte) {
		switch field {
		case 1:
			e.key.Tenant = conversation.TenantID(v)
		case 2:
			e.key.Session = conversation.SessionID(v)
		case 3:
			e.epoch = conversation.Epoch(n)
		case 4:
			e.head = conversation.Seq(n)
		case 5:
			e.state = state(n)
		case 6:
			e.at.Node = conversation.NodeID(v)
		case 7:
			e.at.Incarnation = conversation.Incarnation(n)
		}
	})
}
