package wordblock

import (
	"bytes"
	"encoding/binary"
	"strings"

	"parley/conversation"
	"parley/conversation/search"
)

// Block is a block that is read.
type Block struct {
	n             uint64 // texts
	where, manies []byte
	terms, wholes []byte
	bad           bool
}

// Open reads the front of a block, which must stay as it is.
func Open(v []byte) (*Block, error) {
	r := reader{left: v}
	if len(v) == 0 || v[0] != format {
		return nil, errBlock
	}
	r.left = v[1:]
	b := &Block{n: r.number()}
	b.where, b.manies = r.part(), r.part()
	wholes := r.number()
	b.terms, b.wholes = r.part(), r.left
	if r.bad || wholes > uint64(len(v)) || len(b.wholes) != int(wholes)*4 || b.n > uint64(len(b.where)) {
		return nil, errBlock
	}
	return b, nil
}

// Find lists the places of the texts that have, for each of some beginnings, a term with it;
// in no order, and perhaps some twice. It may find too much, and never too little.
func (b *Block) Find(beginnings []string) (all []search.Place, err error) {
	var left []bool // nil = all
	for n, beginning := range beginnings {
		some := make([]bool, b.n)
		found := b.mark(beginning, some)
		for _, i := range b.any() {
			some[i], found = true, true
		}
		if !found || b.bad {
			break
		}
		for i := range left {
			some[i] = some[i] && left[i]
		}
		if left = some; n == len(beginnings)-1 {
			for i, p := range b.places() {
				if left[i] {
					all = append(all, p)
				}
			}
		}
	}
	if b.bad {
		return nil, errBlock
	}
	return all, nil
}

// mark marks the texts that have a term with a beginning.
func (b *Block) mark(beginning string, texts []bool) (found bool) {
	lo, hi := 0, len(b.wholes)/4 // the last whole term that is not behind the beginning
	for lo < hi {
		mid := (lo + hi) / 2
		r := b.at(mid)
		r.byte()
		if string(r.part()) < beginning {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	b.each(max(lo-1, 0), func(term []byte, of *reader) bool {
		if string(term) < beginning {
			return true
		}
		if !strings.HasPrefix(string(term), beginning) {
			return false
		}
		for _, n := range of.list(b.n) {
			texts[n], found = true, true
		}
		return true
	})
	return found
}

// each shows the terms from a whole one on, until see says no.
func (b *Block) each(from int, see func(term []byte, of *reader) bool) {
	if len(b.wholes) == 0 {
		return
	}
	r := b.at(from)
	var term []byte
	for len(r.left) > 0 && !r.bad {
		same := int(r.byte())
		rest, of := r.part(), r.part()
		if r.bad || same > len(term) {
			b.bad = true
			return
		}
		term = append(term[:same], rest...)
		texts := reader{left: of}
		if !see(term, &texts) {
			return
		}
		b.bad = b.bad || texts.bad
	}
	b.bad = b.bad || r.bad
}

// at is a reader of the terms from a whole one on.
func (b *Block) at(i int) reader {
	n := binary.BigEndian.Uint32(b.wholes[4*i:])
	if uint64(n) > uint64(len(b.terms)) {
		b.bad = true
		n = uint32(len(b.terms))
	}
	return reader{left: b.terms[n:]}
}

func (b *Block) any() []uint64 {
	r := reader{left: b.manies}
	all := r.list(b.n)
	b.bad = b.bad || r.bad
	return all
}

func (b *Block) places() []search.Place {
	r := reader{left: b.where}
	all := make([]search.Place, b.n)
	var last search.Place
	for i := range all {
		last.At += r.signed()
		last.Seq += conversation.Seq(r.signed())
		all[i] = last
	}
	b.bad = b.bad || r.bad
	return all
}

// Check says whether a block can be read as a whole.
func Check(v []byte) error {
	before := []byte(nil)
	b, err := Open(v)
	if err != nil {
		return err
	}
	b.places()
	b.any()
	b.each(0, func(term []byte, of *reader) bool {
		of.list(b.n)
		b.bad = b.bad || before != nil && bytes.Compare(before, term) >= 0
		before = append(before[:0], term...)
		return true
	})
	if b.bad {
		return errBlock
	}
	return nil
}

// reader reads numbers and parts; bad = there was not what should be there.
type reader struct {
	left []byte
	bad  bool
}

func (r *reader) byte() byte {
	if len(r.left) == 0 {
		r.bad = true
		return 0
	}
	c := r.left[0]
	r.left = r.left[1:]
	return c
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.left)
	if size <= 0 {
		r.bad, r.left = true, nil
		return 0
	}
	r.left = r.left[size:]
	return n
}

func (r *reader) signed() int64 {
	n, size := binary.Varint(r.left)
	if size <= 0 {
		r.bad, r.left = true, nil
		return 0
	}
	r.left = r.left[size:]
	return n
}

func (r *reader) part() []byte {
	n := r.number()
	if n > uint64(len(r.left)) {
		r.bad, r.left = true, nil
		return nil
	}
	part := r.left[:n]
	r.left = r.left[n:]
	return part
}

// list reads texts up to the end; all are less than n.
func (r *reader) list(n uint64) (all []uint64) {
	last := uint64(0)
	for len(r.left) > 0 {
		if last += r.number(); last >= n {
			r.bad = true
		}
		if r.bad {
			return nil
		}
		all = append(all, last)
	}
	return all
}
