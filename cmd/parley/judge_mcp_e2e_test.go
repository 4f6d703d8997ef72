//go:build e2e

package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The official SDKs of the Model Context Protocol, unmodified, as hosts of the server.
func TestJudgeMCP(t *testing.T) {
	judged(t, "mcp", "--set", "scripted.token_delay=15ms")
}

// The official SDK for Go, in the newest version of the protocol that it speaks.
func TestJudgeMCPGo(t *testing.T) {
	t.Parallel()
	l := spawn(t, t.TempDir())
	asked := 0
	client := mcp.NewClient(&mcp.Implementation{Name: "judge", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked++
			if !strings.Contains(r.Params.Message, "Which") {
				t.Errorf("asked %q", r.Params.Message)
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "B"}}, nil
		},
	})
	s, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: "http://" + l.addr + "/mcp", HTTPClient: http.DefaultClient}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if v := s.InitializeResult().ProtocolVersion; v != "2026-07-28" {
		t.Errorf("they speak %s", v)
	}
	call := func(name string, args map[string]any) (string, *mcp.CallToolResult) {
		t.Helper()
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, _ := r.Content[0].(*mcp.TextContent)
		return text.Text, r
	}
	tools, err := s.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 5 {
		t.Errorf("%v %v", tools, err)
	}
	if text, _ := call("send_message", map[string]any{"session": "go", "text": "/say Hello"}); text != "Hello" {
		t.Errorf("it answers %q", text)
	}
	if text, _ := call("send_message", map[string]any{"session": "go", "text": "/ask Which one? [A/B]\n/say You chose $reply\n/ask Which again?\n/say And $reply"}); !strings.Contains(text, "You chose B") || !strings.Contains(text, "And B") || asked != 2 {
		t.Errorf("asked %d times, it answers %q", asked, text)
	}
	if text, r := call("send_message", map[string]any{"text": ""}); !r.IsError || !strings.Contains(text, "bad_request") {
		t.Errorf("an empty message: %q", text)
	}
	resources, err := s.ListResources(t.Context(), nil)
	if err != nil || len(resources.Resources) != 1 {
		t.Fatalf("%v %v", resources, err)
	}
	read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: resources.Resources[0].URI})
	if err != nil || !strings.Contains(read.Contents[0].Text, "You chose B") {
		t.Errorf("%v %v", read, err)
	}
	if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "parley://sessions/none"}); err == nil {
		t.Error("a session that is not there was read")
	}
}

// The inspector's command line.
func TestJudgeMCPInspector(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := spawn(t, t.TempDir())
	cmd := nodeWithSDKs(t.Context(), t, dir, "none.mjs")
	run := func(args ...string) string {
		t.Helper()
		inspect := nodeWithSDKs(t.Context(), t, dir, filepath.Join("node_modules", "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js"),
			append([]string{"--cli", "http://" + l.addr + "/mcp", "--transport", "http"}, args...)...)
		inspect.Env = append(os.Environ(), "PATH="+filepath.Dir(cmd.Path)+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := inspect.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if out := run("--method", "tools/list"); !strings.Contains(out, "send_message") || !strings.Contains(out, "read_session") {
		t.Errorf("tools/list: %s", out)
	}
	if out := run("--method", "tools/call", "--tool-name", "send_message", "--tool-arg", "session=inspected", "--tool-arg", "text=/say Inspected"); !strings.Contains(out, `"Inspected"`) {
		t.Errorf("tools/call: %s", out)
	}
	if out := run("--method", "resources/list"); !strings.Contains(out, "parley://sessions/") {
		t.Errorf("resources/list: %s", out)
	}
}
