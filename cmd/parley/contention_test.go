package main

import (
	"runtime"
	"strings"
	"testing"
)

// process.contention: with it the server says where it waits, without it not.
func TestContentionOfTheServer(t *testing.T) {
	for _, on := range []string{"true", "false"} {
		l := start(t, t.TempDir(), "--set", "process.contention="+on)
		if recorded := runtime.SetMutexProfileFraction(-1) > 0; recorded != (on == "true") {
			t.Errorf("%s: waits for locks are recorded: %v", on, recorded)
		}
		status, page := l.do("GET", "/debug/pprof/block?debug=1", "")
		if status != 200 || !strings.HasPrefix(string(page), "--- contention:") {
			t.Errorf("%s: %d, %.100s", on, status, page)
		}
		if on == "true" && !strings.Contains(string(page), " @ ") { // what was recorded before stays in the profile
			t.Errorf("the profile has no waits:\n%s", page)
		}
		l.stop()
		if left := runtime.SetMutexProfileFraction(-1); left != 0 {
			t.Errorf("%s: after the server it is still %d", on, left)
		}
	}
}
