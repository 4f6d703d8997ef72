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
		if r.Method == http.MethodPost {
			asked.Add(1)
		}
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
		want := exitOK
		if command[0] == "doctor" {
			want = exitFailed // the key is not accepted
		}
		if code := m.Execute(t.Context(), append(command, "--config", path)); code != want {
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

// doctor asks the address of each model, for nothing that costs: what is wrong is said by
// name, and as bad where the model is used. With --offline nobody is asked.
func TestDoctorAsksModels(t *testing.T) {
	sent := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent <- r.Method + " " + r.URL.Path
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Header.Get("Authorization") != "Bearer "+realKey:
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/v1/models":
			_, _ = w.Write([]byte(`{"data":[{"id":"good-1"},{"id":"good-2"},{"id":"other"}]}`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	block := func(name, rest string) string {
		return "[models." + name + "]\nprovider = \"openai\"\n" + rest + "\nbase_url = \"" + server.URL + "/v1\"\n"
	}
	path := write(t, "[model]\ndefault = \"right\"\n"+
		block("right", "model = \"good-1\"\nkey_env = \"REAL_KEY\"\nfallback = [\"stranger\", \"keyless\"]")+
		block("stranger", "model = \"good-3\"\nkey_env = \"REAL_KEY\"")+
		block("unused", "model = \"good-1\"\nkey_env = \"WRONG_KEY\"")+
		block("keyless", "model = \"m\"\nkey_env = \"NOT_SET\"")+
		"[models.gone]\nprovider = \"anthropic\"\nmodel = \"m\"\nkey_env = \"REAL_KEY\"\nbase_url = \"http://127.0.0.1:1\"\n")
	doctor := func(more ...string) (int, string) {
		m := NewMain()
		var out bytes.Buffer
		m.Stdout, m.Stderr, m.Environ = &out, &out, []string{"REAL_KEY=" + realKey, "WRONG_KEY=wrong-0123456789"}
		return m.Execute(t.Context(), append([]string{"doctor", "--config", path, "--listen", "127.0.0.1:0", "--data", t.TempDir()}, more...)), out.String()
	}
	host := strings.TrimPrefix(server.URL, "http://")
	code, out := doctor()
	for _, want := range []string{
		"ok  model right   good-1, listed by " + host + "; its key is there",
		"BAD model stranger " + host + ` has no model "good-3"; it has good-1, good-2, other`,
		"-   model unused  not used, and could not be: " + host + " does not accept the key (401)",
		"-   model keyless a fallback, and left out: the variable NOT_SET is not set",
		"-   model gone    not used, and could not be: nobody listens at 127.0.0.1:1 (connection refused)",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("doctor does not say %q:\n%s", want, out)
		}
	}
	if code != exitFailed || strings.Contains(out, realKey) || strings.Contains(out, "wrong-0123456789") {
		t.Errorf("code %d\n%s", code, out)
	}
	for range len(sent) {
		if got := <-sent; got != "GET /v1/models" {
			t.Errorf("doctor has sent %s", got)
		}
	}
	if code, out := doctor("--offline"); code != exitOK || len(sent) > 0 || !strings.Contains(out, "good-1 at "+host+", not asked; its key is there") {
		t.Errorf("offline: code %d, %d requests\n%s", code, len(sent), out)
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
			`parley_command_agent_strays_total{model="agent"} 0`,
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
