package state

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/dedup"
)

// dedupWindowSize is the number of client ids that a session remembers by itself; the
// store's keys know all of them.
const dedupWindowSize = 256

// dedupEntry is a command by its author's id: hashes, because texts and ids of 256
// messages would cost more than everything else together.
type dedupEntry struct {
	Key     [2]uint32 // hash of (author, client id)
	Text    uint32    // hash of the text as first said
	Message uint32
	Seq     uint32 // a session of four billion events is not expected
}

// dedupWindow holds the last client ids, oldest first. They are most of an idle
// session, so they are packed: an entry says how far it is behind the one before,
// which is 13 bytes for a message that follows a message.
//
// An entry is a step byte, the key's eight bytes, the text's four. The step is how
// much seq has grown, with the message's number one more; or farStep, and then
// both differences follow as varints.
type dedupWindow struct {
	packed []byte
	n      int
	base   place // before the first entry
	last   place // of the last entry
}

// place is the position of a remembered message.
type place struct{ Message, Seq uint32 }

const (
	farStep        = 255
	dedupEntrySize = 1 + 8 + 4
)

// next reads the entry at the start of packed, given the place of the one before.
func (p place) next(packed []byte) (r dedupEntry, size int) {
	step := packed[0]
	r.Key = [2]uint32{binary.BigEndian.Uint32(packed[1:]), binary.BigEndian.Uint32(packed[5:])}
	r.Text = binary.BigEndian.Uint32(packed[9:])
	size = dedupEntrySize
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

func (r dedupEntry) place() place { return place{r.Message, r.Seq} }

// Add appends an entry.
func (w *dedupWindow) add(r dedupEntry) {
	if w.n == 0 {
		w.base = place{r.Message - 1, r.Seq}
		w.last = w.base
	}
	if most := dedupEntrySize + 2*binary.MaxVarintLen64; cap(w.packed)-len(w.packed) < most {
		// In small steps: append's would leave a third of it unused.
		w.packed = append(slices.Grow([]byte(nil), len(w.packed)+max(most, len(w.packed)/8)), w.packed...)
	}
	step := r.Seq - w.last.Seq
	far := r.Message != w.last.Message+1 || step >= farStep
	if far {
		step = farStep
	}
	b := append(w.packed, byte(step))
	b = binary.BigEndian.AppendUint32(b, r.Key[0])
	b = binary.BigEndian.AppendUint32(b, r.Key[1])
	b = binary.BigEndian.AppendUint32(b, r.Text)
	if far {
		b = binary.AppendVarint(b, int64(r.Message)-int64(w.last.Message))
		b = binary.AppendVarint(b, int64(r.Seq)-int64(w.last.Seq))
	}
	w.packed, w.last = b, r.place()
	w.n++
}

// forget drops the oldest entry.
func (w *dedupWindow) forget() {
	r, size := w.base.next(w.packed)
	w.packed = slices.Delete(w.packed, 0, size)
	w.base = r.place()
	w.n--
}

// All goes over the entries, oldest first.
func (w *dedupWindow) all(yield func(dedupEntry) bool) {
	at := w.base
	for packed := w.packed; len(packed) > 0; {
		r, size := at.next(packed)
		if !yield(r) {
			return
		}
		at, packed = r.place(), packed[size:]
	}
}

// IsZero leaves out of a snapshot what is empty.
func (w dedupWindow) IsZero() bool { return w.n == 0 }

// MarshalJSON writes one string, 20 bytes an entry: it is most of a snapshot.
func (w dedupWindow) MarshalJSON() ([]byte, error) {
	raw := make([]byte, 0, 20*w.n)
	for e := range w.all {
		for _, v := range []uint32{e.Key[0], e.Key[1], e.Text, e.Message, e.Seq} {
			raw = binary.BigEndian.AppendUint32(raw, v)
		}
	}
	return json.Marshal(raw)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (w *dedupWindow) UnmarshalJSON(data []byte) error {
	var raw []byte
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	if len(raw)%20 != 0 {
		return fmt.Errorf("%d bytes of client ids", len(raw))
	}
	*w = dedupWindow{packed: make([]byte, 0, len(raw)/20*dedupEntrySize+2*binary.MaxVarintLen64)}
	for ; len(raw) > 0; raw = raw[20:] {
		at := func(i int) uint32 { return binary.BigEndian.Uint32(raw[4*i:]) }
		w.add(dedupEntry{Key: [2]uint32{at(0), at(1)}, Text: at(2), Message: at(3), Seq: at(4)})
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
func (st *State) remember(r dedupEntry) {
	if st.Recent.n >= dedupWindowSize {
		st.Recent.forget()
		st.Forgotten = true
	}
	st.Recent.add(r)
}

// Repeated finds what came before under a client's id: by the hint of the store, or
// from memory; then n is the number of the message, part or task. nil = the id is new,
// forgotten, or none.
func (st *State) Repeated(author conversation.UserID, id conversation.ClientMsgID, text string, hint *conversation.Duplicate) (before *conversation.Duplicate, n uint32) {
	if id == "" || hint != nil {
		return hint, 0
	}
	r, ok := recall(st, author, id)
	if !ok {
		return nil, 0
	}
	return &conversation.Duplicate{Seq: conversation.Seq(r.Seq), SameText: r.Text == TextKey(text)}, r.Message
}

// recall finds a remembered client id; ok is false for one that is new, or forgotten.
func recall(st *State, author conversation.UserID, id conversation.ClientMsgID) (dedupEntry, bool) {
	key := clientKey(author, id)
	at := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, key[0]), key[1])
	if !bytes.Contains(st.Recent.packed, at) {
		return dedupEntry{}, false // as nearly all: a search is ten times faster than reading
	}
	for r := range st.Recent.all {
		if r.Key == key {
			return r, true
		}
	}
	return dedupEntry{}, false
}

// KeptApart is the source of the parts from outside that belong to no message.
// Rule 9.12.
func KeptApart(source string) conversation.SourceID {
	return conversation.SourceID("ext:" + source)
}

// LookupKeys are the keys that only the store knows of: of parts that have a source, and
// of clients' ids that have been forgotten here.
func LookupKeys(st *State, c conversation.Command) []conversation.Key {
	if part, ok := c.(conversation.AddPart); ok && part.Source != "" {
		keys := []conversation.Key{{Source: KeptApart(part.Source), Part: part.Index}}
		// Where no model of ours answers, a part may belong to a message of the session.
		if st.Agent.Outside() && strings.HasSuffix(part.Source, "-"+string(st.Key.Session)) {
			keys = append(keys, conversation.Key{Source: conversation.SourceID(part.Source), Part: part.Index})
		}
		return keys
	}
	key, ok := dedup.ClientKey(c)
	if !ok || !st.Forgotten {
		return nil
	}
	if _, known := recall(st, key.Author, key.Client); known {
		return nil
	}
	return []conversation.Key{key}
}
