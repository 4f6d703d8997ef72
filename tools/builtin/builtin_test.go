package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"parley/conversation"
	"parley/tools/toolstest"
)

var _ Log = conversation.Store(nil)

// fakeLog is a session's log in memory; it obeys Reverse and Limit.
type fakeLog struct {
	records []conversation.Record
	err     error
	keys    []conversation.SessionKey
}

func (l *fakeLog) Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error] {
	l.keys = append(l.keys, key)
	return func(yield func(conversation.Record, error) bool) {
		records := slices.Clone(l.records)
		if r.Reverse {
			slices.Reverse(records)
		}
		for i, record := range records {
			if r.Limit > 0 && i == r.Limit {
				return
			}
			if ctx.Err() != nil {
				yield(conversation.Record{}, ctx.Err())
				return
			}
			if !yield(record, nil) {
				return
			}
		}
		if l.err != nil {
			yield(conversation.Record{}, l.err)
		}
	}
}

// said appends a commit.
func (l *fakeLog) said(bodies ...conversation.EventBody) {
	var record conversation.Record
	for _, body := range bodies {
		seq := conversation.Seq(1)
		for _, r := range l.records {
			seq += conversation.Seq(len(r.Events))
		}
		seq += conversation.Seq(len(record.Events))
		record.Events = append(record.Events, conversation.Event{Seq: seq, At: noon.Add(time.Duration(seq) * time.Second), Body: body})
	}
	l.records = append(l.records, record)
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func tools(log Log) map[string]conversation.Tool {
	byName := map[string]conversation.Tool{}
	for _, tool := range New(Options{Now: func() time.Time { return noon }, Log: log}) {
		byName[tool.Spec().Name] = tool
	}
	return byName
}

func run(t *testing.T, tool conversation.Tool, args any) (string, error) {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	if err := tool.Check(raw); err != nil {
		return "", err
	}
	return tool.Run(t.Context(), conversation.ToolCall{
		Key: conversation.SessionKey{Tenant: "t", Session: "s1"}, Call: "c1", Args: raw, Progress: func(string, *int) {},
	})
}

func TestSuite(t *testing.T) {
	log := &fakeLog{}
	log.said(conversation.MessageAccepted{Message: "m1", Author: "alice", Text: "hello"})
	cases := map[string]toolstest.Cases{
		"clock":          {Good: []string{`{}`, `{"zone":"UTC"}`, `{"zone":"Asia/Kathmandu"}`}, Bad: []string{`{"zone":"Mars/Base"}`, `{"zone":7}`, `{"zone":"../etc/passwd"}`, `{"zone":"Local"}`}},
		"calculate":      {Good: []string{`{"expression":"1+1"}`}, Bad: []string{`{}`, `{"expression":""}`, `{"expression":"1 +"}`, `{"expression":5}`, `{"expression":"` + strings.Repeat("1+", 600) + `1"}`}},
		"wait":           {Good: []string{`{"duration":"0s"}`, `{"duration":"1ms"}`}, Bad: []string{`{}`, `{"duration":"61s"}`, `{"duration":"-1s"}`, `{"duration":"soon"}`, `{"duration":5}`}, Slow: `{"duration":"60s"}`},
		"search_session": {Good: []string{`{"query":"hello"}`, `{"query":"nothing","limit":20}`}, Bad: []string{`{}`, `{"query":"  "}`, `{"query":"a","limit":21}`, `{"query":"a","limit":0}`, `{"query":"a","limit":1.5}`}},
	}
	all := tools(log)
	if len(all) != len(cases) {
		t.Fatalf("there are %d tools", len(all))
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { toolstest.Run(t, all[name], c) })
		if !all[name].Spec().Idempotent {
			t.Errorf("%s may run twice: it changes nothing", name)
		}
	}
	if without := tools(nil); without["search_session"] != nil || len(without) != 3 {
		t.Error("search_session is there without a log")
	}
}

func TestClock(t *testing.T) {
	for zone, want := range map[string]string{
		"":              "Saturday, 2026-11-21 12:00:00 +00:00 (UTC)",
		"Europe/Berlin": "Saturday, 2026-11-21 13:00:00 +01:00 (Europe/Berlin)",
	} {
		if got, err := run(t, tools(nil)["clock"], map[string]string{"zone": zone}); got != want || err != nil {
			t.Errorf("%q: got %q, %v", zone, got, err)
		}
	}
}

func TestCalculate(t *testing.T) {
	calculator := tools(nil)["calculate"]
	for expression, want := range map[string]string{
		"12 * (3 + 4)":                           "84",
		"7 / 2":                                  "3.5",
		"6 / 3":                                  "2",
		"7 % 3":                                  "1",
		"-7 % 3":                                 "-1",
		"7.5 % 2":                                "1.5",
		"2 ** 10":                                "1024",
		"2 ^ 62":                                 "4611686018427387904",
		"2 ** -1":                                "0.5",
		"2.0 ** 100":                             "1.26765060022823e+30",
		"-2 ** 2":                                "-4",
		"0.1 + 0.2":                              "0.3",
		"9007199254740993 + 1":                   "9007199254740994",
		"9223372036854775807 - 0":                "9223372036854775807",
		"sqrt(2) ** 2":                           "2",
		"abs(-3) + abs(-1.5)":                    "4.5",
		"max(1, 2.5, 2) - min(3)":                "-0.5",
		"round(2.5)":                             "3",
		"round(pi, 2)":                           "3.14",
		"floor(-1.5) + ceil(1.2)":                "0",
		"trunc(-1.9)":                            "-1",
		"log(e) + ln(e) + log10(1000) + log2(8)": "8",
		"cos(0) + sin(0)":                        "1",
		"hypot(3, 4)":                            "5",
		"pow(2, 3)":                              "8",
		"1_000 + 1":                              "1001",
	} {
		if got, err := run(t, calculator, map[string]string{"expression": expression}); got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %s", expression, got, err, want)
		}
	}
	for expression, want := range map[string]string{
		"1 / 0":                     "division by zero",
		"1 % 0":                     "division by zero",
		"1.5 / 0.0":                 "division by zero",
		"0 ** -1":                   "division by zero",
		"9223372036854775807 + 1":   "too large",
		"-9223372036854775807 - 2":  "too large",
		"4611686018427387904 * 2":   "too large",
		"2 ** 63":                   "too large",
		"10.0 ** 400":               "too large",
		"exp(1000)":                 "too large",
		"9223372036854775808":       "cannot be read",
		"sqrt(-1)":                  "not defined",
		"log(0)":                    "not defined",
		"x + 1":                     `"x" is not known`,
		"system(1)":                 `no function "system"`,
		"len([1])":                  `no function "len"`,
		"sqrt(1, 2)":                "another number of arguments",
		"round(1.5, 99)":            "0 to 15 digits",
		"1 == 1":                    "not an operator",
		"not true":                  "only arithmetic",
		"!1":                        "only arithmetic",
		`"a"`:                       "only arithmetic",
		"[1, 2]":                    "only arithmetic",
		"map(1..1000000000, # * 2)": "no function",
		"1..1000000000":             "not an operator",
		"let x = 1; x":              "only arithmetic",
		"1 ? 2 : 3":                 "only arithmetic",
		"(1).y":                     "only arithmetic",
	} {
		if got, err := run(t, calculator, map[string]string{"expression": expression}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, %v, want an error with %q", expression, got, err, want)
		}
	}
}

// Whatever a model sends is refused or calculated; nothing panics.
func FuzzCalculate(f *testing.F) {
	for _, seed := range []string{"1+1", "((((((", "max(1,", "2**99999999999", "-(-9223372036854775807-1)", "1/3*pi", "sum([1])", "#", "\xff", "a?.b", "1;2"} {
		f.Add(seed)
	}
	calculator := newCalculate()
	f.Fuzz(func(t *testing.T, expression string) {
		raw, _ := json.Marshal(map[string]string{"expression": expression})
		got, err := calculator.Run(context.Background(), conversation.ToolCall{Args: raw})
		if err == nil && (got == "" || strings.ContainsAny(got, "NI")) {
			t.Errorf("%q is %q", expression, got)
		}
		if err != nil && !utf8.ValidString(err.Error()) {
			t.Errorf("%q: %q", expression, err)
		}
	})
}

func TestWait(t *testing.T) {
	tool := tools(nil)["wait"]
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if got, err := run(t, tool, map[string]string{"duration": "60s"}); got != "waited 1m0s" || err != nil || time.Since(start) != time.Minute {
			t.Error(got, err, time.Since(start))
		}
	})
	if timeout := tool.Spec().Timeout; timeout <= time.Minute {
		t.Errorf("the longest wait ends by its timeout of %s", timeout)
	}
}

func TestSearch(t *testing.T) {
	log := &fakeLog{}
	tool := tools(log)["search_session"]
	log.said(conversation.MessageAccepted{Message: "m1", Author: "alice", Text: "The login page is broken"})
	log.said(
		conversation.PartialResponse{Part: conversation.Part{Message: "p1", Text: "I look at the login page"}},
		conversation.Response{Part: conversation.Part{Message: "p1", Text: "I look at the login page"}, Promoted: true},
	)
	log.said(conversation.MessageAccepted{Message: "m2", Author: "bob", Text: "secret plan"})
	log.said(conversation.MessageEdited{Message: "m2", Text: "harmless plan"})
	log.said(conversation.MessageAccepted{Message: "m3", Author: "bob", Text: "a plan to forget"})
	log.said(conversation.MessageEdited{Message: "m3", Text: "still a plan"}, conversation.MessageWithdrawn{Message: "m3"})
	log.said(conversation.Asked{Question: "q1", Text: "Which LOGIN?"}, conversation.DelegationFinished{Delegation: "d1", Summary: "login done"})
	long := strings.Repeat("日本 ", 500) + "needle" + strings.Repeat(" 語", 500)
	log.said(conversation.Response{Part: conversation.Part{Message: "p2", Text: long}})

	search := func(query string, limit int) string {
		t.Helper()
		args := map[string]any{"query": query}
		if limit > 0 {
			args["limit"] = limit
		}
		got, err := run(t, tool, args)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for query, want := range map[string]string{
		"PAGE login": "2 found, newest first:\n#2 2026-11-21 12:00:02, agent: I look at the login page\n#1 2026-11-21 12:00:01, user alice: The login page is broken",
		"secret":     "Nothing was found.",
		"plan":       "1 found, newest first:\n#4 2026-11-21 12:00:04, user bob: harmless plan",
		"which":      "1 found, newest first:\n#9 2026-11-21 12:00:09, agent asked: Which LOGIN?",
		"done":       "1 found, newest first:\n#10 2026-11-21 12:00:10, delegation d1: login done",
	} {
		if got := search(query, 0); got != want {
			t.Errorf("%s: got %q", query, got)
		}
	}
	if got := search("login", 1); !strings.HasPrefix(got, "1 found") || !strings.Contains(got, "#10") {
		t.Errorf("limit 1: got %q", got)
	}
	if got := search("needle", 0); !strings.Contains(got, "needle") || !strings.Contains(got, "…日") && !strings.Contains(got, "…本") || !utf8.ValidString(got) || utf8.RuneCountInString(got) > 400 {
		t.Errorf("a long text: got %q", got)
	}
	for _, key := range log.keys {
		if key != (conversation.SessionKey{Tenant: "t", Session: "s1"}) { // M-25
			t.Errorf("the log of %s was read", key)
		}
	}
	t.Run("the longest result", func(t *testing.T) {
		big := &fakeLog{}
		for range 30 {
			big.said(conversation.MessageAccepted{Message: "m", Author: "a", Text: strings.Repeat("𝄞", 30_000) + " x"})
		}
		got, err := run(t, tools(big)["search_session"], map[string]any{"query": "x", "limit": 20})
		if err != nil || len(got) > 32<<10 || !strings.HasPrefix(got, "20 found") {
			t.Error(len(got), err)
		}
	})
	t.Run("a log that cannot be read", func(t *testing.T) {
		broken := &fakeLog{err: errors.New("disk /dev/sda1 on fire")}
		got, err := run(t, tools(broken)["search_session"], map[string]any{"query": "x"})
		if err == nil || strings.Contains(err.Error(), "sda1") {
			t.Error(got, err)
		}
	})
	t.Run("a long log", func(t *testing.T) {
		old := &fakeLog{records: make([]conversation.Record, maxRecords)}
		old.records = append([]conversation.Record{{Events: []conversation.Event{{Seq: 1, Body: conversation.MessageAccepted{Text: "x"}}}}}, old.records...)
		got, err := run(t, tools(old)["search_session"], map[string]any{"query": "x"})
		if want := fmt.Sprintf("Nothing was found.\n(Only the newest %d records were searched.)", maxRecords); got != want || err != nil {
			t.Error(got, err)
		}
	})
}

// what was said before the context was cleared is not found, except by the task
// that was open then, and of that its own.
func TestSearchAfterClear(t *testing.T) {
	log := &fakeLog{}
	of := func(task conversation.TaskID, body conversation.EventBody) {
		log.said(body)
		log.records[len(log.records)-1].Events[0].Task = task
	}
	begun := func(task conversation.TaskID) {
		of(task, conversation.MessageAccepted{Author: "a", Text: "the plan of " + string(task), Disposition: conversation.Started})
	}
	begun("t1")                                                                          // 1
	of("", conversation.ContextCleared{By: "a"})                                         // 2
	begun("t2")                                                                          // 3
	of("t2", conversation.PartialResponse{Part: conversation.Part{Text: "a plan, too"}}) // 4
	begun("t3")                                                                          // 5
	of("", conversation.PartialResponse{Part: conversation.Part{Text: "nobody's plan"}}) // 6
	before := len(log.records)
	of("", conversation.ContextCleared{By: "b"}) // 7
	begun("t4")                                  // 8
	all := log.records
	for _, c := range []struct {
		task    conversation.TaskID
		records int
		want    string
	}{
		{"t2", before, "#6 #5 #4 #3"},
		{"t1", before, "#6 #5 #4 #3 #1"},
		{"t2", len(all), "#8 #4 #3"},
		{"t4", len(all), "#8"},
		{"", len(all), "#8"},
	} {
		log.records = all[:c.records]
		got, err := tools(log)["search_session"].Run(t.Context(), conversation.ToolCall{
			Key: conversation.SessionKey{Tenant: "t", Session: "s1"}, Task: c.task, Args: json.RawMessage(`{"query":"plan","limit":20}`),
		})
		var seqs []string
		for _, line := range strings.Split(got, "\n")[1:] {
			seq, _, _ := strings.Cut(line, " ")
			seqs = append(seqs, seq)
		}
		if found := strings.Join(seqs, " "); err != nil || found != c.want {
			t.Errorf("task %q finds %q among %d records, %v; want %q", c.task, found, c.records, err, c.want)
		}
	}
}
