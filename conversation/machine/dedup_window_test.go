package machine

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// N-01, N-09: the packed client ids are those of a plain list of the last 256,
// whatever numbers they have, also when they went through a snapshot.
func TestRecents(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var st state
	var want []recent
	for i := range 2000 {
		r := recent{Key: [2]uint32{random.Uint32(), random.Uint32()}, Text: random.Uint32(), Message: uint32(i), Seq: uint32(7 * i)}
		switch random.IntN(4) {
		case 0: // as far away as can be, before or after
			r.Message, r.Seq = random.Uint32(), random.Uint32()
		case 1: // around where a step no longer fits into its byte
			r.Message, r.Seq = st.Recent.last.Message+1, st.Recent.last.Seq+253+random.Uint32N(4)
		}
		st.remember(r)
		if want = append(want, r); len(want) > recentMessages {
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
			st.Recent = recents{}
			if err := json.Unmarshal(data, &st.Recent); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A snapshot of before client ids were packed holds a ring, and says where its
// oldest entry stands.
func TestSnapshotOfRing(t *testing.T) {
	s, _ := benchLog(t, recentMessages+10)
	now := snapshotOf(t, s)
	const turned = 10
	all := slices.Collect(s.state.Recent.all)
	ring := recents{}
	for _, r := range slices.Concat(all[len(all)-turned:], all[:len(all)-turned]) {
		ring.add(r)
	}
	newest, err := json.Marshal(s.state.Recent)
	if err != nil {
		t.Fatal(err)
	}
	older, err := json.Marshal(ring)
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Replace(now, string(newest), fmt.Sprintf("%s,\"NextSlot\":%d", older, turned), 1)
	restored, err := Restore(s.key, benchRules, []byte(before))
	if err != nil {
		t.Fatal(err)
	}
	if got := snapshotOf(t, restored); before == now || got != now {
		t.Errorf("restored as\n%s\ninstead of\n%s", got, now)
	}
}

func snapshotOf(t *testing.T, s *Session) string {
	t.Helper()
	data, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// N-09: an idle session is small. The figures are sizes on the heap, which do not
// depend on the machine; what was measured is in BenchmarkSessionBytes.
func TestSessionIsSmall(t *testing.T) {
	for _, c := range []struct{ tasks, most int }{{0, 640}, {100, 2560}, {300, 4608}} {
		const n = 200
		all := make([]*Session, n)
		before := heap()
		for i := range all {
			s := benchSession(t, fmt.Sprintf("%016d", i))
			for j := range c.tasks {
				turn(t, s, j)
			}
			all[i] = s
		}
		size := (int(heap()) - int(before)) / n
		runtime.KeepAlive(all)
		if size > c.most {
			t.Errorf("after %d tasks an idle session takes %d bytes; it should be at most %d", c.tasks, size, c.most)
		}
	}
}
