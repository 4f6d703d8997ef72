package wordblock

import "math/bits"

// A sieve tells of most blocks that they do not have a word, without the block: a Bloom filter
// of the beginnings of its terms. No word can be read from it.

// lengths are the beginnings of a term that a sieve has, in bytes. Of a word the longest of
// them is looked for.
var lengths = [...]int{1, 2, 3, 4, 6, 9, 12, 18}

const (
	// sieveFormat is the first byte of a sieve, sieveOpen that of one that lets everything through.
	sieveFormat, sieveOpen = 0x01, 0x00
	bitsEach               = 8 // of each beginning
	probes                 = 4
)

// Sieve is the sieve of the block.
func (m *Maker) Sieve() []byte {
	if len(m.any) > 0 {
		return []byte{sieveOpen}
	}
	var all []uint64
	before := ""
	for _, term := range m.sorted() {
		same := 0
		for same < min(len(before), len(term)) && before[same] == term[same] {
			same++
		}
		begun(term, func(length int, hash uint64) {
			if length > same {
				all = append(all, hash)
			}
		})
		before = term
	}
	v := make([]byte, 1+len(all)*bitsEach/8)
	v[0] = sieveFormat
	for _, hash := range all {
		each(hash, len(v)-1, func(at int, bit byte) bool { v[1+at] |= bit; return true })
	}
	return v
}

// Passes is false if no text of the block of a sieve has, for each of some beginnings, a term
// with it.
func Passes(sieve []byte, beginnings []string) bool {
	if len(sieve) < 2 || sieve[0] != sieveFormat {
		return len(sieve) != 1 || sieve[0] != sieveFormat // without terms it has nothing
	}
	for _, beginning := range beginnings {
		last, some := uint64(0), false
		begun(beginning, func(_ int, hash uint64) { last, some = hash, true })
		if some && !each(last, len(sieve)-1, func(at int, bit byte) bool { return sieve[1+at]&bit != 0 }) {
			return false
		}
	}
	return true
}

// begun shows the hashes of the beginnings of a term that a sieve has.
func begun(term string, see func(length int, hash uint64)) {
	hash, next := uint64(14695981039346656037), 0 // FNV-1a
	for i := range len(term) {
		hash = (hash ^ uint64(term[i])) * 1099511628211
		if next < len(lengths) && i+1 == lengths[next] {
			see(i+1, mixed(hash))
			next++
		}
	}
}

// mixed spreads a hash over all its bits.
func mixed(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// each shows the bits of a hash in a sieve of so many bytes, until see says no.
func each(hash uint64, bytes int, see func(at int, bit byte) bool) bool {
	step := hash>>32 | 1
	for range probes {
		n, _ := bits.Mul64(mixed(hash), uint64(bytes)*8)
		if !see(int(n/8), 1<<(n%8)) {
			return false
		}
		hash += step
	}
	return true
}

// Sieved is true if a sieve lets each term of a block through.
func Sieved(block, sieve []byte) bool {
	b, err := Open(block)
	if err != nil {
		return false
	}
	all := true
	b.each(0, func(term []byte, _ *reader) bool {
		all = Passes(sieve, []string{string(term)})
		return all
	})
	return all && !b.bad
}
