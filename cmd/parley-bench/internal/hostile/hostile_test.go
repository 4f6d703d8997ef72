package hostile

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// --only finds attacks by their names, and a name says whether it is one of the end.
func TestAttacksHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range attacks() {
		if seen[a.name] || a.name == "" || a.does == "" || a.run == nil {
			t.Errorf("%q: a name twice, or a part is missing", a.name)
		}
		seen[a.name] = true
		if a.drain != strings.HasPrefix(a.name, "end-") {
			t.Errorf("%s: the ends are named end-…, and nothing else", a.name)
		}
	}
	if len(seen) < 20 {
		t.Errorf("%d attacks only", len(seen))
	}
}

// scripted is a script in the place of a server.
func scripted(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// The server of a row is watched: what it holds is seen, and one that holds too much is killed.
func TestTheServerIsWatched(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT RUN: there is no /proc")
	}
	for _, c := range []struct {
		script string
		guard  int
		fate   string
	}{
		{`echo http://127.0.0.1:1/; exec sleep 60`, 1 << 20, `^\*\*no new connection\*\*`},
		{`echo http://127.0.0.1:1/; exec sleep 60`, 0, `^\*\*killed: over 0 MB\*\*$`},
		{`echo http://127.0.0.1:1/; echo why >&2; exit 3`, 1 << 20, `^\*\*ended \(exit status 3\): why\*\*$`},
	} {
		s, err := start(scripted(t, c.script), t.TempDir(), c.guard, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(c.fate, "no new") {
			<-s.ended
		}
		if got := s.fate(); !regexp.MustCompile(c.fate).MatchString(got) {
			t.Errorf("%s with a guard of %d MB: %q, want %s", c.script, c.guard, got, c.fate)
		}
		s.kill()
		if mb, fds := s.holds(); mb != 0 || fds != 0 {
			t.Errorf("a server that has ended holds %d MB and %d descriptors", mb, fds)
		}
	}
}

func TestGoals(t *testing.T) {
	times := func(ms ...time.Duration) (all []time.Duration) {
		for _, n := range ms {
			all = append(all, n*time.Millisecond)
		}
		return all
	}
	for _, c := range []struct {
		name string
		f    found
		met  bool
	}{
		{"as before", found{fate: "serves", alone: times(1, 100), during: times(1, 150)}, true},
		{"twice as slow", found{fate: "serves", alone: times(1, 100), during: times(1, 200)}, false},
		{"slower, but fast", found{fate: "serves", alone: times(1, 2), during: times(1, 40)}, true},
		{"cut", found{fate: "serves", cut: 1, alone: times(1), during: times(1)}, false},
		{"gone", found{fate: "**ended**", alone: times(1), during: times(1)}, false},
	} {
		if c.f.met() != c.met {
			t.Errorf("%s: met %v", c.name, !c.met)
		}
		if cells := strings.Count(c.f.String(), " | "); cells != 7 {
			t.Errorf("%s: %d cells: %s", c.name, cells+1, c.f)
		}
	}
	for _, e := range []struct {
		e   ended
		met bool
	}{
		{ended{took: time.Second, exit: "0"}, true},
		{ended{took: 5 * time.Second, exit: "0"}, false},
		{ended{took: time.Second, exit: "**1**: why"}, false},
	} {
		if e.e.met() != e.met {
			t.Errorf("%s: met %v", e.e, !e.met)
		}
	}
	if q := quantile(times(3, 1, 2), 0.99); q != 3*time.Millisecond {
		t.Errorf("the slowest of three took %s", q)
	}
}
