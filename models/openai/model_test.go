package openai

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/conversation"
	"parley/models/modelstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(api API) modelstest.Dial {
	return func(t testing.TB, a modelstest.Access) conversation.Model {
		t.Helper()
		m, err := New(Options{
			API: api, BaseURL: a.BaseURL, APIKey: a.Key, Model: a.Model, Headers: a.Headers, Stream: a.Stream,
			IdleTimeout: a.IdleTimeout, MaxBytes: a.MaxBytes,
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

func TestSuite(t *testing.T) {
	var columns []modelstest.Column
	for _, wire := range []modelstest.Wire{modelstest.Responses(), modelstest.Chat()} {
		t.Run(wire.Name, func(t *testing.T) {
			columns = append(columns, modelstest.RunUpstream(t, wire, dial(API(wire.Name))))
		})
	}
	t.Log("\n" + modelstest.Table(columns...))
}

func BenchmarkCall(b *testing.B) {
	b.Run("responses", func(b *testing.B) { modelstest.Bench(b, modelstest.Responses(), dial(Responses)) })
	b.Run("chat", func(b *testing.B) { modelstest.Bench(b, modelstest.Chat(), dial(Chat)) })
}

// serve is a provider that sends one thing, whatever it is asked; asked is the
// body of the last request.
func serve(t *testing.T, media, body string, o Options) (m *Model, asked *map[string]any) {
	t.Helper()
	asked = new(map[string]any)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw, _ := io.ReadAll(req.Body)
		*asked = nil
		if err := json.Unmarshal(raw, asked); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", media)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	o.BaseURL = server.URL + "/v1"
	if o.Model == "" {
		o.Model = "m"
	}
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m, asked
}

func collect(ctx context.Context, m *Model, r conversation.Request) (deltas string, done *conversation.ModelAnswer, err error) {
	for out, e := range m.Stream(ctx, r) {
		if e != nil {
			err = e
		}
		if out.Done != nil {
			done = out.Done
		}
		deltas += out.Delta
	}
	return deltas, done, err
}

// sse makes a stream of frames.
func sse(frames ...string) string { return "data: " + strings.Join(frames, "\n\ndata: ") + "\n\n" }

// What servers send that do not follow the letter of the references.
func TestStreamsOfOthers(t *testing.T) {
	type want struct {
		deltas string
		items  []string // "text: …" or "call TOOL ARGS"
	}
	for name, c := range map[string]struct {
		api    API
		stream string
		want   want
	}{
		"responses without an output at the end": {Responses, sse(
			`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"a"}`,
			`{"type":"response.output_text.delta","output_index":0,"content_index":1,"delta":"b"}`,
			`{"type":"response.completed","response":{"id":"r","output":[],"output_text":"ab"}}`,
		), want{"ab", []string{"text: a", "text: b"}}},
		"responses without deltas": {Responses, sse(
			`{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"whole"}`,
			`{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"whole"}]}]}}`,
		), want{"", []string{"text: whole"}}},
		"responses with only the end": {Responses, sse(
			`{"type":"response.completed","response":{"output_text":"M-04"}}`,
		), want{"", []string{"text: M-04"}}},
		"responses with a refusal": {Responses, sse(
			`{"type":"response.refusal.delta","output_index":0,"content_index":0,"delta":"I will not."}`,
			`{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"refusal","refusal":"I will not."}]}]}}`,
		), want{"I will not.", []string{"text: I will not."}}},
		"responses with types in the event names only": {Responses,
			"event: response.output_text.delta\ndata: {\"delta\":\"a\"}\n\nevent: response.completed\ndata: {\"response\":{}}\n\n",
			want{"a", []string{"text: a"}}},
		"responses at the limit of tokens": {Responses, sse(
			`{"type":"response.output_text.delta","delta":"as far as it g"}`,
			`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`,
		), want{"as far as it g", []string{"text: as far as it g"}}},
		"responses with a call in one piece": {Responses, sse(
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c","name":"f","arguments":{"a":1}}}`,
			`{"type":"response.completed","response":{}}`,
		), want{"", []string{`call f {"a":1}`}}},
		"chat with null errors, numbers for text and unknown fields": {Chat, sse(
			`{"error":null,"choices":[{"delta":{"content":"a"}}]}`,
			`{"choices":[{"delta":{"content":7}}],"x":{}}`,
			`{"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}`,
		), want{"ab", []string{"text: ab"}}},
		"chat with content in blocks": {Chat, sse(
			`{"choices":[{"delta":{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"}]}}]}`,
			`{"choices":[{"delta":{},"finish_reason":"stop"}]}`,
		), want{"a", []string{"text: a"}}},
		"chat with reasoning": {Chat, sse(
			`{"choices":[{"delta":{"reasoning_content":"hm","content":null}}]}`,
			`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`,
		), want{"a", []string{"text: a"}}},
		"chat with calls without index, id and arguments": {Chat, sse(
			`{"choices":[{"delta":{"tool_calls":[{"id":"x","function":{"name":"f","arguments":"{\"a\""}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":":1}"}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":5,"function":{"name":"g"}}]},"finish_reason":"tool_calls"}]}`,
		), want{"", []string{`call f {"a":1}`, `call g {}`}}},
		"chat with a call before the text": {Chat, sse(
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":{"a":1}}}]}}]}`,
			`{"choices":[{"delta":{"content":"later"},"finish_reason":"stop"}]}`, `[DONE]`,
		), want{"later", []string{`call f {"a":1}`, "text: later"}}},
		"chat without [DONE] and usage": {Chat, sse(
			`{"choices":[{"delta":{"content":"a"},"finish_reason":"length"}]}`,
		), want{"a", []string{"text: a"}}},
		"chat with a second choice": {Chat, sse(
			`{"choices":[{"index":1,"delta":{"content":"other"}},{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`,
		), want{"a", []string{"text: a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := serve(t, "text/event-stream", c.stream, Options{API: c.api, Stream: true})
			deltas, done, err := collect(t.Context(), m, conversation.Request{Stream: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := lines(done.Items); deltas != c.want.deltas || !slices.Equal(got, c.want.items) {
				t.Errorf("got %q and %q, want %q", deltas, got, c.want)
			}
			seen := map[string]bool{}
			for _, call := range (Body{Items: done.Items}).Calls() {
				if call.ID == "" || seen[call.ID] {
					t.Errorf("the id %q cannot pair a result", call.ID)
				}
				seen[call.ID] = true
			}
		})
	}
	for name, c := range map[string]struct {
		api       API
		stream    string
		code      conversation.Code
		permanent bool
	}{
		"a proxy's [DONE] without a finish_reason": {Chat, sse(`{"choices":[{"delta":{"content":"a"}}]}`, `[DONE]`), conversation.Unavailable, false},
		"a finish_reason of error":                 {Chat, sse(`{"choices":[{"delta":{"content":"a"},"finish_reason":"error"}]}`), conversation.Unavailable, false},
		"a chat withheld":                          {Chat, sse(`{"choices":[{"delta":{},"finish_reason":"content_filter"}]}`), conversation.BadRequest, true},
		"a failure without words":                  {Responses, sse(`{"type":"response.failed","response":{"status":"failed"}}`), conversation.Unavailable, false},
		"a failure in the middle":                  {Responses, sse(`{"type":"error","code":"server_error","message":"x"}`), conversation.Unavailable, false},
		"a failure in an object":                   {Responses, sse(`{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"x"}}`), conversation.TooLarge, true},
		"a prompt refused":                         {Responses, sse(`{"type":"response.failed","response":{"error":{"code":"invalid_prompt","message":"x"}}}`), conversation.BadRequest, true},
		"a response withheld":                      {Responses, sse(`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`), conversation.BadRequest, true},
		"nothing":                                  {Responses, "", conversation.Unavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := serve(t, "text/event-stream", c.stream, Options{API: c.api, Stream: true})
			_, done, err := collect(t.Context(), m, conversation.Request{Stream: true})
			failure, is := err.(*conversation.ModelError)
			if done != nil || !is || failure.Failure.Code != c.code || failure.Permanent != c.permanent {
				t.Fatalf("got %+v, %+v", done, err)
			}
		})
	}
}

// M-03: bodies in which the SDK would find nothing reach the lenient reading.
func TestLenientBodies(t *testing.T) {
	for media, body := range map[string]string{
		"application/json": `{"output_text":"said"}`, "text/plain": "said", "application/problem+json": `"said"`,
	} {
		m, _ := serve(t, media, body, Options{})
		_, done, err := collect(t.Context(), m, conversation.Request{})
		if err != nil || len(done.Items) != 1 || done.Items[0].Text != "said" || !done.Usage.Estimated {
			t.Errorf("%s: %v %+v", body, err, done)
		}
	}
}

// What is asked for by options and ids, beyond the suite.
func TestRequests(t *testing.T) {
	temperature := 0.5
	entries := []conversation.Entry{
		{Role: conversation.RoleUser, Text: "a"}, {Role: conversation.RoleUser, Text: "b"},
		{Role: conversation.RoleAssistant, ResponseID: "resp_1", Items: []conversation.Item{
			{Kind: conversation.ItemText, ID: "msg_1", Text: "one"}, {Kind: conversation.ItemText, ID: "msg_1", Text: "two"},
			{Kind: conversation.ItemText, ID: "m1-s1:1", Text: "of another model"},
		}},
		{Role: conversation.RoleUser, Text: "c"},
	}
	t.Run("ids are given back", func(t *testing.T) {
		m, asked := serve(t, "application/json", `{"output_text":"x"}`, Options{MaxOutputTokens: 9, Temperature: &temperature, Extra: map[string]any{"reasoning": map[string]any{"effort": "low"}, "user": "else"}})
		if _, _, err := collect(t.Context(), m, conversation.Request{Session: "s1", Entries: entries}); err != nil {
			t.Fatal(err)
		}
		body := *asked
		input := body["input"].([]any)
		if len(input) != 5 {
			t.Fatalf("%d items: %v", len(input), input)
		}
		own, other := input[2].(map[string]any), input[3].(map[string]any)
		if own["id"] != "msg_1" || len(own["content"].([]any)) != 2 || other["id"] != nil || other["content"] != "of another model" {
			t.Errorf("the answers are %v and %v", own, other)
		}
		if body["max_output_tokens"] != 9.0 || body["temperature"] != 0.5 || body["user"] != "else" || body["reasoning"].(map[string]any)["effort"] != "low" {
			t.Errorf("the body is %v", body)
		}
		if body["previous_response_id"] != nil || body["instructions"] != nil || body["tools"] != nil {
			t.Errorf("the body has more than was asked for: %v", body)
		}
	})
	t.Run("roles alternate if they must", func(t *testing.T) {
		for alternate, want := range map[bool]int{false: 4, true: 3} {
			m, asked := serve(t, "application/json", `{"choices":[{"message":{"content":"x"}}]}`, Options{API: Chat, Alternate: alternate, MaxOutputTokens: 9})
			if _, _, err := collect(t.Context(), m, conversation.Request{Entries: entries}); err != nil {
				t.Fatal(err)
			}
			messages := (*asked)["messages"].([]any)
			if len(messages) != want || alternate && messages[0].(map[string]any)["content"] != "a\n\nb" {
				t.Errorf("alternate=%v: %v", alternate, messages)
			}
			if (*asked)["max_tokens"] != 9.0 || (*asked)["stream_options"] != nil {
				t.Errorf("the body is %v", *asked)
			}
		}
	})
	t.Run("the name of the limit at OpenAI", func(t *testing.T) {
		m, err := New(Options{API: Chat, Model: "m", MaxOutputTokens: 9})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(m.chatParams(&conversation.Request{}, &names{}, false))
		if err != nil || !strings.Contains(string(raw), `"max_completion_tokens":9`) || strings.Contains(string(raw), `"max_tokens"`) {
			t.Errorf("%s %v", raw, err)
		}
	})
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"an unknown api":      {API: "assistants", Model: "m"},
		"no model":            {Model: " "},
		"no address":          {Model: "m", BaseURL: "localhost:11434"},
		"another scheme":      {Model: "m", BaseURL: "ftp://host/v1"},
		"a key in the URL":    {Model: "m", BaseURL: "https://host/v1?key=hidden"},
		"a user in the URL":   {Model: "m", BaseURL: "https://u:hidden@host/v1"},
		"a key's line break":  {Model: "m", APIKey: "hidden\n"},
		"a key of two lines":  {Model: "m", APIKey: "hidden\r\nX: y"},
		"a header's name":     {Model: "m", Headers: map[string]string{"X Y": "hidden"}},
		"a header's value":    {Model: "m", Headers: map[string]string{"X": "hidden\n"}},
		"a negative limit":    {Model: "m", MaxOutputTokens: -1},
		"a temperature":       {Model: "m", Temperature: func() *float64 { f := 2.1; return &f }()},
		"a negative timeout":  {Model: "m", IdleTimeout: -time.Second},
		"a negative size":     {Model: "m", MaxBytes: -1},
		"a proxy of nowhere":  {Model: "m", Proxy: "hidden"},
		"a proxy, not a URL":  {Model: "m", Proxy: "http://u:hidden@%zz"},
		"an address, not one": {Model: "m", BaseURL: "http://u:hidden@%zz"},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s is accepted", name)
		} else if strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: the error tells a secret: %v", name, err)
		}
	}
	m, err := New(Options{Model: "org/a model"})
	if err != nil || m.Label() != "openai:org/a_model" || m.o.BaseURL != DefaultBaseURL || m.o.API != Responses {
		t.Errorf("%v %+v", err, m)
	}
	if m, err = New(Options{Model: "m", Label: "local", Proxy: "http://proxy:3128"}); err != nil || m.Label() != "local" {
		t.Error(err, m)
	}
	want, err := m.transport.Proxy(httptest.NewRequest(http.MethodPost, "https://host/", nil))
	if err != nil || want.Host != "proxy:3128" {
		t.Errorf("the proxy is %v, %v", want, err)
	}
}

// Two tools whose names differ only in what providers refuse stay two.
func TestNames(t *testing.T) {
	n := &names{}
	seen := map[string]string{}
	for _, name := range []string{"plain_name-1", "a.b", "a/b", "a:b", strings.Repeat("x", 65), strings.Repeat("x", 66), "日本"} {
		theirs := n.theirs(name)
		if !sane(theirs, maxToolName) || seen[theirs] != "" {
			t.Errorf("%q becomes %q, as %q does", name, theirs, seen[theirs])
		}
		seen[theirs] = name
	}
	for _, theirs := range slices.Sorted(maps.Keys(seen)) {
		if got := n.ours(theirs); got != seen[theirs] {
			t.Errorf("%q comes back as %q, not %q", theirs, got, seen[theirs])
		}
	}
}
