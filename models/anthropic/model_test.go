package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/conversation"
	"parley/models/modelstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t testing.TB, a modelstest.Access) conversation.Model {
	t.Helper()
	m, err := New(Options{
		BaseURL: a.BaseURL, APIKey: a.Key, Model: a.Model, Headers: a.Headers, Stream: a.Stream,
		IdleTimeout: a.IdleTimeout, MaxBytes: a.MaxBytes,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSuite(t *testing.T) {
	t.Log("\n" + modelstest.Table(modelstest.RunUpstream(t, modelstest.Messages(), dial)))
}

func BenchmarkCall(b *testing.B) { modelstest.Bench(b, modelstest.Messages(), dial) }

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
	o.BaseURL = server.URL
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
	if _, _, err := collect(t.Context(), m, conversation.Request{Session: "s1", Entries: entries}); err != nil {
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
		"user: text=" + opening, "assistant: text=before", "user: text=a text=b",
		"assistant: text=x tool_use text=y", "user: tool_result text=c", "assistant: text=z text=z2", "user: text=" + carryOn,
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
	m, asked := serve(t, "application/json", empty, Options{MaxOutputTokens: 9, Temperature: &temperature, Extra: map[string]any{"top_k": 3}})
	r := conversation.Request{Session: "s1", Tools: []conversation.ToolSpec{{
		Name: "f", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"required":["a"],"additionalProperties":false,"$defs":{"A":{"type":"string"}}}`),
	}}}
	if _, _, err := collect(t.Context(), m, r); err != nil {
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
	if _, _, err := collect(t.Context(), m, conversation.Request{}); err != nil || (*asked)["max_tokens"] != float64(DefaultMaxOutputTokens) {
		t.Errorf("%v, %v", err, *asked)
	}
}

// sse makes a stream of frames.
func sse(frames ...string) string { return "data: " + strings.Join(frames, "\n\ndata: ") + "\n\n" }

func TestStreams(t *testing.T) {
	const begin, end = `{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":1}}}`, `{"type":"message_stop"}`
	call := func(i conversation.Item) bool { return i.Kind == conversation.ItemCall }
	for name, c := range map[string]struct {
		stream string
		items  []conversation.Item
	}{
		"thinking is not shown": {sse(begin,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"a"}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"b"}}`, end),
			[]conversation.Item{{Kind: conversation.ItemText, ID: "msg_1.0", Text: "ab", Streamed: true}}},
		"a call without arguments": {sse(begin,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}}`, end),
			[]conversation.Item{{Kind: conversation.ItemCall, ID: "toolu_1", Tool: "f", Args: "{}"}}},
		"a call in one piece": {sse(begin,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1}}}`, end),
			[]conversation.Item{{Kind: conversation.ItemCall, ID: "toolu_1", Tool: "f", Args: `{"a":1}`}}},
		"a call without an id": {sse(begin,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"f"}}`, end),
			[]conversation.Item{{Kind: conversation.ItemCall, Tool: "f", Args: `{}`}}},
		"nothing to say":                    {sse(begin, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, end), nil},
		"events and deltas of a later day":  {sse(begin, `{"type":"brand_new"}`, `{"type":"content_block_delta","index":7,"delta":{"type":"new_delta"}}`, end), nil},
		"types in the event names only":     {"event: message_stop\ndata: {}\n\n", nil},
		"a field of a wrong type is no end": {sse(`{"type":"message_start","message":{"id":7,"usage":"x"}}`, end), nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := serve(t, "text/event-stream", c.stream, Options{Stream: true})
			_, done, err := collect(t.Context(), m, conversation.Request{Stream: true})
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
		"overloaded":            {sse(begin, `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`), conversation.Unavailable, false},
		"an error of no words":  {sse(begin, `{"type":"error"}`), conversation.Unavailable, false},
		"too long":              {sse(begin, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 2 > 1"}}`), conversation.TooLarge, true},
		"refused":               {sse(begin, `{"type":"message_delta","delta":{"stop_reason":"refusal"}}`, end), conversation.BadRequest, true},
		"nothing":               {"", conversation.Unavailable, false},
		"a stop reason, no end": {sse(begin, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`), conversation.Unavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := serve(t, "text/event-stream", c.stream, Options{Stream: true})
			_, done, err := collect(t.Context(), m, conversation.Request{Stream: true})
			var failure *conversation.ModelError
			if done != nil || !errors.As(err, &failure) || failure.Failure.Code != c.code || failure.Permanent != c.permanent {
				t.Fatalf("got %+v, %+v", done, err)
			}
		})
	}
	t.Run("a body that is no message", func(t *testing.T) {
		m, _ := serve(t, "application/json", `{"output_text":"x"}`, Options{})
		var failure *conversation.ModelError
		if _, done, err := collect(t.Context(), m, conversation.Request{}); done != nil || !errors.As(err, &failure) || failure.Permanent {
			t.Fatalf("got %+v, %v", done, err)
		}
	})
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no model":            {Model: " "},
		"no address":          {Model: "m", BaseURL: "localhost:11434"},
		"a key in the URL":    {Model: "m", BaseURL: "https://host/?key=hidden"},
		"a user in the URL":   {Model: "m", BaseURL: "https://u:hidden@host"},
		"a key's line break":  {Model: "m", APIKey: "hidden\n"},
		"a header's name":     {Model: "m", Headers: map[string]string{"X Y": "hidden"}},
		"a header's value":    {Model: "m", Headers: map[string]string{"X": "hidden\n"}},
		"a negative limit":    {Model: "m", MaxOutputTokens: -1},
		"a temperature":       {Model: "m", Temperature: func() *float64 { f := 1.1; return &f }()},
		"a negative timeout":  {Model: "m", IdleTimeout: -time.Second},
		"a negative size":     {Model: "m", MaxBytes: -1},
		"a proxy of nowhere":  {Model: "m", Proxy: "hidden"},
		"an address, not one": {Model: "m", BaseURL: "http://u:hidden@%zz"},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s is accepted", name)
		} else if strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: the error tells a secret: %v", name, err)
		}
	}
	m, err := New(Options{Model: "a model"})
	if err != nil || m.Label() != "anthropic:a_model" || m.o.BaseURL != DefaultBaseURL {
		t.Errorf("%v %+v", err, m)
	}
	if m, err = New(Options{Model: "m", Label: "local", Proxy: "http://proxy:3128"}); err != nil || m.Label() != "local" {
		t.Error(err, m)
	}
}

// A frame of any bytes ends in an answer or an error, never in a crash.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","name":"f","input":{"a":1}}}`), []byte(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{"}}`))
	f.Add([]byte(`{"type":"content_block_start","index":-1,"content_block":{"type":"text","text":"a"}}`), []byte(`{"type":"content_block_delta","index":-1,"delta":{"type":"text_delta","text":"b"}}`))
	f.Add([]byte(`{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}`), []byte(`{"type":"message_stop"}`))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		shown := map[int]string{}
		a := newAssembly(&names{}, &conversation.Request{}, func(out conversation.Output) error {
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
		_ = newAssembly(&names{}, &conversation.Request{}, nil).whole(one)
	})
}
