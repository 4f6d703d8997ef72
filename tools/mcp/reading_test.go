package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/tools/toolstest"
)

// library is a peer with resources and prompts.
func library(resources int) *peer {
	p := newPeer()
	for i := range resources {
		shelve(p, i)
	}
	p.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "log://{day}", Name: "log", Description: "What happened."}, reads)
	p.AddPrompt(&sdk.Prompt{Name: "review", Description: "Reviews code.", Arguments: []*sdk.PromptArgument{
		{Name: "code", Required: true, Description: "what to review"}, {Name: "tone"},
	}}, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{
			{Role: "user", Content: &sdk.TextContent{Text: "Review " + r.Params.Arguments["code"]}},
			{Role: "assistant", Content: &sdk.ImageContent{MIMEType: "image/png", Data: make([]byte, 7)}},
		}}, nil
	})
	return p
}

func shelve(p *peer, i int) {
	p.AddResource(&sdk.Resource{URI: fmt.Sprintf("book://%03d", i), Name: fmt.Sprintf("book %d", i), Description: "A book.\nOld.", MIMEType: "text/plain"}, reads)
}

func reads(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{
		{URI: r.Params.URI, Text: "text of " + r.Params.URI}, {URI: r.Params.URI, MIMEType: "image/png", Blob: []byte("abc")},
	}}, nil
}

func TestResourcesAndPrompts(t *testing.T) {
	w := inMemory(t, single(nil), always(library(2))).open()
	st := w.Status()[0]
	if st.Resources != 3 || !slices.Equal(st.ResourceNames, []string{"book 0", "book 1", "log"}) || st.Prompts != 1 || !slices.Equal(st.PromptNames, []string{"review"}) {
		t.Errorf("the status is %+v", st)
	}
	w.run("peer_list_resources", `{}`, "book://000 book 0 (text/plain): A book. Old.\n"+
		"book://001 book 1 (text/plain): A book. Old.\nlog://{day} log: What happened. [fill in what stands in braces]")
	w.run("peer_list_resources", `{"contains":"BOOK 1"}`, "book://001 book 1 (text/plain): A book. Old.")
	w.run("peer_list_resources", `{"contains":"happened"}`, "log://{day} log: What happened. [fill in what stands in braces]")
	w.run("peer_list_resources", `{"contains":"nothing"}`, "(none)")
	w.run("peer_read_resource", `{"uri":"book://001"}`, "text of book://001\n[book://001, image/png, 3 bytes]")
	w.run("peer_read_resource", `{"uri":"log://monday"}`, "text of log://monday\n[log://monday, image/png, 3 bytes]")
	w.run("peer_read_resource", `{"uri":"none://x"}`, "!the server peer refused the call: ")
	w.run("peer_list_prompts", `{}`, "review: Reviews code. [arguments: code (required): what to review; tone]")
	w.run("peer_get_prompt", `{"name":"review","arguments":{"code":"x := 1"}}`, "user: Review x := 1\nassistant: [image/png, 7 bytes]")
	w.run("peer_get_prompt", `{"name":"none"}`, "!refused the call")
	w.run("peer_get_prompt", `{"arguments":{}}`, "!do not fit peer_get_prompt")
	toolstest.Run(t, w.tool("peer_read_resource"), toolstest.Cases{Good: []string{`{"uri":"book://000"}`}, Bad: []string{`{}`, `{"uri":7}`}})
	for _, name := range []string{"peer_list_resources", "peer_read_resource", "peer_list_prompts", "peer_get_prompt"} {
		if spec := w.tool(name).Spec(); !spec.Approval || !spec.Idempotent || !strings.Contains(spec.Description, "server peer") {
			t.Errorf("%s is %+v", name, spec)
		}
	}
	w.Close()
	if !strings.Contains(w.log.String(), "resources=3 prompts=1") {
		t.Errorf("the log is %s", w.log)
	}
}

// A server may name what it has by a secret that it was given, and as long as it likes.
func TestNamesInAStatus(t *testing.T) {
	p := newPeer()
	p.AddResource(&sdk.Resource{URI: "api://sesame-1/x", Name: "api://sesame-1/" + strings.Repeat("x", 10<<10)}, reads)
	w := withSecret(inMemory(t, single(nil), always(p)), "sesame-1").open()
	if names := w.Status()[0].ResourceNames; len(names) != 1 || !strings.HasPrefix(names[0], "api://[secret]/xx") || len(names[0]) > 1000 {
		t.Errorf("the status names %.200q", names)
	}
}

// Which of the tools there are: where the server has something, by the keys of its block,
// and a tool of the server's own has the name.
func TestReadingToolsAreChosen(t *testing.T) {
	all := []string{"peer_get_prompt", "peer_list_prompts", "peer_list_resources", "peer_read_resource"}
	for name, c := range map[string]struct {
		change func(*Server, *peer)
		want   []string
	}{
		"as it is":      {func(*Server, *peer) {}, all},
		"no resources":  {func(s *Server, _ *peer) { s.Resources = false }, all[:2]},
		"no prompts":    {func(s *Server, _ *peer) { s.Prompts = false }, all[2:]},
		"allowed ones":  {func(s *Server, _ *peer) { s.Allow = []string{"echo", "read_resource"} }, all[3:]},
		"its own":       {func(_ *Server, p *peer) { p.raw(&sdk.Tool{Name: "get_prompt", Description: "Mine."}) }, all},
		"never, by key": {func(s *Server, _ *peer) { s.Never = []string{"read_resource"} }, all},
	} {
		p := library(1)
		o := single(p)
		c.change(&o.Servers[0], p)
		w := inMemory(t, o, always(p)).open()
		got := slices.DeleteFunc(names(w.Servers), func(name string) bool { return !slices.Contains(all, name) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
		st := w.Status()[0]
		if name == "its own" && (w.tool("peer_get_prompt").Spec().Description != "Mine." || !slices.Equal(st.Refused, []string{"our get_prompt: the server has a tool of this name"})) {
			t.Errorf("%s: %+v", name, st)
		}
		if name == "never, by key" && w.tool("peer_read_resource").Spec().Approval {
			t.Errorf("%s: it needs approval", name)
		}
	}
	if got := names(inMemory(t, single(nil), always(newPeer())).open().Servers); len(got) != 4 {
		t.Errorf("of a server without: %v", got)
	}
}

func TestLongLists(t *testing.T) {
	for listed, want := range map[int]int{3: 3, 4: 4, 5: 4} { // three books, one template
		w := inMemory(t, single(nil, func(o *Options) { o.Limits.Listed = listed }), always(library(3))).open()
		got, err := w.tool("peer_list_resources").Run(t.Context(), call(`{}`))
		if st := w.Status()[0]; st.Resources != want || err != nil || strings.Contains(got, "more than 3") != (want == 3) {
			t.Errorf("at most %d: %d, %q, %v", listed, st.Resources, got, err)
		}
	}
	w := inMemory(t, single(nil, func(o *Options) { o.Limits.Result = 1000 }), always(library(200))).open()
	got, err := w.tool("peer_list_resources").Run(t.Context(), call(`{}`))
	lines := strings.Split(got, "\n")
	if err != nil || len(got) > 1000 || len(got) < 800 || !strings.HasPrefix(lines[0], "book://000 ") {
		t.Errorf("%d bytes: %q, %v", len(got), got, err)
	}
	if want := fmt.Sprintf("[%d more are left out; say with contains what you look for]", 201-(len(lines)-1)); lines[len(lines)-1] != want {
		t.Errorf("the last line is %q, not %q", lines[len(lines)-1], want)
	}
	if st := w.Status()[0]; len(st.ResourceNames) != shownNames+1 || st.ResourceNames[shownNames] != "…" {
		t.Errorf("the names are %q", st.ResourceNames)
	}
}

// What a server adds is counted.
func TestListsOfResourcesChange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := library(0)
		w := inMemory(t, single(p), always(p)).open()
		shelve(p, 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		if st := w.Status()[0]; st.Resources != 2 || !slices.Contains(st.ResourceNames, "book 1") {
			t.Errorf("the status is %+v", st)
		}
	})
}
