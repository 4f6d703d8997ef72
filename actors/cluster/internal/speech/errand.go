package speech

import "parley/actors/cluster/internal/fields"

// ErrandKind is what an Errand is for.
type ErrandKind uint64

// The numbers are those of other versions as well, and are never used again.
const (
	ErrandAsk    ErrandKind = 1 // a request to the node that runs a singleton
	ErrandCancel ErrandKind = 2 // nobody waits for the answer to it any more
	ErrandTell   ErrandKind = 3 // something for the asker, while the request is under way
	ErrandBack   ErrandKind = 4 // a request to the asker meanwhile
)

// Errand is a message about a request to a singleton.
type Errand struct {
	What ErrandKind // 1
	ID   uint64     // 2: of the request, given by the node that asks
	Name string     // 3: of the singleton
	Body []byte     // 4
}

// ErrandAnswer answers a request of an Errand.
type ErrandAnswer struct {
	Refused bool   // 1: it is not run there, and nothing was done
	Lost    bool   // 2: there is no answer, and something may have been done
	Body    []byte // 3
}

// Append adds the message to b.
func (c *Errand) Append(b []byte) []byte {
	b = fields.AppendNumber(b, 1, uint64(c.What))
	b = fields.AppendNumber(b, 2, c.ID)
	b = fields.AppendText(b, 3, c.Name)
	return fields.AppendBytes(b, 4, c.Body)
}

// Read fills the message; its body shares b's memory.
func (c *Errand) Read(b []byte) error {
	return fields.Read(b, func(field fields.Number, n uint64, v []byte) {
		switch field {
		case 1:
			c.What = ErrandKind(n)
		case 2:
			c.ID = n
		case 3:
			c.Name = string(v)
		case 4:
			c.Body = v
		}
	})
}

// Append adds the answer to b.
func (a *ErrandAnswer) Append(b []byte) []byte {
	b = fields.AppendFlag(b, 1, a.Refused)
	b = fields.AppendFlag(b, 2, a.Lost)
	return fields.AppendBytes(b, 3, a.Body)
}

// Read fills the answer; its body shares b's memory.
func (a *ErrandAnswer) Read(b []byte) error {
	return fields.Read(b, func(field fields.Number, n uint64, v []byte) {
		switch field {
		case 1:
			a.Refused = n != 0
		case 2:
			a.Lost = n != 0
		case 3:
			a.Body = v
		}
	})
}
