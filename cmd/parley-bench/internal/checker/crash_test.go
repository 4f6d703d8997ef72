package checker

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain makes the test binary the server's tool, too: its child process.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "journal" {
		if (&Journal{File: os.Args[2]}).Run(context.Background()) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// A few kills of a real server. "make crash" does it longer. N-01, N-02, N-03.
func TestCrash(t *testing.T) {
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	var out strings.Builder
	c := Crash{Rounds: rounds, Clients: 4, Least: 100 * time.Millisecond, Most: 400 * time.Millisecond, Finish: time.Minute}
	if err := c.run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "nothing lost, doubled or reordered") {
		t.Errorf("it says %s", out.String())
	}
	t.Log(out.String())
}
