package machine

import (
	"fmt"
	"math"
	"runtime"
	"testing"
)

// N-09: an idle session is small. The figures are sizes on the heap, which do not
// depend on the machine but for a few bytes of the runtime; what was measured is in
// BenchmarkSessionBytes.
func TestSessionIsSmall(t *testing.T) {
	for _, c := range []struct{ tasks, most int }{{0, 656}, {100, 3968}, {300, 6400}} {
		size := math.MaxInt
		for range 3 { // what the runtime frees or keeps meanwhile counts as well: the smallest is the truest
			size = min(size, heapOfSessions(t, c.tasks))
		}
		if size > c.most {
			t.Errorf("after %d tasks an idle session takes %d bytes; it should be at most %d", c.tasks, size, c.most)
		}
	}
}

// heapOfSessions is what an idle session takes after some tasks.
func heapOfSessions(t *testing.T, tasks int) int {
	n := 200
	if tasks == 0 {
		n = 4000 // they are quickly made, and a kilobyte of somebody else's is then no part of one
	}
	all := make([]*Session, n)
	before := heap()
	for i := range all {
		s := benchSession(t, fmt.Sprintf("%016d", i))
		for j := range tasks {
			turn(t, s, j)
		}
		all[i] = s
	}
	size := (int(heap()) - int(before)) / n
	runtime.KeepAlive(all)
	return size
}
