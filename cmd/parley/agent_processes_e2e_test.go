package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// wanderer is an agent that starts something in a session of its own, and then works
// without end. It writes into the directory $1: a line for each run, the marker of the
// run, and the number of what it has started.
const wanderer = `dir=$1; echo run >>"$dir/runs"; echo "$PARLEY_AGENT_RUN" >"$dir/marker"
setsid sh -c 'trap "" TERM HUP; echo $$ >"$0/wandered"; while :; do sleep 1; done' "$dir" &
while :; do sleep 1; done`

// wandererConfig is a configuration with the wanderer as its model.
func wandererConfig(t *testing.T, dir string) string {
	t.Helper()
	if _, err := exec.LookPath("setsid"); err != nil || runtime.GOOS != "linux" {
		t.Skip("NOT RUN: it needs setsid and Linux's /proc")
	}
	return write(t, fmt.Sprintf(`[model]
default = "agent"
[models.agent]
provider = "command"
command = "sh"
args = ["-c", %q, "agent", %q]
grace = "500ms"
`, wanderer, dir))
}

// marked returns the processes that carry the marker of the run in the directory.
func marked(t *testing.T, dir string) (list []string) {
	t.Helper()
	marker, err := os.ReadFile(filepath.Join(dir, "marker"))
	if err != nil || len(bytes.TrimSpace(marker)) == 0 {
		t.Fatalf("the run has no marker: %v", err)
	}
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		if env, err := os.ReadFile(path); err == nil && bytes.Contains(env, append([]byte("PARLEY_AGENT_RUN="), bytes.TrimSpace(marker)...)) {
			list = append(list, filepath.Base(filepath.Dir(path)))
		}
	}
	return list
}

// await waits for a file with a line in it.
func await(t *testing.T, path string) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for limit := time.Now().Add(patience); ; <-look.C {
		if text, _ := os.ReadFile(path); bytes.HasSuffix(text, []byte("\n")) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("nothing has written %s", path)
		}
	}
}

// N-06: CANCELLED means that the process of a command-line agent has gone, and all that
// it has started.
func TestStoppedAgentIsGone(t *testing.T) {
	dir := t.TempDir()
	l := start(t, t.TempDir(), "--config", wandererConfig(t, dir))
	u := l.user()
	s := u.create(nil)
	u.follow(s, 0)
	u.send(s, "1", "work")
	await(t, filepath.Join(dir, "wandered"))
	if running := marked(t, dir); len(running) < 2 {
		t.Fatalf("before the stop %q run", running)
	}
	u.ask("cancel", s, map[string]any{"reason": "enough"})
	events := u.until(done)
	if left := marked(t, dir); len(left) > 0 {
		t.Errorf("after CANCELLED the processes %q are left", left)
	}
	if last := events[len(events)-1]; last.text("new_status") != "CANCELLED" {
		t.Errorf("it ended with %s", last.raw)
	}
	if finished := of(events, "step_finished"); len(finished) > 0 && finished[0].text("outcome") != "cancelled" {
		t.Errorf("the step ended with %s", shown(finished))
	}
	_, metrics := l.do("GET", "/metrics", "")
	for _, want := range []string{`parley_command_agent_processes{model="agent"} 0`, `parley_command_agent_kills_total{model="agent"} 1`} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if strings.Contains(string(metrics), `parley_command_agent_strays_total{model="agent"} 0`) {
		t.Error("what had left the group was not counted")
	}
	l.stop()
}

// N-07: nothing of an agent outlives a server that is killed, and the server after it
// does not run the agent again.
func TestKilledServerTakesItsAgentAlong(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	config := wandererConfig(t, dir)
	l := spawn(t, data, "--config", config)
	u := l.user()
	s := u.create(nil)
	u.follow(s, 0)
	u.send(s, "1", "work")
	await(t, filepath.Join(dir, "wandered"))
	l.kill()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for limit := time.Now().Add(patience); len(marked(t, dir)) > 0; <-look.C {
		if time.Now().After(limit) {
			t.Fatalf("the processes %q run without their server", marked(t, dir))
		}
	}
	l = spawn(t, data, "--config", config)
	u = l.user()
	events := u.follow(s, 0)
	if last := events[len(events)-1]; !done(last) {
		events = append(events, u.until(done)...)
	}
	if last := events[len(events)-1]; last.text("new_status") != "ERROR" {
		t.Errorf("the task ended with %s", last.raw)
	}
	if got := of(events, "response"); len(got) != 1 || !strings.Contains(got[0].text("text"), "interrupted") {
		t.Errorf("the user is told %s", shown(got))
	}
	if runs, _ := os.ReadFile(filepath.Join(dir, "runs")); string(runs) != "run\n" {
		t.Errorf("it has run %d times", strings.Count(string(runs), "run"))
	}
	l.stop()
}

// an agent inherits the environment without what other blocks keep secret, unless
// its own names it; and gets what its own sets. What it tells of that stays out of the log.
func TestEnvironmentOfAgent(t *testing.T) {
	for name, value := range map[string]string{
		"KEY": "1", "HEADER": "2", "PROXY": "http://u:p@127.0.0.1:1", "SERVER": "3", "ADDRESS": "4", "PROGRAM": "5", "OTHER": "6",
		"SHARED": "shared-secret", "OWN": "secret-of-its-own", "PLAIN": "plain",
	} {
		t.Setenv("PROBE_"+name, value)
	}
	path := write(t, `[model]
default = "agent"
[models.agent]
provider = "command"
command = "sh"
args = ["-c", "env | grep ^PROBE_ | sort | tee /dev/stderr"]
env = { "PROBE_SET" = "<${env:PROBE_OWN}>", "PROBE_PLAIN" = "another" }
inherit = ["PROBE_SHARED"]
[models.other]
provider = "command"
env = { "X" = "env:PROBE_OTHER" }
[models.real]
provider = "openai"
model = "m"
base_url = "http://127.0.0.1:1/v1"
key_env = "PROBE_KEY"
headers = { "X-Token" = "env:PROBE_HEADER", "X-Other-Token" = "${env:PROBE_SHARED}" }
proxy = "env:PROBE_PROXY"
[[mcp]]
name = "web"
url = "http://127.0.0.1:1/?key=${env:PROBE_ADDRESS}"
headers = { "Authorization" = "Bearer ${env:PROBE_SERVER}" }
connect_timeout = "1s"
[[mcp]]
name = "program"
command = "parley-no-such-program"
env = { "TOKEN" = "env:PROBE_PROGRAM" }
`)
	l := startWith(t, t.TempDir(), func(m *Main) { m.Environ = os.Environ() }, "--config", path)
	u := l.user()
	s := u.create(nil)
	u.follow(s, 0)
	u.send(s, "1", "hello")
	const want = "PROBE_OWN=secret-of-its-own\nPROBE_PLAIN=another\nPROBE_SET=<secret-of-its-own>\nPROBE_SHARED=shared-secret"
	if got := of(u.until(done), "response"); len(got) != 1 || got[0].text("text") != want {
		t.Errorf("the agent sees %s", shown(got))
	}
	l.stop()
	if log := l.err.String(); strings.Contains(log, "shared-secret") || strings.Contains(log, "secret-of-its-own") || !strings.Contains(log, "PROBE_OWN=[secret]") {
		t.Errorf("the log says %s", log)
	}
}
