package command

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"parley/conversation"
)

// texts and questions of items, one a line.
func show(list []conversation.Item) []string {
	var lines []string
	for _, item := range list {
		if item.Kind == conversation.ItemText {
			lines = append(lines, "text "+item.Text)
		} else {
			lines = append(lines, strings.Join([]string{"call", item.ID, item.Tool, item.Args}, " "))
		}
	}
	return lines
}

func question(n int, text string) string {
	return fmt.Sprintf(`call ask7.%d askUser {"blocking":true,"question":%q}`, n, text)
}

// what a line that begins with the marker is, streamed in pieces of every
// size and whole.
func TestAskMarker(t *testing.T) {
	for name, c := range map[string]struct {
		output string
		want   []string
	}{
		"none":               {"no question\nat all", []string{"text no question\nat all"}},
		"alone":              {"ASK: Which one?", []string{question(1, "Which one?")}},
		"after text":         {"I looked.\n\nASK:Which?\n", []string{"text I looked.", question(1, "Which?")}},
		"with choices":       {"ASK: Which?\n1. a\n\n2. b", []string{question(1, "Which?\n1. a\n\n2. b")}},
		"two":                {"a\nASK: b\nASK: c", []string{"text a", question(1, "b"), question(2, "c")}},
		"not at its begin":   {"I ASK: you\n ASK: too\nBASK: no", []string{"text I ASK: you\n ASK: too\nBASK: no"}},
		"nothing asked":      {"Write\nASK:\n", []string{"text Write\nASK:"}},
		"on the next line":   {"ASK:\nWhich?", []string{question(1, "Which?")}},
		"blank, then asking": {"ASK:\nASK: b", []string{"text ASK:", question(1, "b")}},
		"almost":             {"AS\nASK\nASKING", []string{"text AS\nASK\nASKING"}},
		"empty":              {" \n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			for size := 1; size <= len(c.output); size++ {
				a := &items{marker: "ASK:", limit: 4000, step: 7}
				streamed := ""
				for rest := c.output; rest != ""; {
					n := min(size, len(rest))
					a.delta(rest[:n])
					rest = rest[n:]
				}
				a.block(c.output, false)
				for _, out := range a.takeDeltas() {
					streamed += out.Delta
					if out.Item != 0 {
						t.Errorf("a delta of item %d", out.Item)
					}
				}
				if got := show(a.list); !reflect.DeepEqual(got, c.want) {
					t.Errorf("pieces of %d: %q", size, got)
				}
				want := ""
				if len(c.want) > 0 {
					want, _ = strings.CutPrefix(c.want[0], "text ")
					if !strings.HasPrefix(c.want[0], "text ") {
						want = ""
					}
				}
				if streamed != want {
					t.Errorf("pieces of %d: streamed is %q", size, streamed)
				}
			}
		})
	}
	a := &items{limit: 4000}
	a.block("ASK: b", false)
	if got := show(a.list); !reflect.DeepEqual(got, []string{"text ASK: b"}) {
		t.Errorf("without a marker: %q", got)
	}
}

// what is streamed of a text that is too long is the beginning of
// what stays; a question is cut as well.
func TestCutWhileStreaming(t *testing.T) {
	for length := 1; length < 60; length++ {
		text := strings.Repeat("aé👩‍👩‍👧‍👦", 10)
		text = text[:runes(text, length)]
		a := &items{limit: 30}
		for _, c := range text {
			a.delta(string(c))
		}
		a.block(text, false)
		streamed := ""
		for _, out := range a.takeDeltas() {
			streamed += out.Delta
		}
		want := truncate(clean(text), 30, false)
		if got := a.list[0].Text; got != want || len([]rune(got)) > 30 || (length > 30) != strings.HasSuffix(got, cutMark) {
			t.Errorf("%d code points became %q", length, got)
		}
		if !strings.HasPrefix(want, strings.TrimSuffix(streamed, cutMark)) && length <= 30 {
			t.Errorf("%d code points: streamed is %q", length, streamed)
		}
	}
	a := &items{marker: "ASK:", limit: 20}
	a.block("ASK: "+strings.Repeat("x", 21), false)
	if got := show(a.list); !strings.Contains(got[0], `"xxxxxx[...truncated]"`) {
		t.Errorf("the question is %q", got)
	}
}

// stream-json: the lines of an agent, known and unknown.
func TestStreamJSON(t *testing.T) {
	const init = `{"type":"system","subtype":"init","tools":["Bash"]}` + "\n"
	said := func(text string) string {
		return fmt.Sprintf(`{"type":"assistant","message":{"content":[{"type":"text","text":%q}],"usage":{"input_tokens":1}},"parent_tool_use_id":null}`+"\n", text)
	}
	delta := func(text string) string {
		return fmt.Sprintf(`{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}}`+"\n", text)
	}
	const begin = `{"type":"stream_event","event":{"type":"content_block_start","index":0}}` + "\n"
	result := func(text string) string {
		return fmt.Sprintf(`{"type":"result","subtype":"success","is_error":false,"result":%q,"usage":{"input_tokens":3,"cache_creation_input_tokens":10,"cache_read_input_tokens":100,"output_tokens":5}}`+"\n", text)
	}
	for name, c := range map[string]struct {
		output string
		want   []string
		stream string // item:delta …
		failed string
		cut    bool // in the middle
	}{
		"whole":            {output: init + said("Hello.") + result("Hello."), want: []string{"text Hello."}, stream: "0:Hello."},
		"several":          {output: said("I look.") + `{"type":"user","message":{"content":[{"type":"tool_result","content":"x"}]}}` + "\n" + said("Done.") + result("Done."), want: []string{"text I look.", "text Done."}, stream: "0:I look.|1:Done."},
		"streamed":         {output: begin + delta("Hel") + delta("lo.") + said("Hello.") + result("Hello."), want: []string{"text Hello."}, stream: "0:Hel|0:lo."},
		"both at the end":  {output: begin + delta("a") + begin + delta("b") + said("a") + said("b") + result("b"), want: []string{"text a", "text b"}, stream: "0:a|1:b"},
		"result only":      {output: init + result("Hello."), want: []string{"text Hello."}, stream: "0:Hello."},
		"no last newline":  {output: strings.TrimSpace(result("Hello.")), want: []string{"text Hello."}, stream: "0:Hello."},
		"no result":        {output: init + said("Hello."), want: []string{"text Hello."}, stream: "0:Hello."},
		"cut":              {output: init + begin + delta("Hel"), stream: "0:Hel", cut: true},
		"streamed, result": {output: begin + delta("Hello.") + result("Hello."), want: []string{"text Hello."}, stream: "0:Hello."},
		"empty":            {output: init + result("")},
		"nothing":          {output: ""},
		"unknown lines":    {output: "warning: old\n" + `{"type":"rate_limit_event","x":[1]}` + "\n{}\n[1]\nnull\n\"x\"\n{\n" + said("Hello.") + result("Hello."), want: []string{"text Hello."}, stream: "0:Hello."},
		"other shapes":     {output: `{"type":"assistant","message":{"content":"Hello."}}` + "\n" + `{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"hm"},7,{"type":"tool_use","input":{}}]}}` + "\n" + `{"type":"assistant","message":7}` + "\n" + `{"type":"result","result":{"a":1},"usage":7}` + "\n", want: []string{"text Hello."}, stream: "0:Hello."},
		"another's words":  {output: `{"type":"assistant","message":{"content":[{"type":"text","text":"inner"}]},"parent_tool_use_id":"toolu_1"}` + "\n" + said("Hello.") + result("Hello."), want: []string{"text Hello."}, stream: "0:Hello."},
		"not the format":   {output: "Just\nthis.\n", want: []string{"text Just\nthis."}, stream: "0:Just\nthis."},
		"an error":         {output: init + `{"type":"result","subtype":"error_max_turns","is_error":false}` + "\n", failed: "error_max_turns"},
		"is_error":         {output: init + `{"type":"result","subtype":"success","is_error":true,"result":"Invalid API key"}` + "\n", want: []string{"text Invalid API key"}, stream: "0:Invalid API key", failed: "success"},
		"R-01 a question":  {output: begin + delta("I look.\nAS") + delta("K: Which?") + said("I look.\nASK: Which?") + said("more") + result("more"), want: []string{"text I look.", question(1, "Which?"), "text more"}, stream: "0:I look.|2:more"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 7, 1 << 20} {
				s := &streamJSON{items: &items{marker: "ASK:", limit: 4000, step: 7}, most: 10_000}
				for rest := []byte(c.output); len(rest) > 0; {
					n := min(size, len(rest))
					s.feed(rest[:n])
					rest = rest[n:]
				}
				whole := s.end()
				var streamed []string
				for _, out := range s.takeDeltas() {
					streamed = append(streamed, fmt.Sprintf("%d:%s", out.Item, out.Delta))
				}
				if got := strings.Join(streamed, "|"); got != c.stream {
					t.Errorf("pieces of %d: streamed is %s", size, got)
				}
				if whole == c.cut || s.failed() != c.failed {
					t.Errorf("pieces of %d: whole %v, failed %q", size, whole, s.failed())
				}
				list, usage := s.answer()
				if got := show(list); !c.cut && !reflect.DeepEqual(got, c.want) {
					t.Errorf("pieces of %d: %q", size, got)
				}
				if strings.Contains(c.output, "cache_read") && (usage.InputTokens != 113 || usage.CachedTokens != 100 || usage.OutputTokens != 5 || usage.Estimated) {
					t.Errorf("the usage is %+v", usage)
				}
			}
		})
	}
}

// max_output: a line, and all blocks together.
func TestStreamJSONLimit(t *testing.T) {
	line := func(n int) []byte {
		return fmt.Appendf(nil, `{"type":"assistant","message":{"content":"%s"}}`+"\n", strings.Repeat("x", n))
	}
	frame := len(line(0)) - 1
	s := &streamJSON{items: &items{limit: 4000}, most: frame + 100}
	s.feed(line(100))
	if len(s.list) != 1 || s.cut() {
		t.Errorf("a line at the limit: %d items, cut %v", len(s.list), s.cut())
	}
	s.feed(line(101))
	if len(s.list) != 1 || !s.cut() {
		t.Errorf("a line beyond it: %d items, cut %v", len(s.list), s.cut())
	}
	s.dropped = false
	s.feed(line(frame))
	s.feed(line(1))
	if len(s.list) != 2 || !s.cut() {
		t.Errorf("blocks beyond it: %d items, cut %v", len(s.list), s.cut())
	}
}

// The arguments of stream-json, and its failures with real processes.
func TestStreamJSONProcess(t *testing.T) {
	o := agent("report", "--mine")
	o.Format = FormatStreamJSON
	if got := text(t, open(t, o), say("x")); !strings.Contains(got, `["--mine","--output-format","stream-json","--verbose","-p","x"]`) {
		t.Errorf("the agent saw %s", got)
	}
	for name, c := range map[string]struct {
		script    string
		code      conversation.Code
		permanent bool
	}{
		"A-07 its result is an error": {`echo '{"type":"result","subtype":"error_during_execution","is_error":true}'`, conversation.Internal, true},
		"A-07 its exit status":        {`echo '{"type":"result","subtype":"success","result":"fine"}'; exit 1`, conversation.Internal, true},
		"cut":                         {`echo '{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"Hal"}}}'`, conversation.Unavailable, false},
	} {
		o := shell(c.script)
		o.Format = FormatStreamJSON
		if f := failureOf(t, open(t, o), say("x")); f.Failure.Code != c.code || f.Permanent != c.permanent {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
