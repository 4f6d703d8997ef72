package wordblock

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"parley/conversation"
	"parley/conversation/search"
)

const (
	// format is the first byte of a block. It names how texts are folded and what their terms
	// are, too: a change of those is another format, and blocks of before are made again.
	format = 0x01
	// whole is how many terms stand between two that are written whole.
	whole = 16
	// mostTerms bounds the terms of one text. One with more is found by whatever is asked for.
	mostTerms = 2000
)

// Maker makes one block.
type Maker struct {
	places []search.Place
	any    []uint64 // texts that have too many terms
	terms  map[string][]uint64
	order  []string // the terms, once they are asked for
	size   int
}

// sorted are the terms in order.
func (m *Maker) sorted() []string {
	if len(m.order) != len(m.terms) {
		m.order = slices.Sorted(maps.Keys(m.terms))
	}
	return m.order
}

// Add takes a text at a place; the same place may come again.
func (m *Maker) Add(at search.Place, folded string) {
	n := uint64(len(m.places))
	m.places = append(m.places, at)
	left := mostTerms
	search.Terms(folded, func(term string) bool {
		if m.has(term, n) {
			return true
		}
		if left--; left < 0 {
			m.any = append(m.any, n)
			return false
		}
		m.note(term, n)
		return true
	})
}

func (m *Maker) has(term string, n uint64) bool {
	all := m.terms[term]
	return len(all) > 0 && all[len(all)-1] == n
}

func (m *Maker) note(term string, n uint64) {
	if m.terms == nil {
		m.terms = map[string][]uint64{}
	}
	m.terms[term] = append(m.terms[term], n)
	m.size++
}

// Join takes a block that was made before.
func (m *Maker) Join(v []byte) error {
	b, err := Open(v)
	if err != nil {
		return err
	}
	base := uint64(len(m.places))
	m.places = append(m.places, b.places()...)
	for _, n := range b.any() {
		m.any = append(m.any, base+n)
	}
	b.each(0, func(term []byte, of *reader) bool {
		for _, n := range of.list(b.n) {
			m.note(string(term), base+n)
		}
		return true
	})
	if b.bad {
		return errBlock
	}
	return nil
}

// Texts is how many texts there are, and Size how many terms all of them have.
func (m *Maker) Texts() int { return len(m.places) }

// Size is how many terms all texts have.
func (m *Maker) Size() int { return m.size }

// Newest is the newest place of all.
func (m *Maker) Newest() search.Place {
	newest := m.places[0]
	for _, p := range m.places {
		if newest.Behind(p) {
			newest = p
		}
	}
	return newest
}

// Bytes is the block: format, texts, places, texts with too many terms, how many terms stand
// whole, the bytes of all terms, the terms, and where each whole one is (u32).
func (m *Maker) Bytes() []byte {
	b := binary.AppendUvarint([]byte{format}, uint64(len(m.places)))
	var part []byte
	var last search.Place
	for _, p := range m.places {
		part = binary.AppendVarint(part, p.At-last.At)
		part = binary.AppendVarint(part, int64(p.Seq)-int64(last.Seq))
		last = p
	}
	b = appendPart(b, part)
	b = appendPart(b, appendList(nil, m.any))
	part = part[:0]
	var at []uint32
	before := ""
	for i, term := range m.sorted() {
		same := 0
		if i%whole == 0 {
			at = append(at, uint32(len(part)))
		} else {
			for same < min(len(before), len(term)) && before[same] == term[same] {
				same++
			}
		}
		part = append(part, byte(same))
		part = appendPart(part, []byte(term[same:]))
		part = appendPart(part, appendList(nil, m.terms[term]))
		before = term
	}
	b = binary.AppendUvarint(b, uint64(len(at)))
	b = appendPart(b, part)
	for _, n := range at {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

func appendPart(b, part []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}

func appendList(b []byte, all []uint64) []byte {
	last := uint64(0)
	for _, n := range all {
		b = binary.AppendUvarint(b, n-last)
		last = n
	}
	return b
}

var errBlock = fmt.Errorf("%w: a block of words cannot be read", conversation.ErrDamaged)
