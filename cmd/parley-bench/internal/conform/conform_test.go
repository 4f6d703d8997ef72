package conform

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/cmd/parley-bench/internal/load"
)

// built is the server's program, for all tests; TestMain takes it away.
var built, unbuild, notBuilt = "", func() {}, error(nil)

var build = sync.OnceFunc(func() { built, unbuild, notBuilt = load.BuildServer("") })

func server(t *testing.T) string {
	t.Helper()
	if build(); notBuilt != nil {
		t.Fatal(notBuilt)
	}
	return built
}

// N-03, N-05: a client that does what docs/CLIENTS.md says passes every case.
func TestARightClientPasses(t *testing.T) {
	var out strings.Builder
	c := &Conform{Server: server(t), Patience: time.Minute, Parallel: 6, Client: []string{os.Args[0]}}
	if err := c.run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "All 39 cases passed") {
		t.Errorf("not 39 cases:\n%s", out.String())
	}
}

// The judge can fail: each mistake that a client can make is found by the case that is
// there for it, with a sentence that says what was seen.
func TestWrongClientsFail(t *testing.T) {
	program := server(t)
	for mistake, want := range map[string]struct{ only, says string }{
		"no hello":         {"plain", `its first frame was "follow", not hello`},
		"numbers as ids":   {"plain", "the id of its follow is no string: 2"},
		"takes the tail":   {"boundaries", "a gap|doubled, or out of order|it stopped at event"},
		"shows doubles":    {"repeats", "doubled, or out of order"},
		"skips gaps":       {"gap", "a gap"},
		"stumbles":         {"unknown", "it stopped at event|a gap"},
		"knows no files":   {"files", "a gap|it stopped at event"},
		"sends once":       {"lost", "the server has accepted"},
		"new ids":          {"swallowed", "the server has accepted"},
		"gives up":         {"refusals", "it gave up id0: "},
		"does not wait":    {"refusals", "although retry_after_ms was 400"},
		"ignores goaway":   {"goaway", "goaway asked for 900"},
		"hammers":          {"shut", "at most 20 is decent"},
		"never doubts":     {"frozen", "it did not come back"},
		"forgets the log":  {"other log", "does not say of which log"},
		"mixes logs":       {"other log", "it told 0 times that the log is another one"},
		"keeps its place":  {"other log", "as if its place of before counted"},
		"shows the tail":   {"other log", "although it was to follow from the first one"},
		"lets others pass": {"overtaking", "the server has accepted [id1"},
		"no pong":          {"ping", "it answers no WebSocket ping within 5s"},
		"empty pong":       {"ping", "it has to say what the ping said"},
		"waits for ever":   {"upgrade", "it waits for ever for the answer to its request to upgrade"},
		"ignores synced":   {"synced", "it stopped at event"},
		"stays away":       {"close 4000", "it told that the connection ended for good with 4000, want 0"},
		"comes back":       {"close 4502", "want 4502"},
	} {
		t.Run(strings.ReplaceAll(mistake, " ", "_"), func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			c := &Conform{Server: program, Only: []string{want.only}, Seed: 7, Patience: 8 * time.Second, Parallel: 1,
				Client: []string{"/usr/bin/env", "PARLEY_MISTAKE=" + mistake, os.Args[0]}}
			err := c.run(t.Context(), &out)
			if err == nil {
				t.Fatalf("the mistake was not seen:\n%s", out.String())
			}
			found := false
			for says := range strings.SplitSeq(want.says, "|") {
				found = found || strings.Contains(out.String(), says)
			}
			if !found {
				t.Errorf("no word of %q:\n%s", want.says, out.String())
			}
			if !strings.Contains(out.String(), `Again: parley-bench conform --seed 7 --only "`+want.only+`" -- `) {
				t.Errorf("it does not say how to try it again:\n%s", out.String())
			}
		})
	}
}

// The client of clients/js passes every case.
func TestTheClientForNodePasses(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT TESTED: clients/js in the cases of conform. There is no node in PATH")
	}
	version, err := exec.Command(node, "-p", "parseInt(process.versions.node)").Output()
	if err != nil {
		t.Fatal(err)
	}
	client := []string{node}
	if n, _ := strconv.Atoi(strings.TrimSpace(string(version))); n < 22 {
		client = append(client, "--experimental-websocket", "--no-warnings")
	}
	var out strings.Builder
	c := &Conform{Server: server(t), Patience: time.Minute, Parallel: 4,
		Client: append(client, filepath.Join("..", "..", "..", "..", "clients", "js", "conform.mjs"))}
	if err := c.run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
}

// The client of clients/go passes every case.
func TestTheClientForGoPasses(t *testing.T) {
	client := filepath.Join(t.TempDir(), "client")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", client, "parley/clients/go/examples/conform").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	var out strings.Builder
	c := &Conform{Server: server(t), Patience: time.Minute, Parallel: 6, Client: []string{client}}
	if err := c.run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
}

func TestWhatIsNoCaseIsRefused(t *testing.T) {
	c := &Conform{Patience: time.Second, Parallel: 1, Only: []string{"no such"}}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `there is no case "no such"`) {
		t.Errorf("it says %v", err)
	}
}
