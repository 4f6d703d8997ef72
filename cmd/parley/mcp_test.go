package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpVariable makes this test program an MCP server on its standard streams.
const mcpVariable = "PARLEY_TEST_MCP"

type greeting struct {
	Name string `json:"name"`
	ID   int64  `json:"id,omitempty"`
}

func serveMCP() {
	server := sdk.NewServer(&sdk.Implementation{Name: "greeter", Version: "1"}, nil)
	greet := func(_ context.Context, r *sdk.CallToolRequest, in greeting) (*sdk.CallToolResult, any, error) {
		text := fmt.Sprintf("Hello %s, the token has %d characters.", in.Name, len(os.Getenv("GREETER_TOKEN")))
		var exact greeting // what the library makes of the arguments has doubles for numbers
		if err := json.Unmarshal(r.Params.Arguments, &exact); err == nil && exact.ID != 0 {
			text += fmt.Sprintf(" You are %d.", exact.ID)
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, nil
	}
	sdk.AddTool(server, &sdk.Tool{Name: "greet", Description: "Greets."}, greet)
	sdk.AddTool(server, &sdk.Tool{Name: "shout", Description: "Greets loudly."}, greet)
	server.AddResource(&sdk.Resource{URI: "text://manners", Name: "manners"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "text://manners", Text: "Bow."}}}, nil
	})
	if os.Getenv(mcpVariable) != "1" {
		sdk.AddTool(server, &sdk.Tool{Name: "order", Description: "Orders a pizza."}, order)
	}
	_ = server.Run(context.Background(), &sdk.StdioTransport{})
}

// An [[mcp]] block's tools are there for the agents that may use them, with the
// configured approval; a server that is broken keeps nothing from starting.
func TestMCPToolsOfTheConfiguration(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, `[[mcp]]
name = "hello"
command = "`+self+`"
env = { "`+mcpVariable+`" = "1", "GREETER_TOKEN" = "env:GREETER_TOKEN" }
allow = ["greet", "shout", "absent"]
never = ["greet"]
prefix = "hi_"
[[mcp]]
name = "broken"
command = "no-such-program"
[[agents]]
name = "researcher"
tools = ["clock"]
[[agents]]
name = "communicator"
tools = ["hi_greet", "hi_nothing"]
`)
	environ := []string{"GREETER_TOKEN=123456789"}
	l := startWith(t, t.TempDir(), func(m *Main) { m.Environ = environ }, "--config", path)
	u := l.user()
	s := u.create(nil)
	u.follow(s, 0)
	ask := func(id, text string) string {
		u.send(s, id, text)
		got := of(u.until(done), "response")
		if len(got) != 1 {
			t.Fatalf("%s: %s", text, shown(got))
		}
		return got[0].text("text")
	}
	if got := ask("1", "/tool hi_greet {\"name\":\"Max\"}\n/say $result"); got != "Hello Max, the token has 9 characters." {
		t.Errorf("the tool says %q", got)
	}
	if got := ask("2", "/tool hi_greet {\"nome\":\"Max\"}\n/say $result"); !strings.Contains(got, "arguments do not fit hi_greet") {
		t.Errorf("wrong arguments: %q", got)
	}
	// The allow list of each agent.
	if got := ask("3", "/delegate researcher /tool hi_greet {\"name\":\"Max\"} && /say $result\n/say $result"); strings.Contains(got, "Hello") {
		t.Errorf("an agent used a tool that it may not: %q", got)
	}
	if got := ask("4", "/delegate communicator /tool hi_greet {\"name\":\"Max\"} && /say $result\n/say $result"); !strings.Contains(got, "Hello Max") {
		t.Errorf("an agent cannot use its tool: %q", got)
	}
	// What is not in never, a person must allow.
	waiting := u.send(s, "5", "/tool hi_shout {\"name\":\"Max\"}\n/say $result")
	question := u.until(is("question"))
	if q := question[len(question)-1]; q.Data["approval"] == nil {
		t.Errorf("the question is no approval: %s", q.raw)
	}
	u.ask("cancel", s, map[string]any{"task": waiting["task"]})
	u.until(done)
	l.measured(
		`parley_mcp_server_up{server="hello"} 1`, `parley_mcp_server_up{server="broken"} 0`,
		`parley_mcp_server_tools{server="hello"} 2`, `parley_mcp_server_tools{server="broken"} 0`,
		`parley_mcp_connection_attempts_total{server="hello"} 1`, `parley_mcp_connections_total{server="hello"} 1`,
		`parley_mcp_connections_total{server="broken"} 0`,
		`parley_mcp_calls_total{outcome="ok",server="hello"} 2`, `parley_mcp_calls_total{outcome="error",server="hello"} 0`,
		`parley_mcp_calls_total{outcome="unanswered",server="hello"} 0`,
	)
	l.stop()
	for _, want := range []string{"broken", "hi_nothing"} {
		if !strings.Contains(l.err.String(), want) {
			t.Errorf("the log does not speak of %s:\n%s", want, l.end())
		}
	}

	m := NewMain()
	var out syncBuffer
	m.Stdout, m.Stderr, m.Environ = &out, &out, environ
	code := m.Execute(t.Context(), []string{"doctor", "--config", path, "--listen", "127.0.0.1:0", "--data", t.TempDir()})
	lines := strings.Split(out.String(), "\n")
	for _, want := range []string{"ok  mcp hello     ", "-   mcp hello     it does not have: absent", "-   mcp hello     resources: 1, as manners", "-   mcp broken    not connected; the server would start without its tools"} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("doctor does not say %q", want)
		}
	}
	if code != exitOK || !strings.Contains(out.String(), "2 tools: hi_greet, hi_shout") {
		t.Errorf("doctor: code %d\n%s", code, out.String())
	}
}

// What the tools room refuses is a wrong configuration, with its place in the file.
func TestWrongMCPOptions(t *testing.T) {
	path := write(t, "[[mcp]]\nname = \"x\"\nurl = \"http://127.0.0.1:1\"\nheaders = { \"Host\" = \"h\" }\n")
	for _, args := range [][]string{{"config", "check"}, {"serve", "--listen", "127.0.0.1:0", "--data", t.TempDir()}} {
		code, _, stderr := run(append(args, "--config", path)...)
		if code != exitUsage || !strings.Contains(stderr, `config.toml:4: mcp "x": headers: Host is set by the protocol`) {
			t.Errorf("%v: code %d: %s", args, code, stderr)
		}
	}
}

// An MCP server that is down at the start of parley brings its tools when it comes: the
// next step sees them, with the rules of the configuration.
func TestMCPServerThatComesLate(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	gate := filepath.Join(t.TempDir(), "gate")
	path := write(t, `[[mcp]]
name = "hello"
command = "sh"
args = ["-c", 'test -e "`+gate+`" && exec "`+self+`"']
env = { "`+mcpVariable+`" = "1" }
never = ["greet"]
[mcp_limits]
backoff_min = "1ms"
backoff_max = "20ms"
`)
	l := startWith(t, t.TempDir(), func(m *Main) { m.Environ = os.Environ() }, "--config", path)
	u := l.user()
	s := u.create(nil)
	u.follow(s, 0)
	ask := func(id, text string) string {
		u.send(s, id, text)
		got := of(u.until(done), "response")
		if len(got) != 1 {
			t.Fatalf("%s: %s", text, shown(got))
		}
		return got[0].text("text")
	}
	if got := ask("1", "/tool hello_greet {\"name\":\"Max\"}\n/say $result"); !strings.Contains(got, "there is no tool") {
		t.Errorf("the tool is there without its server: %q", got)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.measured(`parley_mcp_server_up{server="hello"} 1`, `parley_mcp_server_tools{server="hello"} 4`)
	if got := ask("2", "/tool hello_greet {\"name\":\"Max\"}\n/say $result"); !strings.HasPrefix(got, "Hello Max") {
		t.Errorf("the tool says %q", got)
	}
	u.send(s, "3", "/tool hello_shout {\"name\":\"Max\"}\n/say $result")
	question := u.until(is("question"))
	if q := question[len(question)-1]; q.Data["approval"] == nil {
		t.Errorf("the question is no approval: %s", q.raw)
	}
	l.stop()
}
