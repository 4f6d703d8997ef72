package seen

import "slices"

// Keys is the set of the part and client keys that one session has stored, as
// far as this process has seen them. It may say of a new key that it could be
// stored, never of a stored one that it is new.
//
// While the keys are few, it keeps two bytes of each one's hash; then it is a
// Bloom filter with four bits a key: 1 KiB at most. With Complete, all keys of the
// session are in the set, because this process has made it or has read them, so a key
// that is not need not be looked for on disk: a third of the CPU time of a commit went into
// looking for keys that are new. At maxSeen keys four of ten new ones look as if
// they had been seen; from then on the set is given up and each key is looked for.
//
// The zero value knows nothing: MayContain is always true.
type Keys struct {
	hashes   []uint16 // fingerprints, from maxFew+1 on the filter's bits
	count    uint16   // how many keys were seen
	Complete bool     // all keys of the session were added
}

// A list of more than maxFew hashes takes longer to search than four bits; see
// Keys for maxSeen.
const (
	maxFew     = 256
	maxSeen    = 3000
	filterSize = 512 // of 16 bits
)

// fingerprint is the part of a hash that is kept.
func fingerprint(hash uint64) uint16 { return uint16(hash >> 48) }

// bits are the four places of a fingerprint in the filter's 8,192 bits.
func bits(fingerprint uint16) [4]uint16 {
	mixed := (uint64(fingerprint) + 1) * 0x9e3779b97f4a7c15
	place := func(shift int) uint16 { return uint16(mixed >> shift & 8191) }
	return [4]uint16{place(51), place(38), place(25), place(12)}
}

// MayContain is false for the hash of a key that was certainly never stored.
func (k *Keys) MayContain(hash uint64) bool {
	if !k.Complete {
		return true
	}
	if k.count <= maxFew {
		return slices.Contains(k.hashes, fingerprint(hash))
	}
	for _, bit := range bits(fingerprint(hash)) {
		if k.hashes[bit/16]&(1<<(bit%16)) == 0 {
			return false
		}
	}
	return true
}

// Add notes the hashes of keys that were stored.
func (k *Keys) Add(hashes []uint64) {
	if !k.Complete {
		return
	}
	if int(k.count)+len(hashes) > maxSeen {
		k.hashes, k.Complete = nil, false
		return
	}
	for _, hash := range hashes {
		if k.count++; k.count <= maxFew {
			if len(k.hashes) == cap(k.hashes) { // in small steps: append's would leave a third of it unused
				k.hashes = append(slices.Grow([]uint16(nil), len(k.hashes)+max(8, len(k.hashes)/8)), k.hashes...)
			}
			k.hashes = append(k.hashes, fingerprint(hash))
			continue
		}
		if k.count == maxFew+1 {
			few := k.hashes
			k.hashes = make([]uint16, filterSize)
			for _, old := range few {
				k.mark(old)
			}
		}
		k.mark(fingerprint(hash))
	}
}

func (k *Keys) mark(fingerprint uint16) {
	for _, bit := range bits(fingerprint) {
		k.hashes[bit/16] |= 1 << (bit % 16)
	}
}
