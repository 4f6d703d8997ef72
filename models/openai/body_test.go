package openai

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/conversation"
	"parley/models/internal/httpmodel"
)

// lines are items in words: "text: …" or "call TOOL ARGS".
func lines(items []conversation.Item) []string {
	var list []string
	for _, item := range items {
		if item.Kind == conversation.ItemText {
			list = append(list, "text: "+item.Text)
		} else {
			list = append(list, "call "+item.Tool+" "+item.Args)
		}
	}
	return list
}

func TestParseBody(t *testing.T) {
	for _, c := range []struct {
		name string
		body string
		want []string
	}{
		{"M-03 output[] in order", `{"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]},{"type":"message","content":[{"type":"output_text","text":"b"}]}]}`,
			[]string{"text: a", "text: b"}},
		{"M-03 output[] wins over the fallbacks", `{"output":[{"type":"message","content":"a"}],"output_text":"x","text":"y","content":"z"}`, []string{"text: a"}},
		{"M-03 fallback output_text", `{"output":[],"output_text":"a","text":"y","content":"z"}`, []string{"text: a"}},
		{"M-03 fallback text", `{"text":"a","content":"z"}`, []string{"text: a"}},
		{"M-03 fallback content", `{"content":"a"}`, []string{"text: a"}},
		{"M-03 a fallback of blocks is one part", `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, []string{"text: ab"}},
		{"M-03 a blank fallback is none", `{"output_text":" ","text":null,"content":"a"}`, []string{"text: a"}},
		{"M-03 the text settings of a response are no text", `{"output":[],"text":{"format":{"type":"text"}}}`, nil},
		{"M-03 output only of reasoning", `{"output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]}],"output_text":"a"}`, []string{"text: a"}},
		{"M-04 output_text only", `{"id":"r","output_text":"just this\n\nwith two paragraphs"}`, []string{"text: just this\n\nwith two paragraphs"}},
		{"M-05 several blocks in one message", `{"output":[{"type":"message","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"},{"type":"text","text":"c"}]}]}`,
			[]string{"text: a", "text: b", "text: c"}},
		{"M-05 blocks outside of a message", `{"output":[{"type":"output_text","text":"a"},{"type":"text","text":"b"},"c"]}`, []string{"text: a", "text: b", "text: c"}},
		{"M-05 strings as content", `{"output":[{"type":"message","content":["a","b"]}]}`, []string{"text: a", "text: b"}},
		{"M-06 mixed, order kept", `{"output":[{"type":"message","content":[{"type":"output_text","text":"a"}]},{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"x\":1}"},{"type":"message","content":[{"type":"output_text","text":"b"}]},{"type":"function_call","call_id":"c2","name":"g","arguments":""}]}`,
			[]string{"text: a", `call f {"x":1}`, "text: b", "call g {}"}},
		{"M-06 arguments as an object", `{"output":[{"type":"function_call","id":"c1","name":"f","arguments":{"x":1}},{"type":"message","content":"a"}]}`, []string{`call f {"x":1}`, "text: a"}},
		{"M-06 a call as a block", `{"output":[{"type":"message","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"c1","name":"f","input":{"x":1}}]}]}`, []string{"text: a", `call f {"x":1}`}},
		{"M-07 malformed JSON", `{"output": [oops`, []string{"text: {\"output\": [oops"}},
		{"M-07 plain text", "Just words.\n", []string{"text: Just words."}},
		{"M-07 not even UTF-8", "a\xffb", []string{"text: a\uFFFDb"}},
		{"M-07 nothing", " \n", nil},
		{"M-07 other JSON", `[]`, nil},
		{"M-07 a string", `"a"`, []string{"text: a"}},
		{"M-07 a number", `7`, nil},
		{"M-07 null", `null`, nil},
		{"M-07 wrong types everywhere", `{"id":7,"output":{"type":1,"content":{"a":[]}},"output_text":{},"text":[1,2],"content":true,"usage":"x","choices":"y","error":null}`, nil},
		{"M-07 one field of a wrong type hides no other", `{"id":7,"usage":[],"output_text":"a"}`, []string{"text: a"}},
		{"M-02 chat", `{"choices":[{"message":{"content":"a","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}`, []string{"text: a", "call f {}"}},
		{"M-02 chat in blocks", `{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}`, []string{"text: a", "text: b"}},
		{"a refusal", `{"output":[{"type":"message","content":[{"type":"refusal","refusal":"no"}]}]}`, []string{"text: no"}},
		{"an echo of the user", `{"output":[{"type":"message","role":"user","content":"q"},{"type":"message","role":"assistant","content":"a"}]}`, []string{"text: a"}},
		{"a search of the provider's own", `{"output":[{"type":"web_search_call","id":"ws","status":"completed"},{"type":"message","content":"a"}]}`, []string{"text: a"}},
		{"text in an object", `{"output":[{"type":"message","content":[{"type":"text","text":{"value":"a","annotations":[]}}]}]}`, []string{"text: a"}},
		{"an output without its envelope", `[{"type":"message","content":"a"},{"type":"message","content":"b"}]`, []string{"text: a", "text: b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := ParseBody([]byte(c.body))
			if got := lines(b.Items); !slices.Equal(got, c.want) {
				t.Errorf("%s gives %q, want %q", c.body, got, c.want)
			}
			if len(b.Texts())+len(b.Calls()) != len(b.Items) {
				t.Errorf("%d texts and %d calls are not %d items", len(b.Texts()), len(b.Calls()), len(b.Items))
			}
		})
	}
	t.Run("ids and usage", func(t *testing.T) {
		b := ParseBody([]byte(`{"id":"resp_1","output":[{"type":"message","id":"msg_1","content":"a"},{"type":"function_call","id":"fc_1","call_id":"c1","name":"f"}],"usage":{"input_tokens":3,"output_tokens":4}}`))
		want := []conversation.Item{{Kind: conversation.ItemText, ID: "msg_1", Text: "a"}, {Kind: conversation.ItemCall, ID: "c1", Tool: "f", Args: "{}"}}
		if b.ID != "resp_1" || !reflect.DeepEqual(b.Items, want) || *b.Usage != (conversation.Usage{InputTokens: 3, OutputTokens: 4}) {
			t.Errorf("%+v", b)
		}
	})
}

// What providers tell of their caches is read wherever they put it.
func TestCachedTokens(t *testing.T) {
	for usage, want := range map[string]conversation.Usage{
		`{"input_tokens":9,"output_tokens":2,"input_tokens_details":{"cached_tokens":4}}`:          {InputTokens: 9, OutputTokens: 2, CachedTokens: 4},
		`{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}`:    {InputTokens: 9, OutputTokens: 2, CachedTokens: 4},
		`{"prompt_tokens":9,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":5}`:             {InputTokens: 9, CachedTokens: 4}, // DeepSeek
		`{"prompt_tokens":9,"cached_tokens":4}`:                                                    {InputTokens: 9, CachedTokens: 4}, // Kimi
		`{"prompt_tokens":9,"cached_tokens":4,"prompt_tokens_details":{"cached_tokens":4}}`:        {InputTokens: 9, CachedTokens: 4},
		`{"prompt_tokens":9,"prompt_tokens_details":null}`:                                         {InputTokens: 9},
		`{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":"no"}}`: {InputTokens: 9, OutputTokens: 2},
		`{"prompt_tokens":9,"cached_tokens":-4}`:                                                   {InputTokens: 9},
		`{"prompt_tokens":9,"cached_tokens":40}`:                                                   {InputTokens: 9, CachedTokens: 9}, // never more than all
	} {
		if got := usageIn([]byte(usage)); got == nil || *got != want {
			t.Errorf("%s is %+v, want %+v", usage, got, want)
		}
	}
}

func TestCutJSON(t *testing.T) {
	whole := `{"output":[{"type":"message","content":"a \"b\" c"}],"n":1.5}`
	for i := 1; i < len(whole); i++ {
		if !truncatedJSON([]byte(whole[:i])) {
			t.Errorf("%s is not seen to be cut", whole[:i])
		}
	}
	for _, other := range []string{whole, "", "words {", "{not JSON", `{"a":1} and more`, "[oops]"} {
		if truncatedJSON([]byte(other)) {
			t.Errorf("%s is not cut", other)
		}
	}
}

// M-07: whatever the bytes, no crash, and what comes out can be stored.
func FuzzParseBody(f *testing.F) {
	f.Add([]byte(`{"output":[{"type":"message","content":[{"type":"output_text","text":"a"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}],"usage":{"input_tokens":1}}`))
	f.Add([]byte(`{"choices":[{"finish_reason":"stop","message":{"content":[{"text":{"value":"a"}}],"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}}]}`))
	f.Add([]byte(`{"output_text":"a","text":["b"],"content":[{"type":"text","text":"c"}],"error":{"code":1,"message":"m"}}`))
	f.Add([]byte("plain \xff words"))
	f.Add([]byte(`{"output":[`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		b := ParseBody(raw)
		if len(b.positions) != len(b.Items) {
			t.Fatalf("%d places for %d items", len(b.positions), len(b.Items))
		}
		for _, item := range b.Items {
			switch {
			case !utf8.ValidString(item.Text + item.Args + item.ID + item.Tool):
				t.Fatalf("%+v is not UTF-8", item)
			case item.Kind == conversation.ItemText && item.Text == "", item.Kind == conversation.ItemCall && (item.Tool == "" || item.Args == ""):
				t.Fatalf("%+v has nothing in it", item)
			case item.Kind != conversation.ItemText && item.Kind != conversation.ItemCall:
				t.Fatalf("%+v is of no kind", item)
			}
		}
		if !json.Valid(raw) && strings.TrimSpace(string(raw)) != "" && len(b.Items) != 1 {
			t.Fatalf("what is not JSON became %d items", len(b.Items))
		}
		_ = truncatedJSON(raw)
		if again := ParseBody(raw); !reflect.DeepEqual(again, b) {
			t.Fatal("it is not a pure function")
		}
	})
}

// A frame of any bytes ends in an answer or an error, never in a crash.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(`{"type":"response.output_text.delta","output_index":1,"content_index":2,"delta":"a"}`), true)
	f.Add([]byte(`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","name":"f"}}`), true)
	f.Add([]byte(`{"type":"response.completed","response":{"output":[]}}`), true)
	f.Add([]byte(`{"choices":[{"delta":{"tool_calls":[{"id":"x","function":{"name":"f","arguments":"{"}}]},"finish_reason":"stop"}]}`), false)
	f.Fuzz(func(t *testing.T, data []byte, responses bool) {
		shown := map[int]string{}
		a := newAssembly(&httpmodel.Names{}, &conversation.Request{}, func(out conversation.Output) error {
			shown[out.Item] += out.Delta
			return nil
		})
		take := a.chatFrame
		if responses {
			take = a.responsesFrame
		}
		for range 3 {
			if over, err := take("", data); err != nil || over {
				break
			}
		}
		answer, err := a.answer()
		if err != nil {
			return
		}
		for i, item := range answer.Items {
			if item.Streamed != (shown[i] != "") {
				t.Fatalf("item %d: streamed is %v, and %q was shown", i, item.Streamed, shown[i])
			}
		}
	})
}
