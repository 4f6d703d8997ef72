package listing

import "encoding/binary"

// MostUnread is how many parts are counted for a reader at most: of more, only the newest
// are known.
const MostUnread = 99

// Work is what is open in a session, and what was said in it last.
type Work struct {
	Running int // tasks RUNNING
	Asking  int // questions that are open
	Parts   Parts
}

// Parts are the seqs of the last parts of a session, MostUnread at most, as they are stored:
// varints, each the distance from the one before. They are never changed in place; nil is none.
type Parts []byte

// With is the parts with a later one.
func (p Parts) With(seq uint64) Parts {
	n, last := 0, uint64(0)
	p.each(func(seq uint64) { n, last = n+1, seq })
	out := make([]byte, 0, len(p)+2)
	if n >= MostUnread { // the first one is left out
		first, at := binary.Uvarint(p)
		second, more := binary.Uvarint(p[at:])
		out = binary.AppendUvarint(out, first+second)
		p = p[at+more:]
	}
	return binary.AppendUvarint(append(out, p...), seq-last)
}

// Unread is how many parts there are behind seen, MostUnread at most.
func (p Parts) Unread(seen uint64) (n int) {
	p.each(func(seq uint64) {
		if seq > seen {
			n++
		}
	})
	return min(n, MostUnread)
}

// each reads as far as it can be read.
func (p Parts) each(see func(seq uint64)) {
	for seq := uint64(0); len(p) > 0; {
		step, n := binary.Uvarint(p)
		if n <= 0 {
			return
		}
		p, seq = p[n:], seq+step
		see(seq)
	}
}
