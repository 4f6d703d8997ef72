package load

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestMain makes the test binary the child process of the socket baselines, too.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "echo" {
		if err := (Echo{}).Run(); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// "parley-bench run --quick" runs every workload against a real server, and every
// baseline, in small: none of them may rot between two measurements.
func TestSmoke(t *testing.T) {
	var out strings.Builder
	if err := (&Measure{Only: "all", Quick: true}).run(t.Context(), &out); err != nil {
		t.Fatalf("%v\nafter\n%s", err, out.String())
	}
	text := out.String()
	if !strings.HasPrefix(text, "A smoke test: these numbers mean nothing.\n") {
		t.Errorf("it does not say first that it is a smoke test:\n%s", text)
	}
	for title, rows := range map[string]int{"Turns": 2, "Fan-out": 3, "Resume": 3, "Memory": 2, "Activation": 2, "Long thread": 2, "Recovery": 2} {
		_, table, found := strings.Cut(text, "\n### "+title+": ")
		table, _, _ = strings.Cut(table, "\n### ")
		// Rows begin behind the line of dashes.
		if got := strings.Count(table, "\n|") - 2; !found || got != rows {
			t.Errorf("%s has %d rows, want %d:\n%s", title, got, rows, text)
		}
	}
	// M-34: the figures of a long session, p50 and p99 of each.
	for _, row := range []string{"its last 50 events, on an open socket", "all that the page asks for before its first paint"} {
		if found := regexp.MustCompile(`(?m)^\| ` + row + ` \| [0-9.]+(µs|ms|s) \| [0-9.]+(µs|ms|s) \|$`).FindString(text); found == "" {
			t.Errorf("no figures of %s:\n%s", row, text)
		}
	}
	if empty := regexp.MustCompile(`(NaN|[+-]Inf|\| 0s)`).FindString(text); empty != "" {
		t.Errorf("%q is no measurement:\n%s", empty, text)
	}
}

// "parley-bench backup" in small.
func TestBackupSmoke(t *testing.T) {
	var out strings.Builder
	if err := (&Backup{Clients: 3, Duration: 200 * time.Millisecond, Pairs: 1}).run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if rows := regexp.MustCompile(`(?m)^\| (yes|no) \| [1-9]`).FindAllString(out.String(), -1); len(rows) != 2 {
		t.Errorf("it has %d rows with turns, want 2:\n%s", len(rows), out.String())
	}
}

// "parley-bench start" in small: three starts after a stop, one of them the first,
// and two after a kill.
func TestStartSmoke(t *testing.T) {
	var out strings.Builder
	b := &Start{Data: filepath.Join(t.TempDir(), "data"), Times: 2, Load: 100 * time.Millisecond}
	if err := b.run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if stops, kills := strings.Count(out.String(), "| a stop |"), strings.Count(out.String(), "| a kill under work |"); stops != 2 || kills != 2 {
		t.Errorf("%d starts after a stop, %d after a kill:\n%s", stops, kills, out.String())
	}
}
