package assemble

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/internal/config"
	"parley/conversation"
)

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
			read, err := config.Load(config.Sources{Path: write(t, "[model]\ndefault = \"auto\"\n"+c.file), Required: true, Environ: environ})
			if err != nil {
				t.Fatal(err)
			}
			got, why := read.DefaultModel(config.LookupIn(environ))
			if got != c.want || !strings.Contains(why, c.why) || why == "" {
				t.Errorf("chosen %s, because %s; want %s, because %s", got, why, c.want, c.why)
			}
			var log bytes.Buffer
			models, err := OpenModels(&read, config.LookupIn(environ), slog.New(slog.NewJSONHandler(&log, nil)), nil)
			if err != nil || models.Routes[""] == nil || models.Routes["scripted"] == nil {
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

// command_agent.ask_marker is for the blocks that say nothing else, also when it
// comes from the command line; an agent of such a model has no engine tools.
func TestAskMarkerOfAllAgents(t *testing.T) {
	path := write(t, "[models.a]\nprovider = \"command\"\n[models.b]\nprovider = \"command\"\nask_marker = \"B:\"\n[[agents]]\nname = \"developer\"\nmodel = \"a\"\n")
	c, err := config.Load(config.Sources{Path: path, Required: true, Set: []string{"command_agent.ask_marker=Q:"}})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := c.Block("a").Command.AskMarker, c.Block("b").Command.AskMarker; a != "Q:" || b != "B:" {
		t.Errorf("the markers are %q and %q", a, b)
	}
	agents := config.Rules(&c, nil, config.ScriptedName).Agents
	if agents["developer"].EngineTools || !agents[conversation.Coordinator].EngineTools {
		t.Errorf("engine tools: %v, %v", agents["developer"].EngineTools, agents[conversation.Coordinator].EngineTools)
	}
	if config.Rules(&c, nil, "a").Agents[conversation.Coordinator].EngineTools {
		t.Error("the default model has engine tools")
	}
}

// The built-in prompts speak of the engine's tools, so a command-line agent is given
// only a prompt that the configuration has. It may do without.
func TestPromptsOfCommandAgents(t *testing.T) {
	path := write(t, `[models.a]
provider = "command"
[[agents]]
name = "developer"
model = "a"
[[agents]]
name = "researcher"
model = "a"
prompt = "You find things out."
[[agents]]
name = "tester"
model = "a"
`)
	c, err := config.Load(config.Sources{Path: path, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	agents := config.Rules(&c, nil, config.ScriptedName).Agents
	for name, want := range map[conversation.AgentName]string{"developer": "", "researcher": "You find things out.", "tester": ""} {
		if got := agents[name].Prompt; got != want {
			t.Errorf("%s is told %q, want %q", name, got, want)
		}
	}
	if agents[conversation.Coordinator].Prompt == "" || config.Rules(&c, nil, "a").Agents[conversation.Coordinator].Prompt != "" {
		t.Error("the built-in prompt goes to a program, or to no model")
	}
}

// Each example of docs/MODELS.md is a configuration that works.
func TestDocumentedModelsWork(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("../../../..", "docs", "MODELS.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, part := range strings.Split(string(text), "```toml\n")[1:] {
		example, _, _ := strings.Cut(part, "```")
		n++
		var environ []string
		if m := variable.FindStringSubmatch(example); m != nil {
			environ = []string{m[1] + "=k"}
		}
		if name := blockOf.FindStringSubmatch(example); name != nil && !strings.Contains(example, "[model]") { // a profile
			example = "[model]\ndefault = \"" + name[1] + "\"\n" + example
		}
		c, err := config.Load(config.Sources{Path: write(t, example), Required: true, Environ: environ})
		if err != nil {
			t.Errorf("%v:\n%s", err, example)
			continue
		}
		models, err := OpenModels(&c, config.LookupIn(environ), slog.New(slog.DiscardHandler), nil)
		if err != nil || models.Routes[""] == nil || len(c.MCP) == 0 && models.Routes[""].Label() == "scripted" {
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

// A key that changes nothing would be a lie: each one reaches a room, or is used
// by main as said here.
func TestEveryKeyIsUsed(t *testing.T) {
	byMain := map[string]string{
		"listen": "the gateway's", "data": "pebble.Open", "memory.mode": "Open or OpenEphemeral",
		"model.stream": "TestStreamingCanBeTurnedOff", "scripted.token_delay": "scripted.Options",
		"scripted.script": "scripted.Options", "command_agent.ask_marker": "TestAskMarkerOfAllAgents",
		"backup.every": "TestScheduledBackups", "backup.keep": "TestScheduledBackups", "backup.dir": "TestScheduledBackups",
		"log.level": "newLogger", "log.format": "newLogger", "log.requests": "TestTracesAndRequestLog", "log.repeat": "logs.New",
		"tracing.endpoint": "TestTracesAndRequestLog", "tracing.sample": "tracing.Open", "tracing.headers": "TestTracesAndRequestLog", "tracing.content": "tracing.Open",
		"cluster.tls_key": "TestNodesKnowEachOther",
		"cluster.tls_ca":  "TestNodesKnowEachOther", "cluster.insecure": "loader.cluster",
		"process.heap_floor": "TestHeapFloorOfTheServer", "process.procs": "TestProcsOfTheServer", "process.contention": "TestContentionOfTheServer",
	}
	reach := func(c config.Config) string {
		node, _ := Cluster(&c, "v", slog.New(slog.DiscardHandler))
		shared := Shared(&c, "dsn", nil, nil)
		var platforms []any
		for via, ch := range c.Channels.Chat() {
			workspaces := map[conversation.Via][]string{conversation.ViaSlack: c.Channels.Slack.Allowed, conversation.ViaDiscord: c.Channels.Discord.Allowed}
			platforms = append(platforms, ch.Enabled, ch.Settings(workspaces[via]))
		}
		platforms = append(platforms, slackOptions(&c), discordOptions(&c), telegramOptions(&c), c.Channels.Secrets(), c.Feeds, c.Kept, c.Pushes, c.Files, Measured(&c, func(string) (string, bool) { return "", false }, nil))
		return fmt.Sprintf("%+v %+v %+v %+v %+v %+v %+v %+v %+v", platforms, node, shared, Engine(&c, "n", nil, config.ScriptedName), Gateway(&c, "n", "v", func(string) string { return "m" }), c.Auth, c.Audit, c.Store, mcpOptions(&c, nil, nil, nil))
	}
	before := reach(config.Default())
	for key, c := range config.EachKeyChanged() {
		_, excused := byMain[key]
		if used := reach(c) != before; !used && !excused {
			t.Errorf("%s reaches nothing", key)
		} else if used && excused && key != "listen" {
			t.Errorf("%s reaches a room after all: take it off the list", key)
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

// N-07: a command-line agent acts, unless its block says otherwise; other models do if
// theirs says so. An agent whose model may go over to one that acts counts as one.
func TestWhichModelsAct(t *testing.T) {
	block := func(name, provider, rest string) string {
		return "[models." + name + "]\nprovider = \"" + provider + "\"\nmodel = \"m\"\n" + rest + "\n"
	}
	program := func(name, rest string) string {
		return "[models." + name + "]\nprovider = \"command\"\n" + rest + "\n"
	}
	file := program("agent", `grace = "9s"`) + program("reader", "acts = false") + block("plain", "openai", "") +
		block("doer", "openai", "acts = true") + block("route", "openai", `fallback = ["plain", "agent"]`)
	c, err := config.Load(config.Sources{Path: write(t, file), Required: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		acts bool
		kill time.Duration
	}{
		"agent": {true, 9 * time.Second}, "reader": {false, 5 * time.Second}, "plain": {}, "doer": {acts: true}, "route": {true, 9 * time.Second},
		config.ScriptedName: {},
	} {
		p := config.Rules(&c, nil, name).Agents[conversation.Coordinator]
		if p.Acts != want.acts || p.KillTime != want.kill {
			t.Errorf("%s: acts %v, killed within %v", name, p.Acts, p.KillTime)
		}
	}
}
