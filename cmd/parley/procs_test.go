package main

import (
	"runtime"
	"strings"
	"testing"
)

func TestProcsFor(t *testing.T) {
	for _, c := range []struct{ processors, chosen, want int }{
		{1, 1, 3}, {2, 2, 4}, {4, 4, 6}, // few
		{5, 5, 5}, {64, 64, 64}, // many
		{4, 2, 2}, {64, 2, 2}, // a container's limit
		{2, 4, 4}, // chosen already
	} {
		if got := procsFor(c.processors, c.chosen); got != c.want {
			t.Errorf("%d processors, of which Go uses %d: %d Ps, want %d", c.processors, c.chosen, got, c.want)
		}
	}
}

// A run has as many Ps as the key says, and leaves the process as it was.
func TestProcsOfTheServer(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	before := runtime.GOMAXPROCS(0)
	l := start(t, t.TempDir(), "--set", "process.procs=7")
	_, page := l.do("GET", "/metrics", "")
	if !strings.Contains(string(page), "\ngo_sched_gomaxprocs_threads 7\n") {
		t.Error("go_sched_gomaxprocs_threads is not 7")
	}
	l.stop()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("after the server there are %d Ps, before %d", got, before)
	}
	t.Setenv("GOMAXPROCS", "3")
	setProcs(7)()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("GOMAXPROCS of the environment was overruled with %d", got)
	}
}
