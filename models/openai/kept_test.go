package openai

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"parley/conversation"
	"parley/models/internal/httpmodel"
	"parley/models/modelstest"
)

// secondStep asks once, gives each call a result, asks again, and returns the
// assistant's message of the second request. In another task there is a result, an
// answer and a new message of the user between the two.
func secondStep(t *testing.T, media, body string, o Options, otherTask bool) (message map[string]any, done *conversation.ModelAnswer) {
	t.Helper()
	m, asked := serve(t, media, body, o)
	r := conversation.Request{Session: "s1", Task: "t1-s1", Stream: o.Stream, Entries: []conversation.Entry{{Role: conversation.RoleUser, Task: "t1-s1", Text: "go"}}}
	_, done, err := modelstest.Collect(t.Context(), m, r)
	if err != nil {
		t.Fatal(err)
	}
	r.Entries = append(r.Entries, conversation.Entry{Role: conversation.RoleAssistant, Task: "t1-s1", Items: done.Items})
	for _, call := range (Body{Items: done.Items}).Calls() {
		r.Entries = append(r.Entries, conversation.Entry{Role: conversation.RoleTool, Task: "t1-s1", CallID: call.ID, Text: "found"})
	}
	if otherTask {
		r.Task = "t2-s1"
		r.Entries = append(r.Entries,
			conversation.Entry{Role: conversation.RoleAssistant, Task: "t1-s1", Items: []conversation.Item{{Kind: conversation.ItemText, Text: "so"}}},
			conversation.Entry{Role: conversation.RoleUser, Task: "t2-s1", Text: "next"})
	}
	if _, _, err := modelstest.Collect(t.Context(), m, r); err != nil {
		t.Fatal(err)
	}
	for _, v := range (*asked)["messages"].([]any) {
		if message = v.(map[string]any); message["role"] == "assistant" {
			return message, done
		}
	}
	t.Fatalf("no answer in %v", (*asked)["messages"])
	return nil, nil
}

func sameMessage(t *testing.T, got map[string]any, want string) {
	t.Helper()
	var wanted map[string]any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(got)
	wantRaw, _ := json.Marshal(wanted)
	if string(raw) != string(wantRaw) {
		t.Errorf("given back is\n%s\nnot\n%s", raw, wantRaw)
	}
}

const callX = `{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}`

// What servers put beside the words and the calls of an answer is given back beside
// the same: some refuse the next step without it.
func TestMembersOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		answer any    // frames of a stream, or a whole body
		want   string // the assistant's message of the next request
	}{
		"reasoning_content, whole": {
			`{"choices":[{"message":{"role":"assistant","content":"I look.","reasoning_content":"hm","refusal":null,"annotations":[],"audio":null,"function_call":null,"tool_calls":[` + callX + `]},"finish_reason":"tool_calls"}]}`,
			`{"role":"assistant","content":"I look.","reasoning_content":"hm","tool_calls":[` + callX + `]}`,
		},
		"reasoning_content, in pieces": {
			[]string{
				`{"choices":[{"delta":{"role":"assistant","content":null,"reasoning_content":"Let "}}]}`,
				`{"choices":[{"delta":{"reasoning_content":"me \ud83d"}}]}`,
				`{"choices":[{"delta":{"reasoning_content":"\ude00see","content":""}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}`,
				`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`,
			},
			`{"role":"assistant","reasoning_content":"Let me 😀see","tool_calls":[` + callX + `]}`,
		},
		"blank words before the calls": {
			[]string{
				`{"choices":[{"delta":{"reasoning":"hm"}}]}`,
				`{"choices":[{"delta":{"content":"\n\n"}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`,
			},
			`{"role":"assistant","reasoning":"hm","tool_calls":[` + callX + `]}`,
		},
		"reasoning_details, in pieces": {
			[]string{
				`{"choices":[{"delta":{"content":"","reasoning":"Let ","reasoning_details":[{"type":"reasoning.text","text":"Let ","format":"anthropic-claude-v1","index":0}]}}]}`,
				`{"choices":[{"delta":{"content":"","reasoning":"me","reasoning_details":[{"type":"reasoning.text","text":"me","format":"anthropic-claude-v1","index":0}]}}]}`,
				`{"choices":[{"delta":{"content":"","reasoning_details":[{"type":"reasoning.text","signature":"c2ln","format":"anthropic-claude-v1","index":0}]}}]}`,
				`{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.encrypted","data":"b25l","id":"x","index":1},{"type":"reasoning.encrypted","data":"dHdv","id":"y","index":1}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`,
			},
			`{"role":"assistant","reasoning":"Let me","reasoning_details":[
				{"type":"reasoning.text","text":"Let me","format":"anthropic-claude-v1","signature":"c2ln","index":0},
				{"type":"reasoning.encrypted","data":"b25l","id":"x","index":1},{"type":"reasoning.encrypted","data":"dHdv","id":"y","index":1}],"tool_calls":[` + callX + `]}`,
		},
		"signatures of calls": {
			[]string{
				`{"choices":[{"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"f","arguments":"{\"a\":1}","thought_signature":"b25l"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"y","type":"function","function":{"name":"f","arguments":"{\"a\":2}"}}]},"finish_reason":"tool_calls"}]}`,
			},
			`{"role":"assistant","tool_calls":[
				{"id":"x","type":"function","function":{"name":"f","arguments":"{\"a\":1}","thought_signature":"b25l"},"extra_content":{"google":{"thought_signature":"c2ln"}}},
				{"id":"y","type":"function","function":{"name":"f","arguments":"{\"a\":2}"}}]}`,
		},
		"signatures of calls, whole": {
			`{"choices":[{"message":{"tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]},"finish_reason":"tool_calls"}]}`,
			`{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]}`,
		},
		"too much": {
			[]string{
				`{"choices":[{"delta":{"reasoning":"` + strings.Repeat("x", 1<<20) + `"}}]}`, `{"choices":[{"delta":{"reasoning":"y","other":"kept"}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`,
			},
			`{"role":"assistant","other":"kept","tool_calls":[` + callX + `]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, media := Options{API: Chat}, "application/json"
			body, whole := c.answer.(string)
			if frames, streamed := c.answer.([]string); !whole && streamed {
				o.Stream, media, body = true, "text/event-stream", modelstest.SSE(frames...)
			}
			for _, other := range []bool{false, true} {
				got, done := secondStep(t, media, body, o, other)
				sameMessage(t, got, c.want)
				for _, item := range done.Items {
					if strings.Contains(item.Text, "hm") || strings.Contains(item.Text, "Let") {
						t.Errorf("shown is %q", item.Text)
					}
				}
			}
		})
	}
}

// Servers that want reasoning in one message of the assistant want it in all, also in
// those of other models.
func TestReasoningInAll(t *testing.T) {
	kept := func(task conversation.TaskID, opaque string) conversation.Entry {
		item := conversation.Item{Kind: conversation.ItemText, Text: "so"}
		if opaque != "" {
			item.Opaque, item.OpaqueBy, item.OpaqueStays = opaque, "openai:m@host", true
		}
		return conversation.Entry{Role: conversation.RoleAssistant, Task: task, Items: []conversation.Item{item}}
	}
	user := conversation.Entry{Role: conversation.RoleUser, Task: "t2-s1", Text: "go"}
	thinking := Connection{Extra: map[string]any{"thinking": map[string]any{"type": "enabled"}}}
	for name, c := range map[string]struct {
		connection Connection
		without    []string
		entries    []conversation.Entry
		want       []string // the reasoning of each message of the assistant
	}{
		"nowhere":             {Connection{}, nil, []conversation.Entry{user, kept("t1-s1", "")}, []string{""}},
		"in one":              {Connection{}, nil, []conversation.Entry{user, kept("t1-s1", ""), user, kept("t1-s1", `{"message":{"reasoning_content":"hm"}}`)}, []string{" ", "hm"}},
		"another member":      {Connection{}, nil, []conversation.Entry{user, kept("t1-s1", ""), user, kept("t1-s1", `{"message":{"reasoning":"hm"}}`)}, []string{"", ""}},
		"thinking is on":      {thinking, nil, []conversation.Entry{user, kept("t1-s1", "")}, []string{" "}},
		"it is not sent":      {thinking, []string{"messages.reasoning_content"}, []conversation.Entry{user, kept("t1-s1", `{"message":{"reasoning_content":"hm"}}`)}, []string{""}},
		"unreadable, as old ": {Connection{}, nil, []conversation.Entry{user, kept("t1-s1", `["sealed"]`)}, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{API: Chat, Connection: c.connection}
			o.Model, o.BaseURL, o.Without = "m", "http://host/v1", c.without
			m, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			r := conversation.Request{Task: "t2-s1", Entries: c.entries}
			var got []string
			for _, message := range m.chatMessages(&r, httpmodel.NewNames(&r)) {
				if message.Role == roleAssistant {
					got = append(got, stringIn(message.kept[reasoningMember]))
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the reasoning is %q, not %q", got, c.want)
			}
		})
	}
}

// Calls are told apart and put together, however a server cuts and numbers them.
func TestParallelCalls(t *testing.T) {
	chunk := func(calls string) string { return `{"choices":[{"delta":{"tool_calls":[` + calls + `]}}]}` }
	for name, c := range map[string]struct {
		frames []string
		want   []string
	}{
		"all with index 0 and an id of their own": {[]string{
			chunk(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a\":1}"}}`), chunk(`{"index":0,"id":"b","function":{"name":"f","arguments":"{\"a\":2}"}},{"index":0,"id":"c","function":{"name":"g","arguments":"{}"}}`),
		}, []string{`call f {"a":1}`, `call f {"a":2}`, `call g {}`}},
		"all with index 0 and no id": {[]string{
			chunk(`{"index":0,"id":"","function":{"name":"f","arguments":"{\"a\":1}"}}`), chunk(`{"index":0,"id":"","function":{"name":"f","arguments":"{\"a\":2}"}}`),
		}, []string{`call f {"a":1}`, `call f {"a":2}`}},
		"neither index nor id": {[]string{
			chunk(`{"function":{"name":"f","arguments":"{\"a\":1}"}}`), chunk(`{"function":{"name":"g","arguments":"{\"a\":2}"}}`),
		}, []string{`call f {"a":1}`, `call g {"a":2}`}},
		"no index, and the id in each piece": {[]string{
			chunk(`{"id":"a","function":{"name":"f","arguments":"{\"a\""}},{"id":"b","function":{"name":"g","arguments":"{\"b\""}}`), chunk(`{"id":"a","function":{"arguments":":1}"}},{"id":"b","function":{"arguments":":2}"}}`),
		}, []string{`call f {"a":1}`, `call g {"b":2}`}},
		"a new id in each piece of one call": {[]string{
			chunk(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`), chunk(`{"index":0,"id":"b","function":{"name":null,"arguments":"{\"a\""}}`), chunk(`{"index":0,"id":"c","function":{"arguments":":1}"}}`),
		}, []string{`call f {"a":1}`}},
		"the name in each piece": {[]string{
			chunk(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a\""}}`), chunk(`{"index":0,"id":"a","function":{"name":"f","arguments":":1}"}}`), chunk(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`),
		}, []string{`call f {"a":1}`}},
		"the name in pieces": {[]string{
			chunk(`{"index":0,"id":"a","function":{"name":"look"}}`), chunk(`{"index":0,"function":{"name":"up","arguments":"{}"}}`),
		}, []string{`call lookup {}`}},
		"the id behind the name": {[]string{
			chunk(`{"index":0,"function":{"name":"f"}}`), chunk(`{"index":0,"id":"a","function":{"arguments":"{}"}}`),
		}, []string{`call f {}`}},
		"one id for all": {[]string{
			chunk(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"a","function":{"name":"g","arguments":"{}"}}`),
		}, []string{`call f {}`, `call g {}`}},
		"pieces of two calls in turns": {[]string{
			chunk(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}},{"index":1,"id":"b","function":{"name":"g","arguments":"{\"b\""}}`), chunk(`{"index":0,"function":{"arguments":"}"}},{"index":1,"function":{"arguments":":2}"}}`),
		}, []string{`call f {}`, `call g {"b":2}`}},
		"a pair cut in two": {[]string{
			chunk(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a\":\"\ud83d"}}`), chunk(`{"index":0,"function":{"arguments":"\ude00\"}"}}`),
		}, []string{`call f {"a":"😀"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := serve(t, "text/event-stream", modelstest.SSE(append(c.frames, `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`)...), Options{API: Chat, Connection: streaming})
			_, done, err := modelstest.Collect(t.Context(), m, conversation.Request{Stream: true, Tools: []conversation.ToolSpec{{Name: "f"}, {Name: "g"}, {Name: "lookup"}}})
			if err != nil {
				t.Fatal(err)
			}
			if got := lines(done.Items); !slices.Equal(got, c.want) {
				t.Errorf("the calls are %q, not %q", got, c.want)
			}
			ids := map[string]bool{}
			for _, item := range done.Items {
				if item.ID == "" || ids[item.ID] {
					t.Errorf("the id %q cannot pair a result", item.ID)
				}
				ids[item.ID] = true
			}
		})
	}
}

// What is kept of a message of the Responses API goes back with it, without its id.
func TestPhaseGoesBack(t *testing.T) {
	body := `{"output":[{"type":"message","id":"msg_1","status":"completed","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"I look.","annotations":[]}]},{"type":"function_call","id":"fc_1","call_id":"c","name":"f","arguments":"{}"}]}`
	m, asked := serve(t, "application/json", body, Options{})
	r := conversation.Request{Task: "t1-s1", Entries: []conversation.Entry{{Role: conversation.RoleUser, Task: "t1-s1", Text: "go"}}}
	_, done, err := modelstest.Collect(t.Context(), m, r)
	if err != nil {
		t.Fatal(err)
	}
	r.Entries = append(r.Entries, conversation.Entry{Role: conversation.RoleAssistant, Task: "t1-s1", Items: done.Items},
		conversation.Entry{Role: conversation.RoleTool, Task: "t1-s1", CallID: "c", Text: "found"})
	if _, _, err = modelstest.Collect(t.Context(), m, r); err != nil {
		t.Fatal(err)
	}
	sameMessage(t, (*asked)["input"].([]any)[1].(map[string]any), `{"role":"assistant","content":"I look.","phase":"commentary"}`)
}

// What is kept of an answer is bounded: a member that would make it more is left out
// whole, and others have what is left.
func TestKeptIsBounded(t *testing.T) {
	for n, want := range map[int]bool{maxKept - 2: true, maxKept - 1: false} { // the quotes count
		var m members
		left := maxKept
		m.add(map[string]json.RawMessage{"reasoning": json.RawMessage(`"` + strings.Repeat("x", n) + `"`)}, &left)
		if kept := m.raw()["reasoning"]; (len(kept) == n+2) != want || !want && kept != nil {
			t.Errorf("of %d bytes %d are kept", n, len(kept))
		}
	}
	var m members
	left := maxKept
	for range 3 {
		m.add(map[string]json.RawMessage{"reasoning": json.RawMessage(`"` + strings.Repeat("x", maxKept/2-2) + `"`)}, &left)
	}
	if kept := m.raw(); kept["reasoning"] != nil {
		t.Errorf("%d bytes are kept of what became too much", len(kept["reasoning"]))
	}
}

// A piece goes on with one of the last elements of a list only.
func TestElementsThatGrow(t *testing.T) {
	for others, want := range map[int]int{maxGrowing - 1: maxGrowing, maxGrowing: maxGrowing + 2} {
		list := mergeElement(nil, map[string]any{"index": json.Number("0"), "text": "a"})
		for i := range others {
			list = mergeElement(list, map[string]any{"index": json.Number(strconv.Itoa(i + 1)), "text": "b"})
		}
		if list = mergeElement(list, map[string]any{"index": json.Number("0"), "text": "c"}); len(list) != want {
			t.Errorf("with %d others there are %d elements, not %d", others, len(list), want)
		}
	}
}

// A member that is first a text and then something else is what it was at last.
func TestMemberOfTwoKinds(t *testing.T) {
	var m members
	left := maxKept
	for _, piece := range []string{`"thinking"`, `{"signature":"s"}`} {
		m.add(map[string]json.RawMessage{"thought": json.RawMessage(piece)}, &left)
	}
	if got := string(m.raw()["thought"]); got != `{"signature":"s"}` {
		t.Errorf("it is %s", got)
	}
}
