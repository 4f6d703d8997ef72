package peers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// nowhere is an environment from which nothing can be fetched and in which nothing is cached.
func nowhere(t *testing.T) {
	t.Helper()
	empty := t.TempDir()
	for name, value := range map[string]string{
		"GOPROXY": "off", "GOMODCACHE": empty, "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local",
		"npm_config_offline": "true", "npm_config_cache": empty, "npm_config_loglevel": "error",
	} {
		t.Setenv(name, value)
	}
}

// The three are one test because they share the server's program.
func TestPeers(t *testing.T) {
	program := filepath.Join(t.TempDir(), "parley")
	if err := run(t.Context(), ".", "go", "build", "-o", program, "parley/cmd/parley"); err != nil {
		t.Fatal(err)
	}
	quick := func(t *testing.T, dir string) string {
		t.Helper()
		var out strings.Builder
		if err := (&Peers{Server: program, Dir: dir, Module: "../../peers", Only: "all", Quick: true}).run(t.Context(), &out); err != nil {
			t.Fatalf("%v\nafter\n%s", err, out.String())
		}
		return out.String()
	}
	hasRows := func(t *testing.T, text string, rows ...string) {
		t.Helper()
		for _, row := range rows {
			if !strings.Contains(text, row) {
				t.Errorf("there is no %q in\n%s", row, text)
			}
		}
	}

	t.Run("what cannot be installed is a row that says why", func(t *testing.T) {
		nowhere(t)
		text := quick(t, t.TempDir())
		hasRows(t, text, "A smoke test: these numbers mean nothing.\n",
			"| parley | 1 | ", "| parley | 5 | ", "| Restate | | NOT RUN: npm: ",
			"| paced | parley | ", "| burst | parley | ", "| | centrifuge | NOT RUN: go: ", "| centrifuge | NOT RUN: go: ")
		if strings.Contains(text, "÷ centrifuge, server") || strings.Contains(text, "÷ Restate Message, turns") {
			t.Errorf("a ratio to what did not run:\n%s", text)
		}
	})

	t.Run("what does not start is a row, too", func(t *testing.T) {
		var out strings.Builder
		none := fan{followers: 2, bursts: 1, burst: 1, every: time.Millisecond, bytes: 487}
		r := report{
			Peers: &Peers{Rounds: 2, Clients: []int{1}, Duration: time.Millisecond}, out: &out, dir: t.TempDir(),
			programs: programs{restate: "/bin/false", service: "/bin/false", centrifuge: "/bin/false"}, paced: none, bursts: none,
		}
		if err := r.turns(t.Context(), program); err != nil {
			t.Fatal(err)
		}
		if err := r.fan(t.Context(), program); err != nil {
			t.Fatal(err)
		}
		hasRows(t, out.String(), "| Restate | | NOT RUN: /bin/false said no address", "| | centrifuge | NOT RUN: paced: /bin/false said no address")
	})

	// With the programs in the directory PARLEY_PEERS, as `make bench-peers` leaves them.
	t.Run("what is installed runs", func(t *testing.T) {
		dir := os.Getenv("PARLEY_PEERS")
		if dir == "" {
			t.Skip("NOT RUN: PARLEY_PEERS names no directory with the peers' programs (make bench-peers)")
		}
		text := quick(t, dir)
		hasRows(t, text, "| Restate Message | 1 | ", "| Restate Light | 5 | ", "| 5 | ", "| paced | centrifuge | ", "| burst | centrifuge | ",
			"÷ centrifuge, server", "÷ Restate Message, turns")
		if strings.Contains(text, "NOT RUN") {
			t.Errorf("something did not run:\n%s", text)
		}
	})
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		s            spread
		median       float64
		show, halved string
	}{
		{nil, 0, "0", "–"},
		{spread{3}, 3, "3", "1.5"},
		{spread{9, 1, 4}, 4, "1 / **4** / 9", "2.0"},
		{spread{4, 1, 2, 9}, 3, "1 / **3** / 9", "1.5"},
	} {
		if c.s.median() != c.median || c.s.show("%.0f") != c.show || over(c.s, spread{2}, "%.1f") != c.halved {
			t.Errorf("%v: median %v, shown %q, halved %q", c.s, c.s.median(), c.s.show("%.0f"), over(c.s, spread{2}, "%.1f"))
		}
	}
}
