package shared

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/member"
	"parley/tools/mcp"
)

// TestMain is also the program that the tests start: a small MCP server.
func TestMain(m *testing.M) {
	if file := os.Getenv("SHARED_TEST_FILE"); file != "" {
		serve(file)
		return
	}
	os.Exit(m.Run())
}

// serve notes its start, its calls and its end in a file, and has the tools echo, ask and hang, which never answers.
// A file beside it named more lets it have another one.
func serve(file string) {
	note := func(text string) {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		defer f.Close()
		fmt.Fprintln(f, text)
	}
	say := func(v map[string]any) {
		v["jsonrpc"] = "2.0"
		b, _ := json.Marshal(v)
		fmt.Println(string(b))
	}
	text := func(id any, t string) {
		say(map[string]any{"id": id, "result": map[string]any{"content": []any{map[string]any{"type": "text", "text": t}}}})
	}
	note("start")
	in := bufio.NewScanner(os.Stdin)
	var waits any // the call that waits for the user
	for in.Scan() {
		var m struct {
			ID     any
			Method string
			Params struct {
				Name      string
				Arguments map[string]any
				Meta      map[string]any `json:"_meta"`
				RequestID any            `json:"requestId"`
			}
			Result struct {
				Action  string
				Content map[string]any
			}
		}
		if json.Unmarshal(in.Bytes(), &m) != nil {
			continue
		}
		switch m.Method {
		case "initialize":
			say(map[string]any{"id": m.ID, "result": map[string]any{
				"protocolVersion": "2025-06-18", "capabilities": map[string]any{"tools": map[string]any{"listChanged": true}}, "serverInfo": map[string]any{"name": "s", "version": "1"},
			}})
		case "tools/list":
			names := []string{"echo", "ask", "hang"}
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), "more")); err == nil {
				names = append(names, "more")
			}
			var tools []any
			for _, name := range names {
				tools = append(tools, map[string]any{"name": name, "description": name + "s", "inputSchema": map[string]any{
					"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}},
				}})
			}
			say(map[string]any{"id": m.ID, "result": map[string]any{"tools": tools}})
		case "tools/call":
			note("call " + m.Params.Name)
			say(map[string]any{"method": "notifications/progress", "params": map[string]any{"progressToken": m.Params.Meta["progressToken"], "progress": 1, "total": 2, "message": "half"}})
			switch m.Params.Name {
			case "echo", "more":
				answer := fmt.Sprint("echo ", m.Params.Arguments["text"])
				if parent := m.Params.Meta["traceparent"]; parent != nil {
					answer += fmt.Sprint(" in ", parent)
				}
				text(m.ID, answer)
				say(map[string]any{"method": "notifications/tools/list_changed"})
			case "ask":
				waits = m.ID
				say(map[string]any{"id": "q", "method": "elicitation/create", "params": map[string]any{
					"message": "Which?", "requestedSchema": map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}, "required": []string{"name"}},
				}})
			}
		case "notifications/cancelled":
			note("cancelled")
		case "":
			if m.ID == "q" {
				text(waits, fmt.Sprint(m.Result.Action, " ", m.Result.Content["name"]))
			}
		default:
			if m.ID != nil {
				say(map[string]any{"id": m.ID, "error": map[string]any{"code": -32601, "message": "no"}})
			}
		}
	}
	note("end")
}

// nodes share a server; one of them runs it.
type nodes struct {
	testing.TB
	file string
	all  []*Single
	late []map[string]conversation.Tool
	mu   sync.Mutex
	on   *Single // who runs it
	lose bool    // answers get lost
	join chan string
}

func start(t testing.TB, n int) *nodes {
	ns := &nodes{TB: t, file: filepath.Join(t.TempDir(), "notes"), join: make(chan string, 64)}
	server := mcp.DefaultServer("one")
	server.Command, server.Singleton, server.Approval = os.Args[0], true, mcp.ApprovalNever
	server.Env = map[string]mcp.Secret{"SHARED_TEST_FILE": mcp.NewSecret(ns.file)}
	for i := range n {
		tools := map[string]conversation.Tool{}
		ns.late = append(ns.late, tools)
		s := New(Options{
			Name: "one", MCP: mcp.Options{Servers: []mcp.Server{server}, Limits: mcp.DefaultLimits()}, Ask: ns.ask,
			Join: func(joined []conversation.Tool) error {
				ns.mu.Lock()
				for _, j := range joined {
					tools[j.Spec().Name] = j
				}
				ns.mu.Unlock()
				for _, j := range joined {
					ns.join <- fmt.Sprint(i, " ", j.Spec().Name)
				}
				return nil
			},
		})
		ns.all = append(ns.all, s)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); s.Follow(ctx) }()
		t.Cleanup(func() { cancel(); <-ended })
	}
	return ns
}

// direct is the way back to the asker.
type direct struct{ hear Hear }

func (d direct) Tell(body []byte) { _, _ = d.hear(context.Background(), body) }
func (d direct) Ask(ctx context.Context, body []byte) ([]byte, error) {
	return d.hear(ctx, body)
}

// ask is what a cluster does.
func (n *nodes) ask(ctx context.Context, body []byte, wait time.Duration, hear Hear) ([]byte, error) {
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		n.mu.Lock()
		on, lose := n.on, n.lose
		n.mu.Unlock()
		if on != nil {
			if out, taken := on.Answer(ctx, body, direct{hear}); taken {
				if lose {
					return nil, fmt.Errorf("lost: %w", member.ErrUnanswered)
				}
				return out, ctx.Err()
			}
		}
		again := time.NewTimer(time.Millisecond)
		select {
		case <-again.C:
		case <-over.C:
			return nil, member.ErrNotRunning
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// run runs the server on a node until the returned function is called.
func (n *nodes) run(i int) (stop func(why error)) {
	ctx, cancel := context.WithCancelCause(context.Background())
	n.mu.Lock()
	n.on = n.all[i]
	n.mu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- n.all[i].Run(ctx) }()
	return func(why error) {
		cancel(why)
		if err := <-ended; err != nil {
			n.Error(err)
		}
	}
}

// wait waits until tools have joined.
func (n *nodes) wait(want ...string) {
	n.Helper()
	var got []string
	for range want {
		select {
		case name := <-n.join:
			got = append(got, name)
		case <-time.After(time.Minute):
			n.Fatalf("only %q have joined", got)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		n.Errorf("%q have joined, not %q", got, want)
	}
}

func (n *nodes) tool(i int, name string) conversation.Tool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.late[i]["one_"+name]
}

func (n *nodes) notes() string {
	b, _ := os.ReadFile(n.file)
	return strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", ",")
}

func call(args string) conversation.ToolCall {
	return conversation.ToolCall{
		Args: json.RawMessage(args), Progress: func(string, *int) {},
		Ask: func(context.Context, conversation.ToolQuestion) (string, error) { return "", conversation.ErrNoAnswer },
	}
}

func all(nodes int, names ...string) (want []string) {
	for i := range nodes {
		for _, name := range names {
			want = append(want, fmt.Sprint(i, " one_", name))
		}
	}
	return want
}

// Tools of the one program are called from all nodes, progress and questions come back, and
// it moves with a process at a time.
func TestAllNodesCall(t *testing.T) {
	n := start(t, 3)
	stop := n.run(0)
	n.wait(all(3, "echo", "ask", "hang")...)
	for i := range n.all {
		if got, err := n.tool(i, "echo").Run(t.Context(), call(`{"text":"hi"}`)); err != nil || got != "echo hi" {
			t.Errorf("%q, %v", got, err)
		}
		traced := call(`{"text":"hi"}`)
		traced.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		if got, err := n.tool(i, "echo").Run(t.Context(), traced); err != nil || got != "echo hi in "+traced.TraceParent {
			t.Errorf("with a trace: %q, %v", got, err)
		}
		c := call("{}")
		c.Ask = func(_ context.Context, q conversation.ToolQuestion) (string, error) {
			if !strings.Contains(q.Text, "Which?") && !strings.Contains(q.Text, "name") {
				t.Errorf("asked %q", q.Text)
			}
			return "Ada", nil
		}
		if got, err := n.tool(i, "ask").Run(t.Context(), c); err != nil || got != "accept Ada" {
			t.Errorf("%q, %v", got, err)
		}
		if got, err := n.tool(i, "ask").Run(t.Context(), call("")); err != nil || !strings.HasPrefix(got, "cancel") {
			t.Errorf("nobody answers: %q, %v", got, err)
		}
	}
	if err := n.tool(1, "echo").Check(json.RawMessage(`{"text":7}`)); err == nil {
		t.Error("wrong arguments were not refused")
	}
	if st, here := n.all[0].Status(); !here || st.State != mcp.StateConnected {
		t.Errorf("%+v", st)
	}
	if _, here := n.all[1].Status(); here {
		t.Error("it runs on two nodes")
	}
	// A tool that comes later joins everywhere; those that were seen stay as they are.
	if err := os.WriteFile(filepath.Join(filepath.Dir(n.file), "more"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stop(errors.New("it moves"))
	stop = n.run(2)
	n.wait(all(3, "more")...)
	if got, err := n.tool(0, "more").Run(t.Context(), call(`{"text":"hi"}`)); err != nil || got != "echo hi" {
		t.Errorf("%q, %v", got, err)
	}
	stop(errors.New("the end"))
	if got := n.notes(); strings.Count(got, "start") != 2 || strings.Index(got, "end") > strings.LastIndex(got, "start") || !strings.HasSuffix(got, "end") {
		t.Errorf("the program: %s", got)
	}
}

// What becomes of a call when its answer is lost, when nobody runs the server, when it is
// stopped, and when the server moves meanwhile.
func TestCallsWithoutAnswer(t *testing.T) {
	n := start(t, 2)
	stop := n.run(0)
	n.wait(all(2, "echo", "ask", "hang")...)
	n.mu.Lock()
	n.lose = true
	n.mu.Unlock()
	if _, err := n.tool(1, "echo").Run(t.Context(), call("{}")); err == nil || !strings.Contains(err.Error(), "whether it was carried out is not known") {
		t.Errorf("the answer is lost: %v", err)
	}
	n.mu.Lock()
	n.lose = false
	n.mu.Unlock()
	if got := strings.Count(n.notes(), "call echo"); got != 1 {
		t.Errorf("it was made %d times", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := call("{}")
	c.Progress = func(note string, percent *int) {
		if note != "half" || percent == nil || *percent != 50 {
			t.Errorf("progress %q, %v", note, percent)
		}
		cancel()
	}
	if _, err := n.tool(1, "hang").Run(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancel: %v", err)
	}
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	c.Progress = func(string, *int) { begun <- struct{}{} }
	go func() { _, err := n.tool(1, "hang").Run(t.Context(), c); ended <- err }()
	<-begun
	stop(member.ErrLeaseOver)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "whether it was carried out is not known") {
		t.Errorf("the server ended meanwhile: %v", err)
	}
	if !strings.Contains(n.notes(), "cancelled") {
		t.Error("the cancel has not come to the program")
	}
	if _, taken := n.all[0].Answer(t.Context(), encode(request{Call: &callAsked{Tool: "one_echo"}}), nil); taken {
		t.Error("it takes calls, and does not run")
	}
	if _, taken := n.all[0].Answer(t.Context(), encode(request{List: &listAsked{}}), nil); taken {
		t.Error("it lists tools, and does not run")
	}
	s := New(Options{Name: "one", Ask: func(context.Context, []byte, time.Duration, Hear) ([]byte, error) { return nil, member.ErrNotRunning }})
	check, err := mcp.Checker(json.RawMessage(`{"type":"object"}`), 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (&remote{s, conversation.ToolSpec{Name: "one_echo"}, check}).Run(t.Context(), call("{}")); err == nil || !strings.Contains(err.Error(), "was not made") {
		t.Errorf("nobody runs it: %v", err)
	}
}

// Every version reads and writes this.
func TestMessages(t *testing.T) {
	for want, v := range map[string]any{
		`{"list":{"known":"v"}}`: request{List: &listAsked{"v"}},
		`{"call":{"tool":"t","tenant":"a","session":"s","task":"t1","call":"c","args":{"x":1}}}`:                                         request{Call: &callAsked{"t", "a", "s", "t1", "c", json.RawMessage(`{"x":1}`), ""}},
		`{"call":{"tool":"t","tenant":"a","session":"s","task":"t1","call":"c","args":{},"trace":"00-1-2-01"}}`:                          request{Call: &callAsked{"t", "a", "s", "t1", "c", json.RawMessage(`{}`), "00-1-2-01"}},
		`{"list":{"version":"v","tools":[{"name":"t","description":"d","schema":{},"approval":true,"idempotent":true,"timeout_ns":5}]}}`: answer{List: &listed{"v", []toolShown{{"t", "d", json.RawMessage(`{}`), true, true, 5}}}},
		`{"text":"t","error":"e"}`:                  answer{Text: "t", Fail: "e"},
		`{"progress":{"note":"n"}}`:                 meanwhile{Progress: &progressShown{Note: "n"}},
		`{"question":{"text":"q","choices":["a"]}}`: meanwhile{Question: &questionAsked{"q", []string{"a"}}},
		`{"text":"t","closed":true}`:                replied{"t", true},
	} {
		if got := string(encode(v)); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}
