package command

import (
	"context"
	"errors"
	"os"

	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/models/command/internal/guard"
)

// What an agent may leave running: each script starts something that writes its
// number to the file left in the directory $1, and waits until that is there.
var leftovers = map[string]string{
	"in a session of its own":        `setsid sh -c 'echo $$ >"$0/left"; exec sleep 600' "$1" & await`,
	"as a daemon":                    `(setsid sh -c '(sh -c "echo \$\$ >\"\$0/left\"; exec sleep 600" "$0" >/dev/null 2>&1 &)' "$1" &); await`,
	"with an environment of its own": `env -i "$(command -v setsid)" sh -c 'echo $$ >"$0/left"; exec sleep 600' "$1" >/dev/null 2>&1 & await`,
	"that listens to nothing":        `setsid sh -c 'trap "" TERM HUP INT; echo $$ >"$0/left"; while :; do sleep 1; done' "$1" & await`,
	"that has stopped itself":        `setsid sh -c 'echo $$ >"$0/left"; kill -STOP $$' "$1" & await`,
	"that starts many others":        `setsid sh -c 'echo $$ >"$0/left"; n=0; while [ $n -lt 300 ]; do n=$((n+1)); (setsid sleep 600 &); done; exec sleep 600' "$1" >/dev/null 2>&1 & await`,
}

// leaving is the script of an agent that leaves something, and then goes on.
func leaving(what, then string) string {
	return `dir=$1; await() { until [ -s "$dir/left" ]; do sleep 0.01; done; }; ` + leftovers[what] + "; " + then
}

// bareEnvironment is the one of the leftovers that only its parents know.
const bareEnvironment = "with an environment of its own"

// A-31, N-06: when a call is over, nothing of what it started is left, wherever that
// has gone: after an answer, a crash, a stop, a timeout.
func TestNothingIsLeft(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("NOT RUN: there is no setsid")
	}
	ends := map[string]struct {
		then string
		stop bool
	}{
		"after an answer":                       {"echo the answer", false},
		"after a crash":                         {"kill -KILL $$", false},
		"after a stop":                          {"sleep 600", true},
		"after a stop of one that does not run": {"kill -STOP $$", true},
		"after the end of its guard":            {"kill -KILL $PPID; sleep 600", false},
	}
	for what := range leftovers {
		for end, e := range ends {
			if strings.Contains(e.then, "PPID") && what == bareEnvironment {
				continue // nothing is left then that tells whose it is
			}
			t.Run(what+", "+end, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				o := shell(leaving(what, e.then), dir)
				o.Grace = 300 * time.Millisecond
				m := open(t, o)
				ctx, cancel := context.WithCancel(t.Context())
				if e.stop {
					go func() {
						defer cancel()
						left(t, dir)
					}()
				}
				answer, err := ask(ctx, m, say("x"), nil)
				cancel()
				var failed *conversation.ModelError
				switch {
				case e.stop && !errors.Is(err, context.Canceled), strings.Contains(e.then, "KILL") && !errors.As(err, &failed),
					strings.Contains(e.then, "echo") && (err != nil || len(answer.Items) != 1 || answer.Items[0].Text != "the answer"):
					t.Errorf("the call ended with %+v, %v", answer, err)
				}
				if pid := left(t, dir); !ended(pid) {
					t.Errorf("the process %d is left", pid)
				}
				if n := m.Stats().Strays; n < 1 && !e.stop {
					t.Error("no process was counted that had left the group and was killed")
				}
			})
		}
	}
}

// stopsGuard is the script of an agent that stops the process that would end it.
const stopsGuard = `kill -STOP $PPID; echo $$ >"$1/left"; exec sleep 600`

// An agent that has stopped its guard is ended all the same.
func TestStoppedGuard(t *testing.T) {
	dir := t.TempDir()
	m := open(t, shell(stopsGuard, dir))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		left(t, dir)
	}()
	if answer, err := ask(ctx, m, say("x"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %+v, %v", answer, err)
	}
	if pid := left(t, dir); !ended(pid) {
		t.Errorf("the process %d is left", pid)
	}
}

// left waits for what an agent leaves, and returns its number.
func left(t *testing.T, dir string) int {
	t.Helper()
	return pidIn(t, filepath.Join(dir, "left"))
}

// N-07: nothing that an agent has started outlives the server, also when that is killed
// and can do nothing about it.
func TestNothingOutlivesServer(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("NOT RUN: there is no setsid")
	}
	scripts := map[string]string{"that has stopped its guard": stopsGuard}
	for what := range leftovers {
		scripts[what] = leaving(what, "sleep 600")
	}
	for what, script := range scripts {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			server := exec.Command(os.Args[0], asAgent, "server", script, dir, "x")
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			pid := left(t, dir)
			if err := server.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = server.Wait() // killed, as it should be
			look := time.NewTicker(10 * time.Millisecond)
			defer look.Stop()
			for limit := time.Now().Add(10 * time.Second); !ended(pid); <-look.C {
				if time.Now().After(limit) {
					t.Fatalf("the process %d runs without its server", pid)
				}
			}
		})
	}
}

// The variable that marks a run is another one in each, also where the server itself was
// started by an agent.
func TestRunVariable(t *testing.T) {
	t.Setenv(guard.RunVariable, "of another server")
	m := open(t, shell(`env | grep "^`+guard.RunVariable+`="`))
	first, second := text(t, m, say("x")), text(t, m, say("x"))
	for _, seen := range []string{first, second} {
		if !regexp.MustCompile(`^` + guard.RunVariable + `=[0-9a-f]{32}$`).MatchString(seen) {
			t.Errorf("the agent's environment has %q", seen)
		}
	}
	if first == second {
		t.Error("two runs have the same")
	}
}
