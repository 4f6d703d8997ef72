package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"parley/conversation"
	"parley/models/anthropic"
	"parley/models/modelstest"
	"parley/models/openai"
	"parley/models/scripted"
)

// The worked examples of the conversation rules (D-17 to D-19, and a question
// with its reply), driven through each adapter against a provider that decides as
// the scripted model does; and the joint table of the adapters' suite.
func TestWorkedExamplesThroughAdapters(t *testing.T) {
	examples := []struct {
		name string
		run  func(*testing.T, *live)
	}{
		{"example: two independent tasks (D-18)", twoIndependentTasks},
		{"example: amendment (D-17)", amendment},
		{"example: parallel question (D-19)", parallelQuestion},
		{"example: ask and reply (R-01 to R-09)", replyRoute},
	}
	var columns []modelstest.Column
	for _, adapter := range []struct {
		name, block string
		wire        modelstest.Wire
		speak       func(answer *conversation.ModelAnswer) (contentType, body string)
		dial        modelstest.Dial
	}{
		{"openai, responses", "provider = \"openai\"\napi = \"responses\"\n", modelstest.Responses(), speakResponses, dialOpenAI(openai.Responses)},
		{"openai, chat", "provider = \"openai\"\napi = \"chat\"\n", modelstest.Chat(), speakChat, dialOpenAI(openai.Chat)},
		{"anthropic", "provider = \"anthropic\"\n", modelstest.Messages(), speakMessages, dialAnthropic},
	} {
		t.Run(adapter.name, func(t *testing.T) {
			column := modelstest.Column{}
			if !testing.Short() { // the adapters' rooms run it as well
				column = modelstest.RunUpstream(t, adapter.wire, adapter.dial)
			}
			column.Adapter = adapter.name
			for _, example := range examples {
				passed := t.Run(example.name, func(t *testing.T) {
					p := newProvider(t, adapter.wire, adapter.speak)
					config := write(t, "[model]\ndefault = \"real\"\n[models.real]\nmodel = \"m\"\nkey_env = \"REAL_KEY\"\n"+adapter.block+
						"base_url = \""+p.url+adapter.wire.Base+"\"\n")
					l := startWith(t, t.TempDir(), func(m *Main) {
						m.Environ = []string{"REAL_KEY=" + realKey}
						m.wrap = p.watch
					}, "--config", config)
					example.run(t, l)
					if p.count() == 0 {
						t.Error("the provider was not asked")
					}
				})
				column.Cases = append(column.Cases, modelstest.Case{Name: example.name, Passed: passed})
			}
			columns = append(columns, column)
		})
	}
	t.Logf("adapter × case:\n%s", modelstest.Table(columns...))
}

const realKey = "sk-real-0123456789abcdef"

func connection(a modelstest.Access) openai.Connection {
	return openai.Connection{BaseURL: a.BaseURL, Model: a.Model, APIKey: a.Key, Headers: a.Headers,
		Stream: a.Stream, IdleTimeout: a.IdleTimeout, MaxBytes: a.MaxBytes}
}

func dialOpenAI(api openai.API) modelstest.Dial {
	return func(t testing.TB, a modelstest.Access) conversation.Model {
		m, err := openai.New(openai.Options{API: api, Connection: connection(a)})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

func dialAnthropic(t testing.TB, a modelstest.Access) conversation.Model {
	m, err := anthropic.New(anthropic.Options{Connection: connection(a)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// provider is a provider's server whose model is the scripted one. What wire
// formats do not carry, such as message ids, it takes from the request as the
// adapter got it; that the adapter has sent the rest is checked.
type provider struct {
	t      *testing.T
	url    string
	speak  func(*conversation.ModelAnswer) (string, string)
	model  *scripted.Model
	strict *modelstest.Upstream // refuses what the real provider would

	mu       sync.Mutex
	requests map[string]conversation.Request // by session
	answered int
}

func newProvider(t *testing.T, wire modelstest.Wire, speak func(*conversation.ModelAnswer) (string, string)) *provider {
	model, err := scripted.New(scripted.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{
		t: t, speak: speak, model: model, requests: map[string]conversation.Request{},
		strict: modelstest.NewUpstream(t, wire, modelstest.Reply{Body: "{}"}),
	}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// watch notes what a model is asked.
func (p *provider) watch(m conversation.Model) conversation.Model { return &watched{m, p} }

type watched struct {
	conversation.Model
	p *provider
}

func (w *watched) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	w.p.mu.Lock()
	w.p.requests[string(r.Session)] = r
	w.p.mu.Unlock()
	return w.Model.Stream(ctx, r)
}

func (p *provider) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	raw, err := io.ReadAll(req.Body)
	if err != nil {
		return // the caller has given up
	}
	if got := req.Header.Get("Authorization"); got != "Bearer "+realKey {
		p.t.Errorf("the authorization is %q", got)
	}
	r := p.read(req, raw)
	for out, err := range p.model.Stream(req.Context(), r) {
		if err != nil {
			return
		}
		if out.Done != nil {
			media, body := p.speak(out.Done)
			w.Header().Set("Content-Type", media)
			_, _ = io.WriteString(w, body)
		}
	}
}

// read finds the request behind a request, and compares the two.
func (p *provider) read(req *http.Request, raw []byte) conversation.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered++
	again := req.Clone(req.Context())
	again.Body = io.NopCloser(bytes.NewReader(raw))
	p.strict.ServeHTTP(httptest.NewRecorder(), again)
	all := p.strict.Asked()
	asked := all[len(all)-1]
	r, ok := p.requests[asked.User]
	if !ok {
		p.t.Errorf("a request for the session %q, which nobody has asked for", asked.User)
	}
	for _, e := range r.All() {
		sent := func(said string) bool { return strings.TrimSuffix(said, "\n\n"+r.Note) == "user: "+e.Text }
		if e.Role == conversation.RoleUser && !slices.ContainsFunc(asked.Said, sent) {
			p.t.Errorf("%q was not sent: %q", e.Text, asked.Said)
		}
	}
	if asked.System != r.System || len(asked.Tools) != len(r.Tools) {
		p.t.Errorf("the system prompt is %q with %d tools, not %q with %d", asked.System, len(asked.Tools), r.System, len(r.Tools))
	}
	return r
}

type fields = map[string]any

func sse(name string, data fields) string {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err) // texts and numbers
	}
	if name == "" {
		return "data: " + string(raw) + "\n\n"
	}
	data["type"] = name
	raw, _ = json.Marshal(data)
	return "event: " + name + "\ndata: " + string(raw) + "\n\n"
}

const eventStream = "text/event-stream"

func speakResponses(a *conversation.ModelAnswer) (string, string) {
	var b strings.Builder
	output := []fields{}
	for i, item := range a.Items {
		if item.Kind == conversation.ItemCall {
			output = append(output, fields{"type": "function_call", "id": fmt.Sprint("fc_", i), "call_id": item.ID, "name": item.Tool, "arguments": item.Args, "status": "completed"})
		} else {
			b.WriteString(sse("response.output_text.delta", fields{"output_index": i, "content_index": 0, "delta": item.Text}))
			output = append(output, fields{"type": "message", "id": item.ID, "role": "assistant", "status": "completed",
				"content": []fields{{"type": "output_text", "text": item.Text, "annotations": []any{}}}})
		}
		b.WriteString(sse("response.output_item.done", fields{"output_index": i, "item": output[i]}))
	}
	b.WriteString(sse("response.completed", fields{"response": fields{"id": a.ResponseID, "status": "completed", "output": output,
		"usage": fields{"input_tokens": 1, "output_tokens": 1}}}))
	return eventStream, b.String()
}

func speakChat(a *conversation.ModelAnswer) (string, string) {
	var texts []string
	var calls []fields
	for _, item := range a.Items {
		if item.Kind == conversation.ItemText {
			texts = append(texts, item.Text)
			continue
		}
		calls = append(calls, fields{"index": len(calls), "id": item.ID, "type": "function", "function": fields{"name": item.Tool, "arguments": item.Args}})
	}
	delta := fields{"role": "assistant", "content": strings.Join(texts, "\n\n")}
	reason := "stop"
	if calls != nil {
		delta["tool_calls"], reason = calls, "tool_calls"
	}
	chunk := func(delta fields, reason any) string {
		return sse("", fields{"id": a.ResponseID, "object": "chat.completion.chunk", "choices": []fields{{"index": 0, "delta": delta, "finish_reason": reason}}})
	}
	return eventStream, chunk(delta, nil) + chunk(fields{}, reason) + "data: [DONE]\n\n"
}

func speakMessages(a *conversation.ModelAnswer) (string, string) {
	var b strings.Builder
	b.WriteString(sse("message_start", fields{"message": fields{"id": a.ResponseID, "type": "message", "role": "assistant", "content": []any{}, "usage": fields{"input_tokens": 1}}}))
	reason := "end_turn"
	for i, item := range a.Items {
		block, delta := fields{"type": "text", "text": ""}, fields{"type": "text_delta", "text": item.Text}
		if item.Kind == conversation.ItemCall {
			reason = "tool_use"
			block, delta = fields{"type": "tool_use", "id": item.ID, "name": item.Tool, "input": fields{}}, fields{"type": "input_json_delta", "partial_json": item.Args}
		}
		b.WriteString(sse("content_block_start", fields{"index": i, "content_block": block}))
		b.WriteString(sse("content_block_delta", fields{"index": i, "delta": delta}))
		b.WriteString(sse("content_block_stop", fields{"index": i}))
	}
	b.WriteString(sse("message_delta", fields{"delta": fields{"stop_reason": reason}, "usage": fields{"output_tokens": 1}}))
	b.WriteString(sse("message_stop", fields{}))
	return eventStream, b.String()
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered
}
