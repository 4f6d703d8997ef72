package load

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
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
	code := m.Run()
	removeBuilt()
	os.Exit(code)
}

// built is the server, built once for all tests of the package.
func built(t *testing.T) string {
	t.Helper()
	path, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var buildOnce = sync.OnceValues(func() (string, error) {
	path, remove, err := BuildServer("")
	removeBuilt = remove
	return path, err
})

var removeBuilt = func() {}

// "parley-bench run --quick" runs every workload against a real server, and every
// baseline, in small: none of them may rot between two measurements. Here there are
// two variants of it.
func TestSmoke(t *testing.T) {
	var out, notes strings.Builder
	m := &Measure{Server: []string{"one=" + built(t)}, Variant: []string{"two:process.heap_floor=64MiB,GOGC=150"}, Quick: true}
	if err := m.run(t.Context(), &out, &notes); err != nil {
		t.Fatalf("%v\nafter\n%s", err, out.String())
	}
	text := out.String()
	if !strings.HasPrefix(text, "A smoke test: these numbers mean nothing.\n") {
		t.Errorf("it does not say first that it is a smoke test:\n%s", text)
	}
	// Two variants and how the second compares with the first; each floor, and how both
	// compare with it. Counts have no floors.
	const two, floor = 3, 3
	for title, rows := range map[string]int{
		"Counts: ": two, "Turns: ": 2*(two+2*floor) + 2*two, "Fan-out: ": 3 * (two + floor), "Resume: ": 2 * (two + floor), "A new session ": 2*two + 2*two,
		"Queued: ": two, "Activation: ": two, "Long thread: ": two, "Recovery: ": 2 * two, "Memory of ": 3 * two, "Erasing: ": two,
	} {
		_, found, ok := strings.Cut(text, "\n### "+title)
		found, _, _ = strings.Cut(found, "\n### ")
		if got := strings.Count(found, "\n| ") - strings.Count(found, "\n|---"); !ok || got != rows {
			t.Errorf("%s has %d rows, want %d:\n%s", title, got, rows, found)
		}
	}
	// M-34: the figures of a long session, p50 and p99 of each.
	if found := regexp.MustCompile(`(?m)^\| open \| one \|( [0-9.]+(µs|ms|s) \|){4}$`).FindString(text); found == "" {
		t.Errorf("no figures of a long session:\n%s", text)
	}
	if empty := regexp.MustCompile(`(NaN|Inf|\| 0s)`).FindString(text); empty != "" {
		t.Errorf("%q is no measurement:\n%s", empty, text)
	}
	if !strings.Contains(notes.String(), "turns, 5, round 1 of 1: two (about ") {
		t.Errorf("it does not say how far it is:\n%s", notes.String())
	}
}

// "parley-bench backup" in small.
func TestBackupSmoke(t *testing.T) {
	var out strings.Builder
	if err := (&Backup{Server: built(t), Clients: 3, Duration: 200 * time.Millisecond, Pairs: 1}).run(t.Context(), &out); err != nil {
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
	b := &Start{Server: built(t), Data: filepath.Join(t.TempDir(), "data"), Times: 2, Load: 100 * time.Millisecond}
	if err := b.run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if stops, kills := strings.Count(out.String(), "| a stop |"), strings.Count(out.String(), "| a kill under work |"); stops != 2 || kills != 2 {
		t.Errorf("%d starts after a stop, %d after a kill:\n%s", stops, kills, out.String())
	}
}
