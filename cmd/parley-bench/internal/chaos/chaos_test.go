package chaos

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain makes the test binary a runtime, too: its child process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		flags := map[string]string{}
		for i := 2; i+1 < len(os.Args); i += 2 {
			flags[os.Args[i]] = os.Args[i+1]
		}
		lease, _ := time.ParseDuration(flags["--lease"])
		seed, _ := strconv.ParseUint(flags["--seed"], 10, 64)
		w := Worker{Place: flags["--place"], Name: flags["--name"], Journal: flags["--journal"], Seed: seed, Claims: 2, Limit: 5, Lease: lease}
		if w.Run(context.Background()) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// A few kills of runtimes and of a real server. "make chaos-runtimes" does it
// longer. N-17, M-32, M-33.
func TestRuntimes(t *testing.T) {
	messages := 600
	if testing.Short() {
		messages = 200
	}
	var out strings.Builder
	r := Runtimes{
		Messages: messages, Sessions: 20, Workers: 2, Senders: 2, Lease: 500 * time.Millisecond,
		KillWorker: 300 * time.Millisecond, KillServer: 700 * time.Millisecond, Finish: 2 * time.Minute,
	}
	if err := r.run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "lost 0, doubled 0, blocked 0, otherwise wrong 0") {
		t.Errorf("it says %s", out.String())
	}
	t.Log(out.String())
}
