package main

import (
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestHeapFloor(t *testing.T) {
	f := heapFloor{bytes: 128 << 20}
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 3100}, {4 << 20, 3100}, {16 << 20, 700}, {32 << 20, 300}, {64 << 20, 100}, {100 << 20, 100}, {128 << 20, 100}, {4 << 30, 100},
	} {
		if got := f.at(c.live); got != c.want {
			t.Errorf("with %d bytes alive GOGC is %d, want %d", c.live, got, c.want)
		}
	}
}

// The floor is held while the heap is small, given up when it has grown, and
// gone when nobody wants it.
func TestHeapFloorFollows(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	current := func() int {
		percent := debug.SetGCPercent(100)
		debug.SetGCPercent(percent)
		return percent
	}
	until := func(ok func(int) bool) {
		t.Helper()
		for began := time.Now(); !ok(current()); {
			if time.Since(began) > patience {
				t.Fatalf("GOGC stays %d", current())
			}
			runtime.GC()
			runtime.Gosched()
		}
	}
	stop := keepHeapFloor(128 << 20)
	until(func(percent int) bool { return percent > 200 })
	func() {
		alive := make([]byte, 100<<20)
		until(func(percent int) bool { return percent == 100 })
		runtime.KeepAlive(alive)
	}()
	until(func(percent int) bool { return percent > 200 })
	stop()
	if got := current(); got != 100 {
		t.Errorf("after it GOGC is %d", got)
	}
	t.Setenv("GOGC", "50")
	keepHeapFloor(1 << 30)()
	if got := current(); got != 100 {
		t.Errorf("GOGC of the environment was overruled with %d", got)
	}
}

func TestHeapFloorOfTheServer(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	l := start(t, t.TempDir(), "--set", "process.heap_floor=8GiB")
	_, page := l.do("GET", "/metrics", "")
	_, rest, _ := strings.Cut(string(page), "\ngo_gc_gogc_percent ")
	line, _, _ := strings.Cut(rest, "\n")
	if percent, err := strconv.ParseFloat(line, 64); err != nil || percent < 1000 {
		t.Errorf("go_gc_gogc_percent is %q", line)
	}
	l.stop()
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("after the server GOGC is %d", got)
	}
}
