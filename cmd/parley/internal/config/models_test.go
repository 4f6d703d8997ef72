package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/policy"
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
without = ["user", "messages.reasoning"]
schema = "plain"
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
env = { "AGENT_KEY" = "env:OF_AGENT", "MODE" = "fast" }
inherit = ["WEB_KEY"]
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
	from := Sources{Path: path, Required: true, Environ: []string{"PARLEY_GPT_KEY=k", "TEAM_TOKEN=tt", "THE_PROXY=http://u:p@proxy:1"}}
	c, err := Load(from)
	if err != nil {
		t.Fatal(err)
	}
	one := 1.0
	gpt := modelBlock("gpt", "openai")
	o := &gpt.OpenAI
	o.API, o.BaseURL, o.Model, gpt.KeyEnv = "chat", "http://127.0.0.1:1/v1", "gpt-x", "PARLEY_GPT_KEY"
	gpt.Headers = map[string]string{"X-Team": "a", "X-Token": "${env:TEAM_TOKEN}"}
	o.Extra = map[string]any{"reasoning": map[string]any{"effort": "low"}, "stop": []any{"x", int64(1), 1.5, true}}
	o.Without, o.Schema = []string{"user", "messages.reasoning"}, "plain"
	o.Stream, o.MaxOutputTokens, o.Temperature, o.Alternate = false, 100, &one, true
	o.IdleTimeout, o.ConnectTimeout, o.MaxBytes, gpt.Proxy = 5*time.Second, 2*time.Second, 1<<20, "env:THE_PROXY"
	o.Label, gpt.Order, gpt.Fallback, gpt.Rate, gpt.Bounds.Burst, gpt.Bounds.MaxConcurrent = "local", 2, []string{"claude", "scripted"}, "60/m", 5, 7
	claude := modelBlock("claude", "anthropic")
	claude.Anthropic.Model, claude.KeyFile = "c", filepath.Join(filepath.Dir(path), "claude.key")
	agent := modelBlock("agent", "command")
	agent.Command.Command, agent.Command.Args, agent.Command.Timeout, agent.Command.AskMarker = "sh", []string{"-c", "true"}, time.Second, "ASK:"
	agent.Env, agent.Inherit = map[string]string{"AGENT_KEY": "${env:OF_AGENT}", "MODE": "fast"}, []string{"WEB_KEY"}
	demo := modelBlock("demo", "scripted")
	demo.Scripted.TokenDelay = time.Millisecond
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
	if err := Print(&out, c); err != nil {
		t.Fatal(err)
	}
	from.Path = write(t, out.String())
	again, err := Load(from)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !reflect.DeepEqual(c, again) {
		t.Errorf("printed and read back:\n got %+v\nwant %+v", again, c)
	}
}

// The keys of a block come from several structs; they are printed in the order in
// which config.toml explains them, which an after tag may say.
func TestKeysOfBlocksAreInOrder(t *testing.T) {
	data, err := os.ReadFile(shipped)
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(data), "\n# [models.gpt]\n")
	block, _, _ = strings.Cut(block, "\n# [models.")
	var want, got []string
	for _, line := range regexp.MustCompile(`(?m)^# ([a-z_]+) = `).FindAllStringSubmatch(block, -1) {
		want = append(want, line[1])
	}
	for _, f := range keysOf(ProviderOpenAI) {
		got = append(got, f.key)
	}
	if !slices.Equal(got, want) {
		t.Errorf("keys of a block:\n got %s\nwant %s", got, want)
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
env = { "API_KEY" = "sk-0123456789", "A-B" = "1" }
inherit = ["$HOME"]
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
	_, err := Load(Sources{Path: path, Required: true, Set: []string{"models.g.model=x", "mcp=1"}})
	var bad *Error
	if !errors.As(err, &bad) {
		t.Fatalf("got %v, want a *Error", err)
	}
	got := strings.ReplaceAll(bad.Error(), path, "config.toml")
	for _, want := range []string{
		`config.toml:2: model.default = "absent": must be "scripted", "b", "c", "d", "e"`,
		`config.toml:4: model "a": provider = "gpt": must be one of openai, anthropic, command, scripted`,
		`config.toml:8: model "b": there is no key key: a key does not stand in the file`,
		`config.toml:9: model "b": key_env must be the name of a variable`,
		`config.toml:10: model "b": api = "soap": must be one of "responses", "chat"`,
		`config.toml:11: model "b" has no key args; it has: acts, alternate, api, base_url`,
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
		`config.toml:25: model "d": env: API_KEY: a secret does not stand in the file`,
		`config.toml:25: model "d": env: "A-B" is not the name of a variable`,
		`config.toml:26: model "d": inherit: "$HOME" is not the name of a variable`,
		`config.toml:27: model "e": max_concurrent must be at least 1`,
		`config.toml:30: model "scripted": the name is the built-in model's`,
		`config.toml:36: model "f": give key_env or key_file, not both`,
		`config.toml:38: mcp "x y": a name is 1 to 32`,
		`config.toml:37: mcp "x y": give command or url, and not both`,
		`config.toml:39: mcp "z": give command or url, and not both`,
		`config.toml:42: mcp "z": url: must not hold a user or password`,
		`config.toml:43: mcp "z": env: API_KEY: a secret does not stand in the file`,
		`config.toml:44: mcp "z": allow must name tools`,
		`config.toml:45: mcp "z": approval = "maybe": must be "ask" or "never"`,
		`config.toml:47: mcp "z": there are two servers of this name`,
		`config.toml:48: mcp "z": url: a secret does not stand in the file`,
		`config.toml:49: mcp "z" has no key tools`,
		`config.toml:50: agent "coordinator": there is no tool "other_tool"`,
		`config.toml:50: agent "coordinator": model = "nobody": must be "scripted", "b"`,
		`config.toml:54: agent "developer" asks for the model "g", which cannot be used: the variable NOT_SET is not set`,
		`config.toml:65: mcp_limits.backoff_min = "1h": must be at most mcp_limits.backoff_max`,
		`--set models.g.model: models can only be changed in the file`,
		`--set mcp: mcp can only be changed in the file`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("not said: %s", want)
		}
	}
	if n := len(bad.problems); n != 38 {
		t.Errorf("%d problems, want 38:\n%s", n, got)
	}
	if strings.Contains(got, secret) {
		t.Errorf("a secret is repeated:\n%s", got)
	}
}

// What is left out of requests must be in them, and not be what makes them.
func TestWithoutIsChecked(t *testing.T) {
	path := write(t, `
[models.a]
provider = "openai"
api = "chat"
model = "m"
extra = { seed = 1 }
without = ["user", "messages.reasoning", "messages", "usr", "seed", "messages."]
[models.b]
provider = "openai"
model = "m"
without = ["store", "input", "messages.reasoning"]
[models.c]
provider = "anthropic"
model = "m"
schema = "plain"
without = ["metadata", "max_tokens", "user"]
`)
	_, err := Load(Sources{Path: path, Required: true})
	var bad *Error
	if !errors.As(err, &bad) {
		t.Fatalf("got %v, want a *Error", err)
	}
	want := `config.toml:7: model "a": "messages" cannot be left out of a request
config.toml:7: model "a": "usr" is in no request; what can be left out is: max_completion_tokens, max_tokens, stream_options, temperature, tool_choice, tools, user
config.toml:7: model "a": "seed" stands in extra, which adds it
config.toml:7: model "a": "messages." is in no request; what can be left out is: max_completion_tokens, max_tokens, stream_options, temperature, tool_choice, tools, user
config.toml:11: model "b": "input" cannot be left out of a request
config.toml:11: model "b": "messages.reasoning" is in no request; what can be left out is: instructions, max_output_tokens, store, temperature, tool_choice, tools, user
config.toml:16: model "c": "max_tokens" cannot be left out of a request
config.toml:16: model "c": "user" is in no request; what can be left out is: metadata, system, temperature, tool_choice, tools`
	if got := strings.ReplaceAll(bad.Error(), path, "config.toml"); got != want {
		t.Errorf("said is\n%s\nnot\n%s", got, want)
	}
}

// A key that changes nothing would be a lie: each one of a block reaches its
// adapter or its limits, or is used as said here.
func TestEveryKeyOfBlocksIsUsed(t *testing.T) {
	elsewhere := map[string]string{"provider": "build", "order": "TestModelIsChosen", "price": "TestPriceOfModel", "fallback": "TestFallbackAnswers", "burst": "goes with rate", "acts": "TestWhichModelsAct", "context": "TestSmallModel", "sees": "TestSees", "inherit": "TestEnvironmentOfAgent"}
	for _, provider := range []string{ProviderOpenAI, ProviderAnthropic, ProviderCommand, ProviderScripted} {
		start := modelBlock("x", provider)
		start.Rate = "1/s"
		if o := start.Connection(); o != nil {
			o.Model = "m"
		}
		script := write(t, "[[rule]]\n")
		c := Default()
		reach := func(b ModelBlock) string {
			m, err := b.Build(&c, func(value string) (string, error) {
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
			return options + fmt.Sprintf("%+v", b.Limits())
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
		case v.Kind() == reflect.Bool:
			v.SetBool(!v.Bool())
		case v.Kind() == reflect.Slice:
			v.Set(reflect.ValueOf([]string{"changed"}))
		default:
			v.SetInt(v.Int() + 1)
		}
	}
	reach := func(b MCPBlock) string {
		return fmt.Sprintf("%+v", b.Options())
	}
	for _, f := range fieldsOf(reflect.TypeFor[MCPBlock]()) {
		b := block
		change(&b, f)
		if reach(b) == reach(block) {
			t.Errorf("mcp: %s reaches nothing", f.key)
		}
	}
}

// a prompt that goes by an argument must fit into one, with the marker explained
// behind it. Other agents need a prompt; a command-line agent does not.
func TestPromptsOfCommandAgents(t *testing.T) {
	const block = "[models.%s]\nprovider = \"command\"\nask_marker = \"ASK:\"\n%s\n"
	agents := func(prompt string) string {
		text := "[model]\ndefault = \"scripted\"\n" + fmt.Sprintf(block, "claude", "") + fmt.Sprintf(block, "other", "command = \"other\"")
		for name, model := range map[string]string{"a": "claude", "b": "other", "c": ""} {
			text += fmt.Sprintf("[[agents]]\nname = %q\nmodel = %q\nprompt = %q\n", name, model, prompt)
		}
		return text
	}
	for _, c := range []struct{ prompt, want string }{
		{"", `agent "c" needs a prompt or a prompt_file`},
		{strings.Repeat("x", 128<<10), `agent "a": its prompt cannot be given to the model "claude": it has 131072 bytes, and the argument --append-system-prompt can hold 130734`},
	} {
		_, err := Load(Sources{Path: write(t, agents(c.prompt))})
		if err == nil || strings.Count(err.Error(), "agent ") != 1 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("the error is %v, want %s", err, c.want)
		}
	}
	if _, err := Load(Sources{Path: write(t, agents(strings.Repeat("x", 120<<10)))}); err != nil {
		t.Error(err)
	}
}

// What a model sees is a list of what is known, each once; models of other providers see
// nothing.
func TestSees(t *testing.T) {
	path := write(t, `
[models.a]
provider = "openai"
model = "m"
sees = ["image", "audio", "image"]
[models.b]
provider = "scripted"
sees = ["image"]
`)
	_, err := Load(Sources{Path: path, Required: true})
	if err == nil {
		t.Fatal("it is taken")
	}
	said := err.Error()
	for _, want := range []string{
		`:5: model "a": sees: "audio": a model sees "image", each once`, `:5: model "a": sees: "image": a model sees "image", each once`, `:8: model "b" has no key sees`,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	path = write(t, "[models.a]\nprovider = \"anthropic\"\nmodel = \"m\"\nsees = [\"image\"]\n")
	c, err := Load(Sources{Path: path, Required: true})
	if err != nil || len(c.Block("a").Sees) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

// The model of titles is one that there is, and that has what it needs.
func TestTitleModel(t *testing.T) {
	for text, want := range map[string]string{
		"[titles]\nmodel = \"x\"\n": `titles.model = "x": must be "scripted", or ""`,
		"[titles]\nmodel = \"a\"\n[models.a]\nprovider = \"anthropic\"\nmodel = \"m\"\nkey_env = \"NOT_THERE\"\n":        `titles.model asks for the model "a", which cannot be used`,
		"[titles]\nmodel = \"a\"\n[models.a]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1\"\n": "",
	} {
		path := write(t, text)
		c, err := Load(Sources{Path: path, Required: true})
		if want == "" {
			if err != nil || !slices.Contains(c.AgentModels(), "a") {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// A session may have an agent answer with its other models: each is one more agent, like it but
// for the model, to which nothing is delegated.
func TestModelsOfAnAgent(t *testing.T) {
	const blocks = "[models.fast]\nprovider = \"scripted\"\n[models.shell]\nprovider = \"command\"\ncommand = \"sh\"\n"
	load := func(agent string) (Config, error) {
		return Load(Sources{Path: write(t, blocks+agent), Required: true})
	}
	c, err := load("[[agents]]\nname = \"developer\"\nmodels = [\"fast\", \"shell\"]\n")
	if err != nil {
		t.Fatal(err)
	}
	r := Rules(&c, nil, c.Model.Default)
	for name, want := range map[conversation.AgentName]policy.Profile{
		"developer":       {Model: "", Delegable: true, EngineTools: true},
		"developer@fast":  {Model: "fast", EngineTools: true},
		"developer@shell": {Model: "shell", Acts: true, Program: "shell"},
	} {
		p, ok := r.Agents[name]
		if !ok || p.Name != name || p.Model != want.Model || p.Delegable != want.Delegable || p.EngineTools != want.EngineTools || p.Acts != want.Acts || p.Program != want.Program {
			t.Errorf("%s: %+v", name, p)
		}
		if hasPrompt := p.Prompt != ""; hasPrompt != want.EngineTools {
			t.Errorf("%s: has a prompt: %v", name, hasPrompt)
		}
	}
	// A session whose model is not offered any more goes on with the agent's own.
	if p := r.Agent("developer@gone"); p.Name != "developer" {
		t.Errorf("developer@gone is %q", p.Name)
	}
	if p := r.Agent("nobody@fast"); p.Name != "" {
		t.Errorf("nobody@fast is %q", p.Name)
	}

	many := `"fast"`
	for i := range maxModels {
		many += fmt.Sprintf(`, "m%d"`, i)
	}
	for list, want := range map[string]string{
		`["nobody"]`:       `agent "developer": models = "nobody": must be "scripted", "fast", "shell"`,
		`["fast", "fast"]`: `agent "developer": models: "fast" answers for it already`,
		`["scripted"]`:     `agent "developer": models: "scripted" answers for it already`,
		`["fast", "f@st"]`: `agent "developer": models = "f@st": must be`,
		`[` + many + `]`:   `agent "developer": models: must be at most 16 names`,
		`"fast"`:           `agent "developer": models = "fast": must be a list`,
	} {
		if _, err := load("[[agents]]\nname = \"developer\"\nmodels = " + list + "\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("models = %s: got %v, want %s", list, err, want)
		}
	}
	if _, err := load("[[agents]]\nname = \"own\"\nprompt = \"p\"\nmodel = \"fast\"\nmodels = [\"fast\"]\n"); err == nil {
		t.Error("an agent may have its own model a second time")
	}
	// Whatever answers somebody is made, asked for its key, and told of.
	if used, _ := c.UsedModels(c.Model.Default); !used["fast"] || !used["shell"] {
		t.Errorf("used are %v", used)
	}
}
