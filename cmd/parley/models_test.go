package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// Keys are in no log, error, event, answer or print, whatever the provider says.
func TestKeysStayInside(t *testing.T) {
	const fromFile = "file-secret-abcdef012345"
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("X-Token") != fromFile {
			t.Errorf("the header is %q", r.Header.Get("X-Token"))
		}
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":{"message":"Incorrect API key provided: ` + realKey + ` ` + r.Header.Get("X-Token") + `"}}`))
	}))
	defer server.Close()
	path := write(t, `[model]
default = "real"
[models.real]
provider = "openai"
model = "m"
base_url = "`+server.URL+`/v1"
key_env = "REAL_KEY"
headers = { "X-Token" = "file:token" }
[[mcp]]
name = "gone"
url = "http://127.0.0.1:1/`+`"
headers = { "Authorization" = "Bearer ${env:REAL_KEY}" }
connect_timeout = "5s"
`)
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "token"), []byte(fromFile+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"REAL_KEY=" + realKey}
	l := startWith(t, t.TempDir(), func(m *Main) { m.Environ = environ }, "--config", path, "--set", "log.level=debug")
	u := l.user()
	s := u.create(nil)
	seen := shown(u.follow(s, 0))
	u.send(s, "1", "hello")
	events := u.until(done)
	if last := events[len(events)-1]; last.text("new_status") != "ERROR" {
		t.Errorf("the task ended as %s", last.raw)
	}
	_, tasks := l.do("GET", "/api/tasks?session="+s, "")
	_, metrics := l.do("GET", "/metrics", "")
	l.stop()
	seen += shown(events) + string(tasks) + string(metrics) + l.out.String() + l.err.String()
	if asked.Load() == 0 || !strings.Contains(l.err.String(), "mcp") {
		t.Fatalf("nobody was asked: %s", l.err)
	}
	before := asked.Load()
	for _, command := range [][]string{{"config", "print"}, {"config", "check"}, {"doctor", "--listen", "127.0.0.1:0", "--data", t.TempDir()}} {
		m := NewMain()
		var out bytes.Buffer
		m.Stdout, m.Stderr, m.Environ = &out, &out, environ
		if code := m.Execute(t.Context(), append(command, "--config", path)); code != exitOK {
			t.Errorf("%v: code %d: %s", command, code, out.String())
		}
		seen += out.String()
	}
	if asked.Load() != before {
		t.Error("a command other than serve has asked the model: that may cost money")
	}
	for _, secret := range []string{realKey, fromFile} {
		if i := strings.Index(seen, secret); i >= 0 {
			t.Errorf("the secret is shown: %s", seen[max(0, i-300):i])
		}
	}
}

// One model fails for good, the next one answers; the log says so.
func TestFallbackAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer server.Close()
	path := write(t, "[model]\ndefault = \"real\"\n[models.real]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \""+server.URL+
		"\"\nfallback = [\"keyless\", \"scripted\"]\nrate = \"100/s\"\nmax_concurrent = 2\n[models.keyless]\nprovider = \"anthropic\"\nmodel = \"m\"\nkey_env = \"NOT_SET\"\n")
	l := start(t, t.TempDir(), "--config", path)
	u := l.user()
	if u.hello["model"] != "openai:m" {
		t.Errorf("hello names the model %v", u.hello["model"])
	}
	s := u.create(nil)
	u.follow(s, 0)
	u.send(s, "1", "/say hello")
	if got := of(u.until(done), "response"); len(got) != 1 || got[0].text("text") != "hello" {
		t.Errorf("the answer: %s", shown(got))
	}
	l.measured(
		`parley_model_fallback_calls_total{fallback="scripted",model="real"} 1`,
		`parley_model_fallback_answers_total{fallback="scripted",model="real"} 1`,
		`parley_model_limit_calls_total{model="real"} 1`, `parley_model_limit_calls_running{model="real"} 0`,
		`parley_model_limit_calls_waiting{model="real"} 0`, `parley_model_limit_waits_total{model="real"} 0`,
		`parley_model_limit_given_up_total{model="real"} 0`,
	)
	l.stop()
	for _, want := range []string{"a fallback cannot be used and is left out", "a model failed; asking the next one", "a fallback model has answered"} {
		if !strings.Contains(l.err.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, l.end())
		}
	}
	if !strings.Contains(l.out.String(), "real (openai:m)") {
		t.Errorf("it prints\n%s", l.out)
	}
}

// agentScript is a command-line agent: it asks first, and then says what it knows.
const agentScript = `#!/bin/sh
for last; do :; done
case "$last" in
*"[User Reply]"*) echo "You chose: $(printf '%s' "$last" | sed -n '/User Reply/{n;p;}')" ;;
*choose*) echo "I need to know."; echo "ASK: A or B?" ;;
*) echo "echo: $last" ;;
esac
`

// any program is an agent. A-26: doctor says whether it is there.
// a line that starts with the marker is a question; the reply goes on.
func TestCommandAgent(t *testing.T) {
	program := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(program, []byte(agentScript), 0o700); err != nil {
		t.Fatal(err)
	}
	path := write(t, "[model]\ndefault = \"agent\"\n[command_agent]\nask_marker = \"ASK:\"\n[models.agent]\nprovider = \"command\"\ncommand = \""+program+"\"\n")
	for _, stream := range []string{"true", "false"} {
		l := start(t, t.TempDir(), "--config", path, "--set", "model.stream="+stream)
		u := l.user("deltas")
		if u.hello["model"] != "command:agent" {
			t.Errorf("hello names the model %v", u.hello["model"])
		}
		s := u.create(nil)
		u.follow(s, 0)
		u.send(s, "1", "hello")
		events := u.until(done)
		if got := of(events, "response"); len(got) != 1 || got[0].text("text") != "echo: hello" {
			t.Errorf("the answer: %s", shown(got))
		}
		if n := len(of(events, "coverage_nudge")); n > 0 {
			t.Errorf("an agent without tools is nudged")
		}
		if got := len(of(events, "delta")) > 0; got != (stream == "true") {
			t.Errorf("model.stream=%s: deltas came: %v", stream, got)
		}
		ok := u.send(s, "2", "choose")
		events = u.until(func(f frame) bool { return f.Type == "task_status" && f.text("new_status") == "AWAITING_RESPONSE" })
		if q := of(events, "question"); len(q) != 1 || q[0].text("text") != "A or B?" {
			t.Fatalf("the question: %s", shown(events))
		}
		if status, body := l.do("POST", "/api/tasks/"+ok["task"].(string)+"/reply", `{"reply":"B"}`); status != 200 {
			t.Errorf("the reply: %d %s", status, body)
		}
		if got := of(u.until(done), "response"); len(got) != 1 || got[0].text("text") != "You chose: B" {
			t.Errorf("the answer: %s", shown(got))
		}
		l.measured(
			`parley_command_agent_starts_total{model="agent"} 3`, `parley_command_agent_processes{model="agent"} 0`,
			`parley_command_agent_calls_waiting{model="agent"} 0`, `parley_command_agent_failures_total{model="agent"} 0`,
			`parley_command_agent_timeouts_total{model="agent"} 0`, `parley_command_agent_kills_total{model="agent"} 0`,
			`parley_command_agent_cut_answers_total{model="agent"} 0`,
		)
		l.stop()
	}
	doctor := func(path string) (int, string) {
		code, out, _ := run("doctor", "--config", path, "--listen", "127.0.0.1:0", "--data", t.TempDir())
		return code, out
	}
	if code, out := doctor(path); code != exitOK || !strings.Contains(out, "ok  model agent") {
		t.Errorf("doctor: %d\n%s", code, out)
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if code, out := doctor(path); code != exitFailed || !strings.Contains(out, "BAD model agent") {
		t.Errorf("doctor without the program: %d\n%s", code, out)
	}
	if code, out := doctor(write(t, "[models.agent]\nprovider = \"command\"\ncommand = \"no-such-program\"\n")); code != exitOK || !strings.Contains(out, "-   model agent") {
		t.Errorf("doctor, and nobody uses the agent: %d\n%s", code, out)
	}
}
