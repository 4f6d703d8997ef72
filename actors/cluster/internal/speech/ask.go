package speech

import (
	"parley/actors/cluster/internal/fields"
	"parley/conversation"
)

// What is asked of a session.
type What uint64

// The numbers are those of other versions as well, and are never used again.
const (
	Tell   What = 1
	Create What = 2
	View   What = 3
	Erase  What = 4
)

// Ask is a request to the node of a session.
type Ask struct {
	What    What                    // 1
	Key     conversation.SessionKey // 2 tenant, 3 session
	As      conversation.UserID     // 4
	Told    bool                    // 5: the store has told another node that the session is there
	Command []byte                  // 6
	Round   uint64                  // 7, and 8: the place among what the node asks of the session
	Index   uint64
}

// Answer is what became of an Ask.
type Answer struct {
	Moved   bool                   // 1: the session is not there, or not any more; nothing is known of the command
	At      conversation.Member    // 2 node, 3 incarnation: with Moved, who has it; zero = not known
	Error   []byte                 // 4
	Body    []byte                 // 5: the receipt or view
	Session conversation.SessionID // 6: of a Create: the session's id
	Created bool                   // 7
	Owns    bool                   // 8, with Moved: the store says that At has it
}

// Append adds the request to b.
func (a *Ask) Append(b []byte) []byte {
	b = fields.AppendNumber(b, 1, uint64(a.What))
	b = fields.AppendText(b, 2, a.Key.Tenant)
	b = fields.AppendText(b, 3, a.Key.Session)
	b = fields.AppendText(b, 4, a.As)
	b = fields.AppendBytes(b, 6, a.Command)
	return AppendTurn(b, a.Round, a.Index, a.Told)
}

// AppendTurn adds to a request what is another each time that it is sent.
func AppendTurn(b []byte, round, index uint64, told bool) []byte {
	b = fields.AppendFlag(b, 5, told)
	b = fields.AppendNumber(b, 7, round)
	return fields.AppendNumber(b, 8, index)
}

// Read fills the request; its command shares b's memory.
func (a *Ask) Read(b []byte) error {
	return fields.Read(b, func(field fields.Number, n uint64, v []byte) {
		switch field {
		case 1:
			a.What = What(n)
		case 2:
			a.Key.Tenant = conversation.TenantID(v)
		case 3:
			a.Key.Session = conversation.SessionID(v)
		case 4:
			a.As = conversation.UserID(v)
		case 5:
			a.Told = n != 0
		case 6:
			a.Command = v
		case 7:
			a.Round = n
		case 8:
			a.Index = n
		}
	})
}

// Append adds the answer to b.
func (a *Answer) Append(b []byte) []byte {
	b = fields.AppendFlag(b, 1, a.Moved)
	b = fields.AppendText(b, 2, a.At.Node)
	b = fields.AppendNumber(b, 3, uint64(a.At.Incarnation))
	b = fields.AppendBytes(b, 4, a.Error)
	b = fields.AppendBytes(b, 5, a.Body)
	b = fields.AppendText(b, 6, a.Session)
	b = fields.AppendFlag(b, 7, a.Created)
	return fields.AppendFlag(b, 8, a.Owns)
}

// Read fills the answer; what is encoded in it shares b's memory.
func (a *Answer) Read(b []byte) error {
	return fields.Read(b, func(field fields.Number, n uint64, v []byte) {
		switch field {
		case 1:
			a.Moved = n != 0
		case 2:
			a.At.Node = conversation.NodeID(v)
		case 3:
			a.At.Incarnation = conversation.Incarnation(n)
		case 4:
			a.Error = v
		case 5:
			a.Body = v
		case 6:
			a.Session = conversation.SessionID(v)
		case 7:
			a.Created = n != 0
		case 8:
			a.Owns = n != 0
		}
	})
}
