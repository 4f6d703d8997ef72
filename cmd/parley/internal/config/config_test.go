package config

import (
	"bytes"
	"errors"
	"os"
	"parley/conversation"
	"parley/conversation/policy"
	"parley/gateway/auth"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

const (
	root    = "../../../.."
	shipped = root + "/config.toml"
)

func TestShippedConfigIsTheDefault(t *testing.T) {
	got, err := Load(Sources{Path: shipped, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	if want := Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("config.toml and the built-in defaults differ:\n got %+v\nwant %+v", got, want)
	}
}

func TestShippedConfigShowsEveryKey(t *testing.T) {
	data, err := os.ReadFile(shipped)
	if err != nil {
		t.Fatal(err)
	}
	at := positions(shipped, data)
	for _, f := range fieldsOf(reflect.TypeFor[Config]()) {
		if _, ok := at[f.key]; !ok {
			t.Errorf("config.toml does not show %s", f.key)
		}
	}
	for blocks, of := range map[string]reflect.Type{
		"[[agents]]": reflect.TypeFor[Agent](), "# [models.": reflect.TypeFor[ModelBlock](), "# [[mcp]]": reflect.TypeFor[MCPBlock](),
	} {
		_, rest, _ := strings.Cut(string(data), blocks)
		for _, f := range fieldsOf(of) {
			if !regexp.MustCompile(`(?m)^(# )?` + f.key + ` = `).MatchString(rest) {
				t.Errorf("config.toml does not show the key %s of %s", f.key, blocks)
			}
		}
	}
}

func TestEnvironmentNamesAreUnique(t *testing.T) {
	seen := map[string]string{}
	for _, f := range fieldsOf(reflect.TypeFor[Config]()) {
		if other, ok := seen[f.env()]; ok {
			t.Errorf("%s is the variable of %s and of %s", f.env(), other, f.key)
		}
		seen[f.env()] = f.key
	}
}

func TestLaterSourcesWin(t *testing.T) {
	path := write(t, "[inbox]\nmode = \"queue\"\nmax_queued = 7\n[task]\nmax_steps = 3\n")
	c, err := Load(Sources{
		Path: path, Required: true,
		Environ: []string{"PARLEY_INBOX_MODE=collect", "PARLEY_TASK_MAX_STEPS=4", "PARLEY_LISTEN=127.0.0.1:1", "HOME=/", "PARLEY_AGENT_RUN=an agent has started us"},
		Listen:  "127.0.0.1:2", Data: "elsewhere",
		Set: []string{"task.max_steps=5", "retention.max_age=0", "no_reply.sentinels=A, B", `gateway.public_hosts=["x,y.example"]`, "scripted.token_delay=0s", "limits.frame_bytes=1 MiB", "parts.enabled=false", "auth.mode=keys"},
	})
	if err != nil {
		t.Fatal(err)
	}
	type seen struct {
		Mode           string
		Queued, Steps  int
		Listen, Data   string
		Sentinels, Pub []string
		Delay          time.Duration
		Frame          int
		Parts          bool
	}
	p := c.Policy()
	got := seen{p.Mode.String(), p.MaxQueued, p.MaxSteps, c.Gateway.Listen, c.Data, p.Sentinels, c.Gateway.PublicHosts, c.Scripted.Options.TokenDelay, c.Gateway.Limits.FrameBytes, p.PartsEnabled}
	want := seen{"collect", 7, 5, "127.0.0.1:2", "elsewhere", []string{"A", "B"}, []string{"x,y.example"}, 0, 1 << 20, false}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Everything that is wrong is said at once, each with file, line and key, and
// with what would be right.
func TestEveryProblemIsNamed(t *testing.T) {
	path := write(t, `listen = "0.0.0.0:8080"
empty_answr = "silent"
[inbox]
mode = "stear"
max_queued = -1
collect_window = 2
[retry]
backoff_min = "40s"
[storage]
hard_free = "1 GiB"
soft_free = "1 MiB"
[no_such]
key = 1
[admission]
max_concurrent = "many"
[limits]
text_bytes = "1 MiB"
[auth]
mode = "none of them"
[task]
max_steps = 0
[texts]
busy = " "
[parts]
enabled = "yes"
[model]
default = "gpt"
[command_agent]
ask_marker = " ASK:"
[[agents]]
name = "developer"
toools = ["*"]
max_steps = -1
[[agents]]
name = "outside"
[[agents]]
name = "writer"
tools = ["hammer"]
model = "gpt"
`)
	_, err := Load(Sources{
		Path: path, Required: true,
		Environ: []string{"PARLEY_INBX_MODE=queue", "PARLEY_DRAIN_TIMEOUT=-1s", "PARLEY_XYZZY=1"},
		Set:     []string{"task.max_step=3", "inbox.triage_agent=nobody", "session.idle", "agents.developer.model=x", "gateway.allowed_origins=example.org"},
	})
	var bad *Error
	if !errors.As(err, &bad) {
		t.Fatalf("got %v, want a *Error", err)
	}
	got := strings.ReplaceAll(bad.Error(), path, "config.toml")
	for _, want := range []string{
		`config.toml:2: there is no key empty_answr; did you mean empty_answer?`,
		`config.toml:4: inbox.mode = "stear": must be one of "steer", "queue", "collect", "interrupt", "reject"`,
		`config.toml:5: inbox.max_queued = -1: must be a whole number from 0 to 1000000`,
		`config.toml:6: inbox.collect_window = 2: must be a duration such as "1.5s" or "10m" from 1ms to 1h`,
		`config.toml:8: retry.backoff_min = "40s": must be at most retry.backoff_max, which is "30s"`,
		`config.toml:10: storage.hard_free = "1 GiB": must be at most storage.soft_free, which is "1 MiB"`,
		`config.toml:12: there is no key no_such`,
		`config.toml:15: admission.max_concurrent = "many": must be a whole number from 1`,
		`config.toml:17: limits.text_bytes = "1 MiB": must be at most limits.frame_bytes, which is "256 KiB"`,
		`config.toml:19: auth.mode = "none of them": must be one of "none", "keys", "jwt", "proxy"`,
		`config.toml:21: task.max_steps = 0: must be a whole number from 1`,
		`config.toml:23: texts.busy = " ": must not be blank`,
		`config.toml:25: parts.enabled = "yes": must be true or false`,
		`config.toml:27: model.default = "gpt": must be "scripted", or "auto"`,
		`config.toml:29: command_agent.ask_marker = " ASK:": must be one line without space around it`,
		`config.toml:32: an agent has no key toools`,
		`config.toml:33: agent "developer": max_steps = -1: must be a whole number from 0`,
		`config.toml:34: agent "outside" is built in and cannot be changed`,
		`config.toml:36: agent "writer" needs a prompt or a prompt_file`,
		`config.toml:36: agent "writer": model = "gpt": must be "scripted", or "" (model.default)`,
		`config.toml:36: agent "writer": there is no tool "hammer"; there are: calculate, clock, search_session, wait, and "*" for all`,
		`PARLEY_INBX_MODE: no key belongs to this variable; did you mean PARLEY_INBOX_MODE?`,
		`PARLEY_DRAIN_TIMEOUT: drain.timeout = "-1s": must be a duration such as "1.5s" or "10m" of at least 1ms`,
		`PARLEY_XYZZY: no key belongs to this variable`,
		`--set task.max_step: there is no key task.max_step; did you mean task.max_steps?`,
		`--set inbox.triage_agent: inbox.triage_agent = "nobody": must name an agent; there are: communicator, coordinator, developer, researcher, writer`,
		`--set session.idle: write --set KEY=VALUE`,
		`--set agents.developer.model: agents can only be changed in the file`,
		`--set gateway.allowed_origins: gateway.allowed_origins = ["example.org"]: each must be an origin`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("not said: %s", want)
		}
	}
	if n := len(bad.problems); n != 29 {
		t.Errorf("%d problems, want 29:\n%s", n, got)
	}
}

func TestBrokenTOMLNamesLineAndColumn(t *testing.T) {
	path := write(t, "[inbox]\nmode = steer\n")
	_, err := Load(Sources{Path: path, Required: true})
	if err == nil || !strings.Contains(err.Error(), path+":2:8: ") {
		t.Errorf("got %v, want it to name line 2, column 8", err)
	}
	path = write(t, "[inbox]\nmode = \"queue\"\nmode = \"steer\"\n")
	if _, err = Load(Sources{Path: path, Required: true}); err == nil || !strings.Contains(err.Error(), "mode") {
		t.Errorf("a key that is there twice: got %v", err)
	}
}

func TestMissingFile(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "none.toml")
	if _, err := Load(Sources{Path: absent}); err != nil {
		t.Errorf("config.toml need not exist: %v", err)
	}
	_, err := Load(Sources{Path: absent, Required: true})
	if err == nil || !strings.Contains(err.Error(), "there is no such file") {
		t.Errorf("--config of an absent file: %v", err)
	}
}

func TestAgentsChangeAndAdd(t *testing.T) {
	path := write(t, "[[agents]]\nname = \"developer\"\nmay_ask = false\ncoverage = \"off\"\n[[agents]]\nname = \"poet\"\nprompt_file = \"poet.md\"\ntools = []\n")
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "poet.md"), []byte("You write poems.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Sources{Path: path, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	want := Default().Agents
	want[1].MayAsk, want[1].Coverage = false, "off"
	want = append(want, Agent{Name: "poet", Prompt: "You write poems.", PromptFile: "poet.md", Models: []string{}, Tools: []string{}, MayAsk: true})
	if !reflect.DeepEqual(c.Agents, want) {
		t.Errorf("got %+v\nwant %+v", c.Agents, want)
	}
}

func TestPrintedConfigReadsBack(t *testing.T) {
	first := Default()
	first.Auth.Mode = auth.ModeKeys
	first.Auth.Keys = []auth.Key{{Hash: auth.Hash("x"), Tenant: "acme", User: "ann", Name: "Ann", Scopes: []string{"chat"}, Expires: "2030-01-31"}}
	p, l := first.Policy(), &first.Gateway.Limits
	p.Mode, p.Texts.Busy, first.Gateway.PublicHosts = conversation.ModeQueue, "a \"b\"\\\n\tc \x01 …", []string{"a.example", "b.example:1"}
	p.BackoffMin, l.FrameBytes, l.TextBytes = 90*time.Second, 123457, 1000
	l.CommandsPerSecond = 2_000_000
	first.Agents = append(first.Agents, Agent{Name: "x", Prompt: "p", Models: []string{}, Tools: []string{"clock"}, MaxSteps: 3})
	p.BackoffMax = 3 * time.Hour
	var out bytes.Buffer
	if err := Print(&out, first); err != nil {
		t.Fatal(err)
	}
	again, err := Load(Sources{Path: write(t, out.String()), Required: true})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !reflect.DeepEqual(first, again) {
		t.Errorf("printed and read back:\n got %+v\nwant %+v", again, first)
	}
}

func TestSecretsAreMasked(t *testing.T) {
	type secretive struct {
		Token string `key:"token" secret:"true"`
		Name  string `key:"name"`
	}
	v := reflect.ValueOf(&secretive{Token: "hush", Name: "n"}).Elem()
	var got []string
	for _, f := range fieldsOf(v.Type()) {
		got = append(got, f.text(v))
	}
	if want := []string{`"***"`, `"n"`}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// D-27: the instructions of the default coordinator.
func TestCoordinatorPromptTeachesTheRules(t *testing.T) {
	p := prompt("coordinator")
	for _, want := range []string{
		"`respondToUser`", "several requests", "`askUser`", "`blocking` false", "go on", "request of its own",
		"answer or delegate it, and then go on", "`amend`", "`coverMessage`", "`NO_REPLY`",
		"Never merge the answers", "number in `inReplyTo`", "Open messages:", "[reminder: ", "in the language in which it was written",
	} {
		if !strings.Contains(p, want) {
			t.Errorf("the coordinator's prompt does not say %q", want)
		}
	}
}

// the texts are configurable and reach the machine; so does every policy,
// and no key changes two of them.
func TestConfigReachesThePolicy(t *testing.T) {
	changedBy := map[string]string{} // field of the policy → key
	var compare func(key, prefix string, before, after reflect.Value)
	compare = func(key, prefix string, before, after reflect.Value) {
		for i := range before.NumField() {
			name := prefix + before.Type().Field(i).Name
			if before.Field(i).Kind() == reflect.Struct {
				compare(key, name+".", before.Field(i), after.Field(i))
				continue
			}
			if _, known := changedBy[name]; !known {
				changedBy[name] = ""
			}
			if reflect.DeepEqual(before.Field(i).Interface(), after.Field(i).Interface()) {
				continue
			}
			if other := changedBy[name]; other != "" {
				t.Errorf("%s and %s change policy.Policy.%s", other, key, name)
			}
			changedBy[name] = key
		}
	}
	before := reflect.ValueOf(policy.DefaultPolicy())
	for key, c := range EachKeyChanged() {
		compare(key, "", before, reflect.ValueOf(*c.Policy()))
	}
	for name, key := range changedBy {
		// Channels are of Config.Channels; assemble.TestEveryKeyIsUsed proves that they reach the engine.
		// Own is what a session brings; there is none in a configuration.
		if key == "" && name != "Channels" && name != "Own" {
			t.Errorf("no key changes policy.Policy.%s", name)
		}
		if text, ok := strings.CutPrefix(name, "Texts."); ok && key != "texts."+strings.ToLower(text) {
			t.Errorf("texts are mixed up: %s changes %s", key, name)
		}
	}
}

// The documents name only keys that there are.
func TestDocumentedKeysExist(t *testing.T) {
	known, sections := map[string]bool{}, map[string]bool{}
	for _, key := range policy.OverrideKeys() {
		known[key] = true // some are of sessions alone
	}
	for _, f := range fieldsOf(reflect.TypeFor[Config]()) {
		known[f.key] = true
		if section, _, ok := strings.Cut(f.key, "."); ok {
			sections[section] = true
		}
	}
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(documents) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	dotted := regexp.MustCompile("`([a-z_]+)\\.([a-z_.]+)`")
	for _, d := range documents {
		text, err := os.ReadFile(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range dotted.FindAllStringSubmatch(string(text), -1) {
			key := m[1] + "." + m[2]
			if sections[m[1]] && !known[key] && !strings.HasSuffix(key, ".go") {
				t.Errorf("%s names the key %s, which there is not", filepath.Base(d), key)
			}
		}
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Two agents whose names give one delegation tool are refused: a model could not
// say which one it means.
func TestAgentsWithOneAlias(t *testing.T) {
	agent := func(name string) string { return "[[agents]]\nname = \"" + name + "\"\nprompt = \"You are one.\"\n" }
	for _, c := range []struct {
		first, second string
		ok            bool
	}{{"code-review", "code_review", false}, {"code-review", "codereview", true}} {
		path := write(t, agent(c.first)+agent(c.second))
		_, err := Load(Sources{Path: path, Required: true})
		if c.ok != (err == nil) {
			t.Errorf("%s and %s: %v", c.first, c.second, err)
		}
		want := `:4: agents "code-review" and "code_review": both are delegated to by the tool delegateToCodeReview`
		if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
