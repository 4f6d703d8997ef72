package state

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
)

// N-01, N-09: the packed client ids are those of a plain list of the last 256,
// whatever numbers they have, also when they went through a snapshot.
func TestRecents(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var st State
	var want []dedupEntry
	for i := range 2000 {
		r := dedupEntry{Key: [2]uint32{random.Uint32(), random.Uint32()}, Text: random.Uint32(), Message: uint32(i), Seq: uint32(7 * i)}
		switch random.IntN(4) {
		case 0: // as far away as can be, before or after
			r.Message, r.Seq = random.Uint32(), random.Uint32()
		case 1: // around where a step no longer fits into its byte
			r.Message, r.Seq = st.Recent.last.Message+1, st.Recent.last.Seq+253+random.Uint32N(4)
		}
		st.remember(r)
		if want = append(want, r); len(want) > dedupWindowSize {
			want = want[1:]
		}
		if got := slices.Collect(st.Recent.all); !slices.Equal(got, want) {
			t.Fatalf("seed %d: after %d entries: %v instead of %v", seed, i+1, got, want)
		}
		if i%100 == 0 {
			data, err := json.Marshal(st.Recent)
			if err != nil {
				t.Fatal(err)
			}
			st.Recent = dedupWindow{}
			if err := json.Unmarshal(data, &st.Recent); err != nil {
				t.Fatal(err)
			}
		}
	}
}
