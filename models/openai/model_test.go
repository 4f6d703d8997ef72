package openai

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"parley/conversation"
	"parley/models/internal/httpmodel"
	"parley/models/modelstest"
)

var streaming = Connection{Stream: true}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(api API) modelstest.Dial {
	return func(t testing.TB, a modelstest.Access) conversation.Model {
		t.Helper()
		m, err := New(Options{
			API: api, Connection: Connection{BaseURL: a.BaseURL, APIKey: a.Key, Model: a.Model, Headers: a.Headers, Stream: a.Stream,
				IdleTimeout: a.IdleTimeout, MaxBytes: a.MaxBytes,
			}})
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

// serve is a model of a provider that sends one thing, whatever it is asked;
// asked is the body of the last request.
func serve(t *testing.T, media, body string, o Options) (m *Model, asked *map[string]any) {
	t.Helper()
	url, asked := modelstest.Fixed(t, media, body)
	o.BaseURL = url + "/v1"
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
		"responses without an output at the end": {Responses, modelstest.SSE(
			`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"a"}`,
			`{"type":"response.output_text.delta","output_index":0,"content_index":1,"delta":"b"}`,
			`{"type":"response.completed","response":{"id":"r","output":[],"output_text":"ab"}}`,
		), want{"ab", []string{"text: a", "text: b"}}},
		"responses without deltas": {Responses, modelstest.SSE(
			`{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"whole"}`,
			`{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"whole"}]}]}}`,
		), want{"", []string{"text: whole"}}},
		"responses with only the end": {Responses, modelstest.SSE(
			`{"type":"response.completed","response":{"output_text":"M-04"}}`,
		), want{"", []string{"text: M-04"}}},
		"responses with a refusal": {Responses, modelstest.SSE(
			`{"type":"response.refusal.delta","output_index":0,"content_index":0,"delta":"I will not."}`,
			`{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"refusal","refusal":"I will not."}]}]}}`,
		), want{"I will not.", []string{"text: I will not."}}},
		"responses with types in the event names only": {Responses,
			"event: response.output_text.delta\ndata: {\"delta\":\"a\"}\n\nevent: response.completed\ndata: {\"response\":{}}\n\n",
			want{"a", []string{"text: a"}}},
		"responses at the limit of tokens": {Responses, modelstest.SSE(
			`{"type":"response.output_text.delta","delta":"as far as it g"}`,
			`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`,
		), want{"as far as it g", []string{"text: as far as it g"}}},
		"responses with a call in one piece": {Responses, modelstest.SSE(
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c","name":"f","arguments":{"a":1}}}`,
			`{"type":"response.completed","response":{}}`,
		), want{"", []string{`call f {"a":1}`}}},
		"chat with null errors, numbers for text and unknown fields": {Chat, modelstest.SSE(
			`{"error":null,"choices":[{"delta":{"content":"a"}}]}`,
			`{"choices":[{"delta":{"content":7}}],"x":{}}`,
			`{"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}`,
		), want{"ab", []string{"text: ab"}}},
		"chat with content in blocks": {Chat, modelstest.SSE(
			`{"choices":[{"delta":{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"}]}}]}`,
			`{"choices":[{"delta":{},"finish_reason":"stop"}]}`,
		), want{"a", []string{"text: a"}}},
		"chat with reasoning": {Chat, modelstest.SSE(
			`{"choices":[{"delta":{"reasoning_content":"hm","content":null}}]}`,
			`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`,
		), want{"a", []string{"text: a"}}},
		"chat with calls without index, id and arguments": {Chat, modelstest.SSE(
			`{"choices":[{"delta":{"tool_calls":[{"id":"x","function":{"name":"f","arguments":"{\"a\""}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":":1}"}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":5,"function":{"name":"g"}}]},"finish_reason":"tool_calls"}]}`,
		), want{"", []string{`call f {"a":1}`, `call g {}`}}},
		"chat with a call before the text": {Chat, modelstest.SSE(
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":{"a":1}}}]}}]}`,
			`{"choices":[{"delta":{"content":"later"},"finish_reason":"stop"}]}`, `[DONE]`,
		), want{"later", []string{`call f {"a":1}`, "text: later"}}},
		"chat without [DONE] and usage": {Chat, modelstest.SSE(
			`{"choices":[{"delta":{"content":"a"},"finish_reason":"length"}]}`,
		), want{"a", []string{"text: a"}}},
		"chat with a second choice": {Chat, modelstest.SSE(
			`{"choices":[{"index":1,"delta":{"content":"other"}},{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`,
		), want{"a", []string{"text: a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := serve(t, "text/event-stream", c.stream, Options{API: c.api, Connection: streaming})
			deltas, done, err := modelstest.Collect(t.Context(), m, conversation.Request{Stream: true})
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
		"a proxy's [DONE] without a finish_reason": {Chat, modelstest.SSE(`{"choices":[{"delta":{"content":"a"}}]}`, `[DONE]`), conversation.Unavailable, false},
		"a finish_reason of error":                 {Chat, modelstest.SSE(`{"choices":[{"delta":{"content":"a"},"finish_reason":"error"}]}`), conversation.Unavailable, false},
		"a chat withheld":                          {Chat, modelstest.SSE(`{"choices":[{"delta":{},"finish_reason":"content_filter"}]}`), conversation.Forbidden, true},
		"a failure without words":                  {Responses, modelstest.SSE(`{"type":"response.failed","response":{"status":"failed"}}`), conversation.Unavailable, false},
		"a failure in the middle":                  {Responses, modelstest.SSE(`{"type":"error","code":"server_error","message":"x"}`), conversation.Unavailable, false},
		"a failure in an object":                   {Responses, modelstest.SSE(`{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"x"}}`), conversation.TooLarge, true},
		"a prompt refused":                         {Responses, modelstest.SSE(`{"type":"response.failed","response":{"error":{"code":"invalid_prompt","message":"x"}}}`), conversation.BadRequest, true},
		"a chat withheld in a word of Gemini's":    {Chat, modelstest.SSE(`{"choices":[{"delta":{},"finish_reason":"content_filter: PROHIBITED_CONTENT"}]}`), conversation.Forbidden, true},
		"a call that nobody could read":            {Chat, modelstest.SSE(`{"choices":[{"delta":{},"finish_reason":"function_call_filter: MALFORMED_FUNCTION_CALL"}]}`), conversation.Unavailable, false},
		"a prompt that is filtered":                {Chat, modelstest.SSE(`{"error":{"code":"content_filter","message":"x","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`), conversation.Forbidden, true},
		"an answer that is filtered":               {Responses, modelstest.SSE(`{"type":"response.failed","response":{"error":{"code":"content_filter","message":"x"}}}`), conversation.Forbidden, true},
		"a server without resources":               {Chat, modelstest.SSE(`{"choices":[{"delta":{"content":"a"},"finish_reason":"insufficient_system_resource"}]}`), conversation.Unavailable, false},
		"a response withheld":                      {Responses, modelstest.SSE(`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`), conversation.Forbidden, true},
		"nothing":                                  {Responses, "", conversation.Unavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := serve(t, "text/event-stream", c.stream, Options{API: c.api, Connection: streaming})
			_, done, err := modelstest.Collect(t.Context(), m, conversation.Request{Stream: true})
			var failure *conversation.ModelError
			if done != nil || !errors.As(err, &failure) || failure.Failure.Code != c.code || failure.Permanent != c.permanent {
				t.Fatalf("got %+v, %+v", done, err)
			}
		})
	}
}

// A character that a server cuts into two escapes comes out whole, and is never shown
// in halves; a half without its other one is U+FFFD.
func TestCutPairs(t *testing.T) {
	for name, c := range map[string]struct {
		api    API
		stream string
		shown  string
		items  []string
	}{
		"chat": {Chat, modelstest.SSE(
			`{"choices":[{"delta":{"content":"a\ud83d"}}]}`, `{"choices":[{"delta":{"reasoning":"hm"}}]}`, `{"choices":[{"delta":{"content":"\ude00b"},"finish_reason":"stop"}]}`,
		), "a|😀b|", []string{"text: a😀b"}},
		"chat, a half at the end": {Chat, modelstest.SSE(
			`{"choices":[{"delta":{"content":"a"}}]}`, `{"choices":[{"delta":{"content":"\ud83d"},"finish_reason":"stop"}]}`,
		), "a|\uFFFD|", []string{"text: a\uFFFD"}},
		"chat, only a half": {Chat, modelstest.SSE(
			`{"choices":[{"delta":{"content":"\ud83d"}}]}`, `{"choices":[{"delta":{"content":"\ude00"},"finish_reason":"stop"}]}`,
		), "😀|", []string{"text: 😀"}},
		"responses": {Responses, modelstest.SSE(
			`{"type":"response.output_text.delta","output_index":0,"delta":"a\ud83d"}`, `{"type":"response.output_text.delta","output_index":1,"delta":"\ud83d"}`,
			`{"type":"response.output_text.delta","output_index":0,"delta":"\ude00b"}`, `{"type":"response.output_text.delta","output_index":1,"delta":"\ude01"}`,
			`{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"a\":\"\ud83d"}`, `{"type":"response.function_call_arguments.delta","output_index":2,"delta":"\ude00\"}"}`,
			`{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","call_id":"c","name":"f"}}`,
			`{"type":"response.completed","response":{}}`,
		), "a|😀b|😁|", []string{"text: a😀b", "text: 😁", `call f {"a":"😀"}`}},
		"responses, a half at the end": {Responses, modelstest.SSE(
			`{"type":"response.output_text.delta","output_index":0,"delta":"a\ud83d"}`, `{"type":"response.output_text.done","output_index":0,"text":"a\ud83d"}`,
			`{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"a\ud83d"}]}]}}`,
		), "a|\uFFFD|", []string{"text: a\uFFFD"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := serve(t, "text/event-stream", c.stream, Options{API: c.api, Connection: streaming})
			var done *conversation.ModelAnswer
			shown := ""
			for out, err := range m.Stream(t.Context(), conversation.Request{Stream: true}) {
				if err != nil {
					t.Fatal(err)
				}
				if done = out.Done; out.Delta != "" {
					shown += out.Delta + "|"
				}
			}
			if got := lines(done.Items); shown != c.shown || !slices.Equal(got, c.items) {
				t.Errorf("shown is %q, the items are %q, not %q and %q", shown, got, c.shown, c.items)
			}
		})
	}
}

// M-03: bodies in which a strict client finds nothing reach the lenient reading.
func TestLenientBodies(t *testing.T) {
	for media, body := range map[string]string{
		"application/json": `{"output_text":"said"}`, "text/plain": "said", "application/problem+json": `"said"`,
	} {
		m, _ := serve(t, media, body, Options{})
		_, done, err := modelstest.Collect(t.Context(), m, conversation.Request{})
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
	t.Run("ids are left out", func(t *testing.T) {
		m, asked := serve(t, "application/json", `{"output_text":"x"}`, Options{Connection: Connection{
			MaxOutputTokens: 9, Temperature: &temperature, Extra: map[string]any{"reasoning": map[string]any{"effort": "low"}, "user": "else"},
		}})
		if _, _, err := modelstest.Collect(t.Context(), m, conversation.Request{Session: "s1", Entries: entries}); err != nil {
			t.Fatal(err)
		}
		body := *asked
		input := body["input"].([]any)
		if want := []any{"one", "two", "of another model"}; len(input) != 6 {
			t.Fatalf("%d items: %v", len(input), input)
		} else {
			for i, text := range want {
				if own := input[2+i].(map[string]any); own["id"] != nil || own["content"] != text || own["role"] != "assistant" {
					t.Errorf("the answer is %v", own)
				}
			}
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
			m, asked := serve(t, "application/json", `{"choices":[{"message":{"content":"x"}}]}`, Options{API: Chat, Alternate: alternate, Connection: Connection{MaxOutputTokens: 9}})
			if _, _, err := modelstest.Collect(t.Context(), m, conversation.Request{Entries: entries}); err != nil {
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
		for _, base := range []string{"", "https://mine.openai.azure.com/openai/v1"} {
			m, err := New(Options{API: Chat, Connection: Connection{BaseURL: base, Model: "m", MaxOutputTokens: 9}})
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(m.chatRequest(&conversation.Request{}, &httpmodel.Names{}, false))
			if err != nil || !strings.Contains(string(raw), `"max_completion_tokens":9`) || strings.Contains(string(raw), `"max_tokens"`) {
				t.Errorf("%s %v", raw, err)
			}
		}
	})
}

// What servers refuse to be sent is left out, and tools are described as they take it.
func TestLeftOutAndPlain(t *testing.T) {
	r := conversation.Request{Session: "s1", Stream: true, Tools: []conversation.ToolSpec{
		{Name: "f", Schema: json.RawMessage(`{"$schema":"x","type":"object","properties":{"a":{"type":["integer","null"]}},"additionalProperties":false}`)}, {Name: "bare"},
	}}
	connection := streaming
	connection.Without, connection.Schema = []string{"user", "stream_options"}, SchemaPlain
	m, asked := serve(t, "text/event-stream", modelstest.SSE(`{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}`), Options{API: Chat, Connection: connection})
	if _, done, err := modelstest.Collect(t.Context(), m, r); err != nil || !done.Usage.Estimated {
		t.Fatalf("%+v, %v", done, err)
	}
	for _, name := range connection.Without {
		if _, sent := (*asked)[name]; sent {
			t.Errorf("%s is sent: %v", name, *asked)
		}
	}
	raw, _ := json.Marshal((*asked)["tools"])
	if want := `[{"function":{"name":"f","parameters":{"properties":{"a":{"nullable":true,"type":"integer"}},"required":[],"type":"object"}},"type":"function"},{"function":{"name":"bare","parameters":{"required":[],"type":"object"}},"type":"function"}]`; string(raw) != want {
		t.Errorf("the tools are\n%s\nnot\n%s", raw, want)
	}
	connection.Without = []string{"user", "store"}
	m, asked = serve(t, "application/json", `{"output_text":"x"}`, Options{Connection: connection})
	if _, _, err := modelstest.Collect(t.Context(), m, r); err != nil {
		t.Fatal(err)
	}
	raw, _ = json.Marshal((*asked)["tools"])
	if (*asked)["user"] != nil || (*asked)["store"] != nil || !strings.Contains(string(raw), `"parameters":{"properties":{},"required":[],"type":"object"}`) || strings.Contains(string(raw), "$schema") {
		t.Errorf("the request is %v", *asked)
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"an unknown api":    {API: "assistants", Connection: Connection{Model: "m"}},
		"no model":          {},
		"a temperature":     {Connection: Connection{Model: "m", Temperature: new(2.1)}},
		"an unknown schema": {Connection: Connection{Model: "m", Schema: "strict"}},
		"without a model":   {Connection: Connection{Model: "m", Without: []string{"model"}}},
		"a key in the URL":  {Connection: Connection{Model: "m", BaseURL: "https://host/v1?key=hidden"}},
	} {
		if _, err := New(o); err == nil || !strings.HasPrefix(err.Error(), "openai: ") {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: the error tells a secret: %v", name, err)
		}
	}
	// Everything that is wrong is said at once.
	_, err := New(Options{API: "assistants"})
	if err == nil || !strings.Contains(err.Error(), "the api") || !strings.Contains(err.Error(), "the name of the model") {
		t.Error(err)
	}
	m, err := New(Options{Connection: Connection{Model: "org/a model", Temperature: new(2.0)}})
	if err != nil || m.Label() != "openai:org/a_model" || m.o.BaseURL != DefaultBaseURL || m.o.API != Responses {
		t.Errorf("%v %+v", err, m)
	}
}

// A reasoning model behind the stateless Responses API goes on from its own
// reasoning: what came encrypted goes back, as it came and in its place, in the
// next step of the task, and to no other model or task.
func TestReasoningGoesBack(t *testing.T) {
	const answer = `{"id":"resp_1","output":[
		{"type":"reasoning","id":"rs_0","summary":[{"type":"summary_text","text":"not stored by OpenAI"}]},
		{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"c2VhbGVk"},
		{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"I look."}]},
		{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"bW9yZQ"},
		{"type":"function_call","call_id":"call_1","name":"f","arguments":"{}"}]}`
	reasons := Options{Connection: Connection{Model: "o", Stream: true, Extra: map[string]any{"include": []string{"reasoning.encrypted_content"}}}}
	for media, body := range map[string]string{
		"application/json":  answer,
		"text/event-stream": modelstest.SSE(`{"type":"response.completed","response":` + strings.ReplaceAll(answer, "\n", "") + `}`),
	} {
		m, asked := serve(t, media, body, reasons)
		r := conversation.Request{Session: "s1", Task: "t1-s1", Stream: true, Entries: []conversation.Entry{{Role: conversation.RoleUser, Task: "t1-s1", Text: "go"}}}
		_, done, err := modelstest.Collect(t.Context(), m, r)
		if err != nil || len(done.Items) != 2 {
			t.Fatalf("%v %+v", err, done)
		}
		if (*asked)["store"] != false || !slices.Equal((*asked)["include"].([]any), []any{"reasoning.encrypted_content"}) {
			t.Errorf("asked for %v, %v", (*asked)["store"], (*asked)["include"])
		}
		r.Entries = append(r.Entries,
			conversation.Entry{Role: conversation.RoleAssistant, Task: "t1-s1", Items: done.Items},
			conversation.Entry{Role: conversation.RoleTool, Task: "t1-s1", CallID: "call_1", Text: "found"})
		input := func(m *Model, asked *map[string]any, r conversation.Request) string {
			if _, _, err := modelstest.Collect(t.Context(), m, r); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range (*asked)["input"].([]any) {
				item := v.(map[string]any)
				line, _ := item["type"].(string)
				for _, key := range []string{"role", "id", "encrypted_content", "call_id"} {
					if text, _ := item[key].(string); text != "" {
						line += " " + text
					}
				}
				got = append(got, strings.TrimSpace(line))
			}
			return strings.Join(got, "\n")
		}
		own := "user\nreasoning c2VhbGVk\nassistant\nreasoning bW9yZQ\nfunction_call call_1\nfunction_call_output call_1"
		without := "user\nassistant\nfunction_call call_1\nfunction_call_output call_1"
		if got := input(m, asked, r); got != own {
			t.Errorf("%s: the next step shows\n%s\nnot\n%s", media, got, own)
		}
		other := reasons
		other.Model = "o2"
		m2, asked2 := serve(t, media, body, other)
		if got := input(m2, asked2, r); got != without {
			t.Errorf("%s: another model is shown\n%s", media, got)
		}
		r.Task = "t2-s1"
		if got := input(m, asked, r); got != without {
			t.Errorf("%s: another task shows\n%s", media, got)
		}
	}
}

// An answer that ended before its end says why, in each form, also in a whole body.
func TestStopReasons(t *testing.T) {
	for name, c := range map[string]struct {
		api         API
		media, body string
		want        conversation.StopReason
	}{
		"responses, length":                     {Responses, "application/json", `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output_text":"a"}`, conversation.StopLength},
		"responses, filtered":                   {Responses, "application/json", `{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output_text":"a"}`, conversation.StopFiltered},
		"responses, whole":                      {Responses, "application/json", `{"status":"completed","output_text":"a"}`, 0},
		"chat, length":                          {Chat, "application/json", `{"choices":[{"message":{"content":"a"},"finish_reason":"length"}]}`, conversation.StopLength},
		"chat, filtered":                        {Chat, "application/json", `{"choices":[{"message":{"content":"a"},"finish_reason":"content_filter"}]}`, conversation.StopFiltered},
		"chat, whole":                           {Chat, "application/json", `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`, 0},
		"chat, a refusal":                       {Chat, "application/json", `{"choices":[{"message":{"content":null,"refusal":"a"},"finish_reason":"stop"}]}`, conversation.StopRefused},
		"chat, streamed, a refusal":             {Chat, "text/event-stream", modelstest.SSE(`{"choices":[{"delta":{"refusal":"a"},"finish_reason":"stop"}]}`), conversation.StopRefused},
		"chat, Gemini's word":                   {Chat, "application/json", `{"choices":[{"message":{"content":"a"},"finish_reason":"content_filter: RECITATION"}]}`, conversation.StopFiltered},
		"chat, another word":                    {Chat, "application/json", `{"choices":[{"message":{"content":"a"},"finish_reason":"SAFETY"}]}`, conversation.StopFiltered},
		"chat, Mistral's length":                {Chat, "application/json", `{"choices":[{"message":{"content":"a"},"finish_reason":"model_length"}]}`, conversation.StopLength},
		"chat, the context is full":             {Chat, "application/json", `{"choices":[{"message":{"content":"a"},"finish_reason":"model_context_window_exceeded"}]}`, conversation.StopLength},
		"chat, a call was left out":             {Chat, "application/json", `{"choices":[{"message":{"content":"a"},"finish_reason":"function_call_filter: MALFORMED_FUNCTION_CALL"}]}`, 0},
		"responses, a refusal":                  {Responses, "application/json", `{"output":[{"type":"message","content":[{"type":"refusal","refusal":"a"}]}]}`, conversation.StopRefused},
		"responses, streamed, a refusal":        {Responses, "text/event-stream", modelstest.SSE(`{"type":"response.refusal.delta","delta":"a"}`, `{"type":"response.completed","response":{}}`), conversation.StopRefused},
		"responses, streamed, a refusal as one": {Responses, "text/event-stream", modelstest.SSE(`{"type":"response.refusal.done","refusal":"a"}`, `{"type":"response.completed","response":{}}`), conversation.StopRefused},
		"chat, streamed, length":                {Chat, "text/event-stream", modelstest.SSE(`{"choices":[{"delta":{"content":"a"},"finish_reason":"length"}]}`), conversation.StopLength},
	} {
		t.Run(name, func(t *testing.T) {
			connection := httpConnection(c.media == "text/event-stream")
			m, _ := serve(t, c.media, c.body, Options{API: c.api, Connection: connection})
			_, done, err := modelstest.Collect(t.Context(), m, conversation.Request{Stream: connection.Stream})
			if err != nil || done.Stop != c.want {
				t.Errorf("stopped by %q (%v), want %q", done.Stop, err, c.want)
			}
		})
	}
}

func httpConnection(stream bool) Connection {
	c := streaming
	c.Stream = stream
	return c
}
