package anthropic

import (
	"encoding/json"
	"errors"
	"reflect"
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

func dial(t testing.TB, a modelstest.Access) conversation.Model {
	t.Helper()
	m, err := New(Options{
		Cache: true, Connection: Connection{BaseURL: a.BaseURL, APIKey: a.Key, Model: a.Model, Headers: a.Headers, Stream: a.Stream,
			IdleTimeout: a.IdleTimeout, MaxBytes: a.MaxBytes,
		}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSuite(t *testing.T) {
	t.Log("\n" + modelstest.Table(modelstest.RunUpstream(t, modelstest.Messages(), dial)))
}

func BenchmarkCall(b *testing.B) { modelstest.Bench(b, modelstest.Messages(), dial) }

// serve is a model of a provider that sends one thing, whatever it is asked;
// asked is the body of the last request.
func serve(t *testing.T, media, body string, o Options) (m *Model, asked *map[string]any) {
	t.Helper()
	url, asked := modelstest.Fixed(t, media, body)
	o.BaseURL = url
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

const empty = `{"type":"message","id":"msg_1","content":[],"stop_reason":"end_turn"}`

// The rules of the API about roles, beyond the suite: users are merged, results
// stand first, the user begins and ends.
func TestRoles(t *testing.T) {
	entries := []conversation.Entry{
		{Role: conversation.RoleAssistant, Items: []conversation.Item{{Kind: conversation.ItemText, Text: "before \n"}}},
		{Role: conversation.RoleUser, Text: "a"},
		{Role: conversation.RoleUser, Text: "b"},
		{Role: conversation.RoleAssistant, Items: []conversation.Item{
			{Kind: conversation.ItemText, Text: "x"}, {Kind: conversation.ItemCall, ID: "toolu_1", Tool: "f", Args: `[1]`}, {Kind: conversation.ItemText, Text: "y"},
		}},
		{Role: conversation.RoleTool, CallID: "toolu_1", Text: "found"},
		{Role: conversation.RoleUser, Text: "c"},
		{Role: conversation.RoleAssistant, Items: []conversation.Item{{Kind: conversation.ItemText, Text: "z"}}},
		{Role: conversation.RoleAssistant, Items: []conversation.Item{{Kind: conversation.ItemText, Text: "z2"}}},
	}
	m, asked := serve(t, "application/json", empty, Options{})
	if _, _, err := modelstest.Collect(t.Context(), m, conversation.Request{Session: "s1", Entries: entries}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range (*asked)["messages"].([]any) {
		message := v.(map[string]any)
		line := message["role"].(string) + ":"
		for _, b := range message["content"].([]any) {
			block := b.(map[string]any)
			line += " " + block["type"].(string)
			if text, is := block["text"].(string); is {
				line += "=" + text
			}
		}
		got = append(got, line)
	}
	want := []string{
		"user: text=" + openingText, "assistant: text=before", "user: text=a text=b",
		"assistant: text=x tool_use text=y", "user: tool_result text=c", "assistant: text=z text=z2", "user: text=" + continueText,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the messages are\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	body := *asked
	if tools := body["tools"].([]any); len(tools) != 1 || body["tool_choice"].(map[string]any)["type"] != "none" {
		t.Errorf("the tools of a transcript with calls are %v, %v", tools, body["tool_choice"])
	}
}

func TestRequests(t *testing.T) {
	temperature := 0.5
	m, asked := serve(t, "application/json", empty, Options{Connection: Connection{MaxOutputTokens: 9, Temperature: &temperature, Extra: map[string]any{"top_k": 3}}})
	r := conversation.Request{Session: "s1", Tools: []conversation.ToolSpec{{
		Name: "f", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"required":["a"],"additionalProperties":false,"$defs":{"A":{"type":"string"}}}`),
	}}}
	if _, _, err := modelstest.Collect(t.Context(), m, r); err != nil {
		t.Fatal(err)
	}
	body := *asked
	if body["max_tokens"] != 9.0 || body["temperature"] != 0.5 || body["top_k"] != 3.0 || body["stream"] != false {
		t.Errorf("the body is %v", body)
	}
	want := map[string]any{}
	if err := json.Unmarshal(r.Tools[0].Schema, &want); err != nil {
		t.Fatal(err)
	}
	tool := body["tools"].([]any)[0].(map[string]any)
	if !reflect.DeepEqual(tool["input_schema"], want) || tool["description"] != nil || body["tool_choice"] != nil {
		t.Errorf("the tool is %v, want the schema %v", tool, want)
	}
	m, asked = serve(t, "application/json", empty, Options{})
	if _, _, err := modelstest.Collect(t.Context(), m, conversation.Request{}); err != nil || (*asked)["max_tokens"] != float64(DefaultMaxOutputTokens) {
		t.Errorf("%v, %v", err, *asked)
	}
}

func TestStreams(t *testing.T) {
	const begin, end = `{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":1}}}`, `{"type":"message_stop"}`
	call := func(i conversation.Item) bool { return i.Kind == conversation.ItemCall }
	for name, c := range map[string]struct {
		stream string
		items  []conversation.Item
	}{
		"thinking is not shown": {modelstest.SSE(begin,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"a"}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"b"}}`, end),
			[]conversation.Item{{Kind: conversation.ItemText, ID: "msg_1.0", Text: "ab", Streamed: true}}},
		"characters cut in two": {modelstest.SSE(begin,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\ud83d"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ude00\ud83d"}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":\"\ud83d"}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\ude00\"}"}}`, end),
			[]conversation.Item{{Kind: conversation.ItemText, ID: "msg_1.0", Text: "a😀\uFFFD", Streamed: true}, {Kind: conversation.ItemCall, ID: "toolu_1", Tool: "f", Args: `{"a":"😀"}`}}},
		"a call without arguments": {modelstest.SSE(begin,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}}`, end),
			[]conversation.Item{{Kind: conversation.ItemCall, ID: "toolu_1", Tool: "f", Args: "{}"}}},
		"a call in one piece": {modelstest.SSE(begin,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1}}}`, end),
			[]conversation.Item{{Kind: conversation.ItemCall, ID: "toolu_1", Tool: "f", Args: `{"a":1}`}}},
		"a call without an id": {modelstest.SSE(begin,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"f"}}`, end),
			[]conversation.Item{{Kind: conversation.ItemCall, Tool: "f", Args: `{}`}}},
		"nothing to say":                    {modelstest.SSE(begin, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, end), nil},
		"events and deltas of a later day":  {modelstest.SSE(begin, `{"type":"brand_new"}`, `{"type":"content_block_delta","index":7,"delta":{"type":"new_delta"}}`, end), nil},
		"types in the event names only":     {"event: message_stop\ndata: {}\n\n", nil},
		"a field of a wrong type is no end": {modelstest.SSE(`{"type":"message_start","message":{"id":7,"usage":"x"}}`, end), nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := serve(t, "text/event-stream", c.stream, Options{Connection: streaming})
			_, done, err := modelstest.Collect(t.Context(), m, conversation.Request{Stream: true})
			if err != nil {
				t.Fatal(err)
			}
			if i := slices.IndexFunc(done.Items, call); i >= 0 && c.items[i].ID == "" {
				c.items[i].ID = done.Items[i].ID
				if done.Items[i].ID == "" {
					t.Error("no id can pair the result")
				}
			}
			if !slices.Equal(done.Items, c.items) {
				t.Errorf("got %+v, want %+v", done.Items, c.items)
			}
		})
	}
	for name, c := range map[string]struct {
		stream    string
		code      conversation.Code
		permanent bool
	}{
		"overloaded":            {modelstest.SSE(begin, `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`), conversation.Unavailable, false},
		"an error of no words":  {modelstest.SSE(begin, `{"type":"error"}`), conversation.Unavailable, false},
		"too long":              {modelstest.SSE(begin, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 2 > 1"}}`), conversation.TooLarge, true},
		"filtered":              {modelstest.SSE(begin, `{"type":"error","error":{"type":"api_error","message":"Output blocked by content filtering policy"}}`), conversation.Forbidden, true},
		"refused":               {modelstest.SSE(begin, `{"type":"message_delta","delta":{"stop_reason":"refusal"}}`, end), conversation.Forbidden, true},
		"nothing":               {"", conversation.Unavailable, false},
		"a stop reason, no end": {modelstest.SSE(begin, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`), conversation.Unavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := serve(t, "text/event-stream", c.stream, Options{Connection: streaming})
			_, done, err := modelstest.Collect(t.Context(), m, conversation.Request{Stream: true})
			var failure *conversation.ModelError
			if done != nil || !errors.As(err, &failure) || failure.Failure.Code != c.code || failure.Permanent != c.permanent {
				t.Fatalf("got %+v, %+v", done, err)
			}
		})
	}
	t.Run("a body that is no message", func(t *testing.T) {
		m, _ := serve(t, "application/json", `{"output_text":"x"}`, Options{})
		var failure *conversation.ModelError
		if _, done, err := modelstest.Collect(t.Context(), m, conversation.Request{}); done != nil || !errors.As(err, &failure) || failure.Permanent {
			t.Fatalf("got %+v, %v", done, err)
		}
	})
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Connection{
		"no model":         {},
		"a temperature":    {Model: "m", Temperature: new(1.1)},
		"a key in the URL": {Model: "m", BaseURL: "https://host/?key=hidden"},
	} {
		if _, err := New(Options{Connection: o}); err == nil || !strings.HasPrefix(err.Error(), "anthropic: ") {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: the error tells a secret: %v", name, err)
		}
	}
	m, err := New(Options{Connection: Connection{Model: "a model", Temperature: new(1.0)}})
	if err != nil || m.Label() != "anthropic:a_model" || m.o.BaseURL != DefaultBaseURL {
		t.Errorf("%v %+v", err, m)
	}
}

// Thinking goes back before what followed it, in the next step of the task, and
// to no other model or task. Where an answer was begun without it, the request does without.
func TestThinkingGoesBack(t *testing.T) {
	const whole = `{"type":"message","id":"msg_1","content":[
		{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"redacted_thinking","data":"c2VhbGVk"},{"type":"thinking","thinking":"unsigned"},
		{"type":"text","text":"I look."},{"type":"thinking","thinking":"","signature":"bW9yZQ"},{"type":"tool_use","id":"toolu_1","name":"f","input":{}}]}`
	stream := modelstest.SSE(`{"type":"message_start","message":{"id":"msg_1"}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"h"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"m"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"c2VhbGVk"}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"I look."}}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"thinking","thinking":""}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"signature_delta","signature":"bW9yZQ"}}`,
		`{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}}`, `{"type":"message_stop"}`)
	thinks := Options{Connection: Connection{Model: "c", Stream: true, Extra: map[string]any{"thinking": map[string]any{"type": "enabled", "budget_tokens": 1024}}}}
	shown := func(m *Model, asked *map[string]any, r conversation.Request) (blocks, thinking string) {
		if _, _, err := modelstest.Collect(t.Context(), m, r); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range (*asked)["messages"].([]any) {
			for _, b := range v.(map[string]any)["content"].([]any) {
				block := b.(map[string]any)
				line := block["type"].(string)
				for _, key := range []string{"thinking", "signature", "data"} {
					if text, is := block[key].(string); is {
						line += " " + text
					}
				}
				got = append(got, line)
			}
		}
		return strings.Join(got, ", "), (*asked)["thinking"].(map[string]any)["type"].(string)
	}
	for media, body := range map[string]string{"application/json": whole, "text/event-stream": stream} {
		m, asked := serve(t, media, body, thinks)
		r := conversation.Request{Session: "s1", Task: "t1-s1", Stream: true, Entries: []conversation.Entry{{Role: conversation.RoleUser, Task: "t1-s1", Text: "go"}}}
		_, done, err := modelstest.Collect(t.Context(), m, r)
		if err != nil || len(done.Items) != 2 || (*asked)["thinking"].(map[string]any)["type"] != "enabled" {
			t.Fatalf("%v %+v", err, done)
		}
		r.Entries = append(r.Entries,
			conversation.Entry{Role: conversation.RoleAssistant, Task: "t1-s1", Items: done.Items},
			conversation.Entry{Role: conversation.RoleTool, Task: "t1-s1", CallID: "toolu_1", Text: "found"})
		const own = "text, thinking hm c2ln, redacted_thinking c2VhbGVk, text, thinking  bW9yZQ, tool_use, tool_result"
		if got, thinking := shown(m, asked, r); got != own || thinking != "enabled" {
			t.Errorf("%s: the next step shows %s, thinking %s", media, got, thinking)
		}
		other := thinks
		other.Model = "c2"
		m2, asked2 := serve(t, media, body, other)
		if got, thinking := shown(m2, asked2, r); got != "text, text, tool_use, tool_result" || thinking != "disabled" {
			t.Errorf("%s: another model is shown %s, thinking %s", media, got, thinking)
		}
		// A step without thinking may follow one with it; a new request begins anew.
		r.Entries = append(r.Entries,
			conversation.Entry{Role: conversation.RoleAssistant, Task: "t1-s1", Items: []conversation.Item{{Kind: conversation.ItemCall, ID: "toolu_2", Tool: "f", Args: "{}"}}},
			conversation.Entry{Role: conversation.RoleTool, Task: "t1-s1", CallID: "toolu_2", Text: "more"})
		if got, thinking := shown(m, asked, r); got != own+", tool_use, tool_result" || thinking != "enabled" {
			t.Errorf("%s: the third step shows %s, thinking %s", media, got, thinking)
		}
		r.Task, r.Entries = "t2-s1", append(r.Entries,
			conversation.Entry{Role: conversation.RoleAssistant, Task: "t1-s1", Items: []conversation.Item{{Kind: conversation.ItemText, Text: "done"}}},
			conversation.Entry{Role: conversation.RoleUser, Task: "t2-s1", Text: "next"})
		if got, thinking := shown(m, asked, r); strings.Contains(got, "thinking") || thinking != "enabled" {
			t.Errorf("%s: another task shows %s, thinking %s", media, got, thinking)
		}
	}
}

// A frame of any bytes ends in an answer or an error, never in a crash.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","name":"f","input":{"a":1}}}`), []byte(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{"}}`))
	f.Add([]byte(`{"type":"content_block_start","index":-1,"content_block":{"type":"text","text":"a"}}`), []byte(`{"type":"content_block_delta","index":-1,"delta":{"type":"text_delta","text":"b"}}`))
	f.Add([]byte(`{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}`), []byte(`{"type":"message_stop"}`))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		shown := map[int]string{}
		a := newAssembly(&httpmodel.Names{}, &conversation.Request{}, func(out conversation.Output) error {
			shown[out.Item] += out.Delta
			return nil
		})
		for _, data := range [][]byte{one, two, two} {
			if over, err := a.frame("", data); err != nil || over {
				break
			}
		}
		answer, err := a.answer()
		if err != nil {
			return
		}
		for i, item := range answer.Items {
			if item.Streamed != (shown[i] != "") || item.Streamed && item.Text != shown[i] {
				t.Fatalf("item %d: streamed is %v, the text is %q, and %q was shown", i, item.Streamed, item.Text, shown[i])
			}
		}
		_ = newAssembly(&httpmodel.Names{}, &conversation.Request{}, nil).readBody(one)
	})
}

// An answer that ended before its end says why.
func TestStopReasons(t *testing.T) {
	for reason, want := range map[string]conversation.StopReason{
		"max_tokens": conversation.StopLength, "model_context_window_exceeded": conversation.StopLength, "refusal": conversation.StopFiltered,
		"end_turn": 0, "tool_use": 0, "pause_turn": 0,
	} {
		m, _ := serve(t, "text/event-stream", modelstest.SSE(`{"type":"message_start","message":{"id":"msg_1"}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"`+reason+`"}}`, `{"type":"message_stop"}`), Options{Connection: streaming})
		_, done, err := modelstest.Collect(t.Context(), m, conversation.Request{Stream: true})
		if err != nil || done.Stop != want {
			t.Errorf("%s: stopped by %q (%v), want %q", reason, done.Stop, err, want)
		}
	}
}
