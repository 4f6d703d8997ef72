package seen

import (
	"math/rand/v2"
	"testing"
)

// N-01, N-09: a key that was stored is never taken for new, however many there
// are, and what remembers them is bounded. Few new keys look as if they were old,
// else remembering would be for nothing.
func TestSeenKeys(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	k := Keys{Complete: true}
	var stored []uint64
	for len(stored) < maxSeen+10 {
		next := []uint64{random.Uint64(), random.Uint64()}
		if len(stored)%100 == 0 {
			next = nil // a commit without keys
			stored = append(stored, random.Uint64(), random.Uint64())
			k.Add(stored[len(stored)-2:])
		}
		k.Add(next)
		stored = append(stored, next...)
		if len(stored) > maxFew+4 && len(stored)%64 != 0 {
			continue // a look at all of them takes time
		}
		for _, hash := range stored {
			if !k.MayContain(hash) {
				t.Fatalf("seed %d: a key of %d is taken for new", seed, len(stored))
			}
		}
		if size := 2 * cap(k.hashes); size > 1024 {
			t.Fatalf("%d keys take %d bytes", len(stored), size)
		}
		if n := len(stored); n == 200 && 2*cap(k.hashes) > 512 {
			t.Errorf("200 keys take %d bytes", 2*cap(k.hashes))
		}
		if len(stored) <= 1000 {
			old := 0
			for range 1000 {
				if k.MayContain(random.Uint64()) {
					old++
				}
			}
			if old > 100 { // 40 are expected at 1,000 keys
				t.Errorf("seed %d: with %d keys, %d of 1000 new ones look as if they were old", seed, len(stored), old)
			}
		}
	}
	if k.Complete || k.hashes != nil || !k.MayContain(random.Uint64()) {
		t.Error("beyond its limit it still says what is new")
	}
}
