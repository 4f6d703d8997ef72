package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/conversation"
)

const everyBlock = `
[model]
default = "auto"
[command_agent]
ask_marker = "ASK:"
[models.gpt]
provider = "openai"
api = "chat"
base_url = "http://127.0.0.1:1/v1"
model = "gpt-x"
key_env = "PARLEY_GPT_KEY"
headers = { "X-Team" = "a", "X-Token" = "env:TEAM_TOKEN" }
extra = { reasoning = { effort = "low" }, stop = ["x", 1, 1.5, true] }
stream = false
max_output_tokens = 100
temperature = 1
alternate = true
idle_timeout = "5s"
connect_timeout = "2s"
max_bytes = "1 MiB"
proxy = "env:THE_PROXY"
label = "local"
order = 2
fallback = ["claude", "scripted"]
rate = "60/m"
burst = 5
max_concurrent = 7
[models.claude]
provider = "anthropic"
model = "c"
key_file = "claude.key"
[models.agent]
provider = "command"
command = "sh"
args = ["-c", "true"]
timeout = "1s"
[models.mute]
provider = "command"
ask_marker = ""
[models.demo]
provider = "scripted"
token_delay = "1ms"
[[mcp]]
name = "files"
command = "server"
env = { "FILES_TOKEN" = "env:FILES_TOKEN", "MODE" = "fast" }
never = ["read"]
[[mcp]]
name = "web"
url = "https://mcp.example.org/x?key=${env:WEB_KEY}"
headers = { "Authorization" = "Bearer ${file:web.key}" }
prefix = ""
`

func TestBlocksAreRead(t *testing.T) {
	path := write(t, everyBlock)
	from := sources{path: path, required: true, environ: []string{"PARLEY_GPT_KEY=k", "TEAM_TOKEN=tt", "THE_PROXY=http://u:p@proxy:1"}}
	c, err := loadConfig(from)
	if err != nil {
		t.Fatal(err)
	}
	one := 1.0
	gpt := modelBlock("gpt", "openai")
	gpt.API, gpt.BaseURL, gpt.Model, gpt.KeyEnv = "chat", "http://127.0.0.1:1/v1", "gpt-x", "PARLEY_GPT_KEY"
	gpt.Headers = map[string]string{"X-Team": "a", "X-Token": "${env:TEAM_TOKEN}"}
	gpt.Extra = map[string]any{"reasoning": map[string]any{"effort": "low"}, "stop": []any{"x", int64(1), 1.5, true}}
	gpt.Stream, gpt.MaxOutputTokens, gpt.Temperature, gpt.Alternate = false, 100, &one, true
	gpt.IdleTimeout, gpt.ConnectTimeout, gpt.MaxBytes, gpt.Proxy = 5*time.Second, 2*time.Second, 1<<20, "env:THE_PROXY"
	gpt.Label, gpt.Order, gpt.Fallback, gpt.Rate, gpt.Burst, gpt.MaxConcurrent = "local", 2, []string{"claude", "scripted"}, "60/m", 5, 7
	claude := modelBlock("claude", "anthropic")
	claude.Model, claude.KeyFile = "c", filepath.Join(filepath.Dir(path), "claude.key")
	agent := modelBlock("agent", "command")
	agent.Command, agent.Args, agent.Timeout, agent.AskMarker = "sh", []string{"-c", "true"}, time.Second, "ASK:"
	demo := modelBlock("demo", "scripted")
	demo.TokenDelay = time.Millisecond
	if want := []ModelBlock{agent, claude, demo, gpt, modelBlock("mute", "command")}; !reflect.DeepEqual(c.Models, want) {
		t.Errorf("models:\n got %+v\nwant %+v", c.Models, want)
	}
	files, web := mcpBlock("files"), mcpBlock("web")
	files.Command, files.Env, files.Never = "server", map[string]string{"FILES_TOKEN": "${env:FILES_TOKEN}", "MODE": "fast"}, []string{"read"}
	web.URL, web.Prefix = "https://mcp.example.org/x?key=${env:WEB_KEY}", ""
	web.Headers = map[string]string{"Authorization": "Bearer ${file:" + filepath.Join(filepath.Dir(path), "web.key") + "}"}
	if want := []MCPBlock{files, web}; !reflect.DeepEqual(c.MCP, want) {
		t.Errorf("mcp:\n got %+v\nwant %+v", c.MCP, want)
	}

	var out bytes.Buffer
	if err := printConfig(&out, c); err != nil {
		t.Fatal(err)
	}
	from.path = write(t, out.String())
	again, err := loadConfig(from)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !reflect.DeepEqual(c, again) {
		t.Errorf("printed and read back:\n got %+v\nwant %+v", again, c)
	}
}

// Everything that is wrong with blocks is said at once, at its line, and never
// with the value that may be a secret.
func TestEveryProblemOfBlocksIsNamed(t *testing.T) {
	const secret = "sk-0123456789"
	path := write(t, `[model]
default = "absent"
[models.a]
provider = "gpt"
[models.b]
provider = "openai"
model = "m"
key = "sk-0123456789"
key_env = "sk-0123456789"
api = "soap"
args = ["x"]
temperature = 3
fallback = ["b", "nobody"]
rate = "many"
burst = 2
headers = { "Authorization" = "Bearer sk-0123456789" }
proxy = "http://u:sk-0123456789@proxy"
[models.c]
provider = "openai"
base_url = "ftp://x?key=sk-0123456789"
[models.d]
provider = "command"
timeout = "0s"
context_pairs = 0
[models.e]
provider = "command"
max_concurrent = 0
[models.scripted]
provider = "scripted"
[models.f]
provider = "anthropic"
model = "m"
key_env = "NOT_SET"
key_file = "also"
[[mcp]]
name = "x y"
[[mcp]]
name = "z"
command = "c"
url = "https://u:sk-0123456789@h"
env = { "API_KEY" = "sk-0123456789" }
allow = []
approval = "maybe"
[[mcp]]
name = "z"
url = "https://h?token=sk-0123456789"
tools = 1
[[agents]]
name = "coordinator"
model = "nobody"
tools = ["z_tool", "other_tool"]
[[agents]]
name = "developer"
model = "g"
[models.g]
provider = "openai"
model = "m"
key_env = "NOT_SET"
[models.h]
provider = "openai"
model = "m"
[mcp_limits]
backoff_min = "1h"
`)
	_, err := loadConfig(sources{path: path, required: true, set: []string{"models.g.model=x", "mcp=1"}})
	var bad *ConfigError
	if !errors.As(err, &bad) {
		t.Fatalf("got %v, want a *ConfigError", err)
	}
	got := strings.ReplaceAll(bad.Error(), path, "config.toml")
	for _, want := range []string{
		`config.toml:2: model.default = "absent": must be "scripted", "b", "c", "d", "e"`,
		`config.toml:4: model "a": provider = "gpt": must be one of`,
		`config.toml:8: model "b": there is no key key: a key does not stand in the file`,
		`config.toml:9: model "b": key_env must be the name of a variable`,
		`config.toml:10: model "b": api = "soap": must be one of "responses", "chat"`,
		`config.toml:11: model "b" has no key args; it has: alternate, api, base_url`,
		`config.toml:12: model "b": temperature = 3: must be a number from 0 to 2`,
		`config.toml:13: model "b": fallback: "b" is the model itself`,
		`config.toml:13: model "b": fallback: there is no model "nobody"`,
		`config.toml:14: model "b": rate = "many": must be a number of calls`,
		`config.toml:16: model "b": headers: Authorization: a secret does not stand in the file`,
		`config.toml:17: model "b": proxy holds a password`,
		`config.toml:18: model "c": the name of the model is missing`,
		`config.toml:18: model "c": the base URL is not an http or https address`,
		// an option that is 0 is an error by its name.
		`config.toml:23: model "d": timeout = "0s": must be a duration`,
		`config.toml:24: model "d": context_pairs = 0: must be a whole number of at least 1`,
		`config.toml:25: model "e": max_concurrent must be at least 1`,
		`config.toml:28: model "scripted": the name is the built-in model's`,
		`config.toml:34: model "f": give key_env or key_file, not both`,
		`config.toml:36: mcp "x y": a name is 1 to 32`,
		`config.toml:35: mcp "x y": give command or url, and not both`,
		`config.toml:37: mcp "z": give command or url, and not both`,
		`config.toml:40: mcp "z": url: must not hold a user or password`,
		`config.toml:41: mcp "z": env: API_KEY: a secret does not stand in the file`,
		`config.toml:42: mcp "z": allow must name tools`,
		`config.toml:43: mcp "z": approval = "maybe": must be "ask" or "never"`,
		`config.toml:45: mcp "z": there are two servers of this name`,
		`config.toml:46: mcp "z": url: a secret does not stand in the file`,
		`config.toml:47: mcp "z" has no key tools`,
		`config.toml:48: agent "coordinator": there is no tool "other_tool"`,
		`config.toml:48: agent "coordinator": model = "nobody": must be "scripted", "b"`,
		`config.toml:52: agent "developer" asks for the model "g", which cannot be used: the variable NOT_SET is not set`,
		`config.toml:63: mcp_limits.backoff_min = "1h": must be at most mcp_limits.backoff_max`,
		`--set models.g.model: models can only be changed in the file`,
		`--set mcp: mcp can only be changed in the file`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("not said: %s", want)
		}
	}
	if n := len(bad.problems); n != 35 {
		t.Errorf("%d problems, want 35:\n%s", n, got)
	}
	if strings.Contains(got, secret) {
		t.Errorf("a secret is repeated:\n%s", got)
	}
}

// model.default = "auto": the first block, by order and then by name, that has
// what it needs; else scripted. The reason says which.
func TestModelIsChosen(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(" k \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(name, provider, rest string) string {
		return "[models." + name + "]\nprovider = \"" + provider + "\"\n" + rest + "\n"
	}
	withKey := "model = \"m\"\nkey_env = \"A_KEY\""
	for _, c := range []struct{ name, file, environ, want, why string }{
		{"nothing is configured", "", "A_KEY=k", "scripted", "no other model is configured"},
		{"its key is there", with("b", "openai", withKey), "A_KEY=k", "b", "the first configured model"},
		{"its key is missing", with("b", "openai", withKey), "", "scripted", "b: the variable A_KEY is not set"},
		{"its key is blank", with("b", "openai", withKey), "A_KEY= ", "scripted", "A_KEY is not set"},
		{"by name", with("b", "openai", withKey) + with("a", "anthropic", withKey), "A_KEY=k", "a", ""},
		{"by order", with("b", "openai", withKey+"\norder = -1") + with("a", "anthropic", withKey), "A_KEY=k", "b", ""},
		{"a key in a file", with("b", "openai", "model = \"m\"\nkey_file = \""+key+"\""), "", "b", ""},
		{"no such file", with("b", "openai", "model = \"m\"\nkey_file = \"none\""), "", "scripted", "cannot be read"},
		{"a server of one's own needs no key", with("b", "openai", "model = \"m\"\nbase_url = \"http://127.0.0.1:11434/v1\""), "", "b", ""},
		{"the provider's own does", with("b", "openai", "model = \"m\""), "", "scripted", "it has no key"},
		{"or a header", with("b", "anthropic", "model = \"m\"\nheaders = { x-api-key = \"env:A_KEY\" }"), "A_KEY=k", "b", ""},
		{"a program that is there", with("b", "command", "command = \"sh\""), "", "b", ""},
		{"a program that is not", with("b", "command", "command = \"no-such-program\""), "", "scripted", "no-such-program"},
		{"a scripted block is not chosen", with("b", "scripted", ""), "", "scripted", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			environ := []string{c.environ}
			config, err := loadConfig(sources{path: write(t, "[model]\ndefault = \"auto\"\n"+c.file), required: true, environ: environ})
			if err != nil {
				t.Fatal(err)
			}
			got, why := config.defaultModel(lookupIn(environ))
			if got != c.want || !strings.Contains(why, c.why) || why == "" {
				t.Errorf("chosen %s, because %s; want %s, because %s", got, why, c.want, c.why)
			}
			var log bytes.Buffer
			models, err := config.models(lookupIn(environ), newLogger(&log, LogConfig{Level: "info", Format: "json"}), nil)
			if err != nil || models.routes[""] == nil || models.routes["scripted"] == nil {
				t.Fatalf("%v: %v", models, err)
			}
			if !strings.Contains(log.String(), `"model":"`+c.want+`"`) {
				t.Errorf("the log does not say which: %s", log.String())
			}
			if err := models.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

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

// Each example of docs/MODELS.md is a configuration that works.
func TestDocumentedModelsWork(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "MODELS.md"))
	if err != nil {
		t.Fatal(err)
	}
	environ := []string{"OPENAI_API_KEY=k", "ANTHROPIC_API_KEY=k"}
	n := 0
	for _, part := range strings.Split(string(text), "```toml\n")[1:] {
		example, _, _ := strings.Cut(part, "```")
		n++
		c, err := loadConfig(sources{path: write(t, example), required: true, environ: environ})
		if err != nil {
			t.Errorf("%v:\n%s", err, example)
			continue
		}
		models, err := c.models(lookupIn(environ), newLogger(&bytes.Buffer{}, LogConfig{}), nil)
		if err != nil || models.routes[""] == nil || len(c.MCP) == 0 && models.routes[""].Label() == "scripted" {
			t.Errorf("%v:\n%s", err, example)
		}
		if err := models.Close(); err != nil {
			t.Error(err)
		}
	}
	if n < 5 {
		t.Errorf("%d examples only", n)
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

// command_agent.ask_marker is for the blocks that say nothing else, also when it
// comes from the command line; an agent of such a model has no engine tools.
func TestAskMarkerOfAllAgents(t *testing.T) {
	path := write(t, "[models.a]\nprovider = \"command\"\n[models.b]\nprovider = \"command\"\nask_marker = \"B:\"\n[[agents]]\nname = \"developer\"\nmodel = \"a\"\n")
	c, err := loadConfig(sources{path: path, required: true, set: []string{"command_agent.ask_marker=Q:"}})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := c.block("a").AskMarker, c.block("b").AskMarker; a != "Q:" || b != "B:" {
		t.Errorf("the markers are %q and %q", a, b)
	}
	agents := c.rules(nil, scriptedName).Agents
	if agents["developer"].EngineTools || !agents[conversation.Coordinator].EngineTools {
		t.Errorf("engine tools: %v, %v", agents["developer"].EngineTools, agents[conversation.Coordinator].EngineTools)
	}
	if c.rules(nil, "a").Agents[conversation.Coordinator].EngineTools {
		t.Error("the default model has engine tools")
	}
}

// A key that changes nothing would be a lie: each one of a block reaches its
// adapter or its limits, or is used as said here.
func TestEveryKeyOfBlocksIsUsed(t *testing.T) {
	elsewhere := map[string]string{"provider": "build", "order": "TestModelIsChosen", "fallback": "TestFallbackAnswers", "burst": "goes with rate"}
	for _, provider := range []string{providerOpenAI, providerAnthropic, providerCommand, providerScripted} {
		start := modelBlock("x", provider)
		start.Model, start.Rate = "m", "1/s"
		script := write(t, "[[rule]]\n")
		c := DefaultConfig()
		reach := func(b ModelBlock) string {
			m, err := b.build(&c, func(value string) (string, error) {
				if value == b.Proxy {
					return "http://filled-proxy", nil
				}
				return "filled-" + value, nil
			}, nil)
			if err != nil {
				return err.Error() // a changed value that the adapter refuses has reached it
			}
			options, _, _ := strings.Cut(fmt.Sprintf("%+v", m), " Client:")
			options, _, _ = strings.Cut(options, " log:")
			options, _, _ = strings.Cut(options, " script:")
			return options + fmt.Sprintf("%+v", b.limits())
		}
		before := reach(start)
		if before != reach(start) || strings.Contains(before, "0xc") {
			t.Fatalf("%s: not the same twice: %s", provider, before)
		}
		for _, f := range keysOf(provider) {
			b := start
			v := reflect.ValueOf(&b).Elem().FieldByIndex(f.index)
			switch {
			case f.choices != nil:
				for _, choice := range f.choices {
					if v.String() != choice {
						v.SetString(choice)
						break
					}
				}
			case f.key == "base_url":
				v.SetString("http://127.0.0.1/v7")
			case f.key == "script":
				v.SetString(script)
			case f.key == "rate":
				v.SetString("7/m")
			case f.key == "proxy":
				v.SetString("env:PROXY")
			case f.typ == numberType:
				one := 1.0
				v.Set(reflect.ValueOf(&one))
			case f.typ == textsType:
				v.Set(reflect.ValueOf(map[string]string{"x": "env:Y"}))
			case f.typ == anyType:
				v.Set(reflect.ValueOf(map[string]any{"x": "y"}))
			case v.Kind() == reflect.String:
				v.SetString("changed")
			case v.Kind() == reflect.Bool:
				v.SetBool(!v.Bool())
			case v.Kind() == reflect.Slice:
				v.Set(reflect.ValueOf([]string{"changed"}))
			default:
				v.SetInt(v.Int() + 1)
			}
			used := reach(b) != before
			if _, excused := elsewhere[f.key]; !used && !excused {
				t.Errorf("%s: %s reaches nothing", provider, f.key)
			}
		}
	}
	block, change := mcpBlock("x"), func(b *MCPBlock, f field) {
		v := reflect.ValueOf(b).Elem().FieldByIndex(f.index)
		switch {
		case f.typ == textsType:
			v.Set(reflect.ValueOf(map[string]string{"x": "env:Y"}))
		case v.Kind() == reflect.String:
			v.SetString("changed")
		case v.Kind() == reflect.Slice:
			v.Set(reflect.ValueOf([]string{"changed"}))
		default:
			v.SetInt(v.Int() + 1)
		}
	}
	reach := func(b MCPBlock) string {
		c := DefaultConfig()
		c.MCP = []MCPBlock{b}
		return fmt.Sprintf("%+v", c.mcpOptions(nil, nil, nil).Servers)
	}
	for _, f := range fieldsOf(reflect.TypeFor[MCPBlock]()) {
		b := block
		change(&b, f)
		if reach(b) == reach(block) {
			t.Errorf("mcp: %s reaches nothing", f.key)
		}
	}
}
