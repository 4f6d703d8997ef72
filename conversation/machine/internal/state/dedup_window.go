package state

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"

	"parley/conversation"
)

// RecentMessages is how many client ids a session remembers by itself; the
// store's keys know all of them.
const RecentMessages = 256

// recent is a message by its author's id: hashes, because texts and ids of 256
// messages would cost more than everything else together.
type recent struct {
	Key     [2]uint32 // hash of (author, client id)
	Text    uint32    // hash of the text as first said
	Message uint32
	Seq     uint32 // a session of four billion events is not expected
}

// Recents are the last client ids, oldest first. They are most of an idle
// session, so they are packed: an entry says how far it is behind the one before,
// which is 13 bytes for a message that follows a message.
//
// An entry is a step byte, the key's eight bytes, the text's four. The step is how
// much seq has grown, with the message's number one more; or farStep, and then
// both differences follow as varints.
type Recents struct {
	packed []byte
	n      int
	base   place // before the first entry
	last   place // of the last entry
}

// place is where a remembered message stands.
type place struct{ Message, Seq uint32 }

const (
	farStep    = 255
	recentSize = 1 + 8 + 4
)

// next reads the entry at the start of packed, given the place of the one before.
func (p place) next(packed []byte) (r recent, size int) {
	step := packed[0]
	r.Key = [2]uint32{binary.BigEndian.Uint32(packed[1:]), binary.BigEndian.Uint32(packed[5:])}
	r.Text = binary.BigEndian.Uint32(packed[9:])
	size = recentSize
	if step != farStep {
		r.Message, r.Seq = p.Message+1, p.Seq+uint32(step)
		return r, size
	}
	message, n := binary.Varint(packed[size:])
	size += n
	seq, n := binary.Varint(packed[size:])
	size += n
	r.Message, r.Seq = p.Message+uint32(message), p.Seq+uint32(seq)
	return r, size
}

func (r recent) place() place { return place{r.Message, r.Seq} }

// Add appends an entry.
func (rs *Recents) Add(r recent) {
	if rs.n == 0 {
		rs.base = place{r.Message - 1, r.Seq}
		rs.last = rs.base
	}
	if most := recentSize + 2*binary.MaxVarintLen64; cap(rs.packed)-len(rs.packed) < most {
		// In small steps: append's would leave a third of it unused.
		rs.packed = append(slices.Grow([]byte(nil), len(rs.packed)+max(most, len(rs.packed)/8)), rs.packed...)
	}
	step := r.Seq - rs.last.Seq
	far := r.Message != rs.last.Message+1 || step >= farStep
	if far {
		step = farStep
	}
	b := append(rs.packed, byte(step))
	b = binary.BigEndian.AppendUint32(b, r.Key[0])
	b = binary.BigEndian.AppendUint32(b, r.Key[1])
	b = binary.BigEndian.AppendUint32(b, r.Text)
	if far {
		b = binary.AppendVarint(b, int64(r.Message)-int64(rs.last.Message))
		b = binary.AppendVarint(b, int64(r.Seq)-int64(rs.last.Seq))
	}
	rs.packed, rs.last = b, r.place()
	rs.n++
}

// forget drops the oldest entry.
func (rs *Recents) forget() {
	r, size := rs.base.next(rs.packed)
	rs.packed = slices.Delete(rs.packed, 0, size)
	rs.base = r.place()
	rs.n--
}

// All goes over the entries, oldest first.
func (rs *Recents) All(yield func(recent) bool) {
	at := rs.base
	for packed := rs.packed; len(packed) > 0; {
		r, size := at.next(packed)
		if !yield(r) {
			return
		}
		at, packed = r.place(), packed[size:]
	}
}

// IsZero leaves out of a snapshot what is empty.
func (rs Recents) IsZero() bool { return rs.n == 0 }

// MarshalJSON writes one string, 20 bytes an entry: it is most of a snapshot.
func (rs Recents) MarshalJSON() ([]byte, error) {
	raw := make([]byte, 0, 20*rs.n)
	for e := range rs.All {
		for _, v := range []uint32{e.Key[0], e.Key[1], e.Text, e.Message, e.Seq} {
			raw = binary.BigEndian.AppendUint32(raw, v)
		}
	}
	return json.Marshal(raw)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (rs *Recents) UnmarshalJSON(data []byte) error {
	var raw []byte
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	if len(raw)%20 != 0 {
		return fmt.Errorf("%d bytes of client ids", len(raw))
	}
	*rs = Recents{packed: make([]byte, 0, len(raw)/20*recentSize+2*binary.MaxVarintLen64)}
	for ; len(raw) > 0; raw = raw[20:] {
		at := func(i int) uint32 { return binary.BigEndian.Uint32(raw[4*i:]) }
		rs.Add(recent{Key: [2]uint32{at(0), at(1)}, Text: at(2), Message: at(3), Seq: at(4)})
	}
	return nil
}

func clientKey(author conversation.UserID, id conversation.ClientMsgID) [2]uint32 {
	h := fnv.New64a()
	h.Write([]byte(author))
	h.Write([]byte{0})
	h.Write([]byte(id))
	sum := h.Sum64()
	return [2]uint32{uint32(sum >> 32), uint32(sum)}
}

// TextKey is the fingerprint of a text by which a repetition is known.
func TextKey(text string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(text))
	return h.Sum32()
}

// remember keeps a client's id. The oldest one makes room.
func (st *State) remember(r recent) {
	if st.Recent.n >= RecentMessages {
		st.Recent.forget()
		st.Forgotten = true
	}
	st.Recent.Add(r)
}

// Recall finds a remembered client id; ok is false for one that is new, or forgotten.
func (st *State) Recall(author conversation.UserID, id conversation.ClientMsgID) (recent, bool) {
	key := clientKey(author, id)
	at := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, key[0]), key[1])
	if !bytes.Contains(st.Recent.packed, at) {
		return recent{}, false // as nearly all: a search is ten times faster than reading
	}
	for r := range st.Recent.All {
		if r.Key == key {
			return r, true
		}
	}
	return recent{}, false
}
