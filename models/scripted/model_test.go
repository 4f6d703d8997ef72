package scripted

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/models/modelstest"
)

func open(t *testing.T, o Options) *Model {
	t.Helper()
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// asking is a request with one message.
func asking(text string) conversation.Request {
	return conversation.Request{
		Session: "s1", Task: "t1-s1", Agent: conversation.Coordinator, Step: 1, Attempt: 1, Stream: true,
		System:  "You are a test.",
		Entries: []conversation.Entry{{Role: conversation.RoleUser, Task: "t1-s1", Message: "m1-s1", Text: text}},
		Open:    []conversation.OpenMessage{{Ordinal: 1, Message: "m1-s1", Excerpt: text}},
	}
}

// collect reads a stream to its end.
func collect(m *Model, ctx context.Context, r conversation.Request) (deltas []string, done *conversation.ModelAnswer, err error) {
	for out, e := range m.Stream(ctx, r) {
		switch {
		case e != nil:
			err = e
		case out.Done != nil:
			done = out.Done
		default:
			deltas = append(deltas, out.Delta)
		}
	}
	return deltas, done, err
}

func TestSuite(t *testing.T) {
	modelstest.Run(t, func(t *testing.T, s modelstest.Scenario) (conversation.Model, conversation.Request) {
		o := Options{}
		if s.Hold {
			o.TokenDelay = time.Hour
		}
		var lines []string
		var texts []string
		for _, item := range s.Items {
			switch {
			case item.Kind == conversation.ItemText:
				texts = append(texts, item.Text)
			case item.Tool == conversation.ToolCover:
				lines = append(lines, "/cover 1 dismissed")
			default:
				lines = append(lines, "/tool "+item.Tool+" "+item.Args)
			}
		}
		if s.Cut {
			lines = append(lines, "/fail truncated")
		}
		if len(texts) > 0 {
			lines = append(lines, "/parts "+strings.Join(texts, " | "))
		}
		r := s.Request()
		r.Entries[len(r.Entries)-1].Text = strings.Join(lines, "\n")
		return open(t, o), r
	})
}

func TestStreaming(t *testing.T) {
	t.Run("word by word, in the order of the items", func(t *testing.T) {
		m := open(t, Options{})
		var got []conversation.Output
		for out, err := range m.Stream(t.Context(), asking("/parts one  two | | three")) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, out)
		}
		want := []conversation.Output{
			{Item: 0, Delta: "one  "}, {Item: 0, Delta: "two"}, {Item: 2, Delta: "three"},
			{Done: &conversation.ModelAnswer{
				ResponseID: "m1-s1:1",
				Items: []conversation.Item{
					{Kind: conversation.ItemText, ID: "m1-s1:1", Text: "one  two", Streamed: true},
					{Kind: conversation.ItemText, ID: "m1-s1:1.1"},
					{Kind: conversation.ItemText, ID: "m1-s1:1.2", Text: "three", Streamed: true},
				},
				Usage: conversation.Usage{InputTokens: 11, OutputTokens: 3, Estimated: true}, // the input by its white space
			}},
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v", got)
		}
	})
	t.Run("one delta for each word of /stream", func(t *testing.T) {
		deltas, done, err := collect(open(t, Options{}), t.Context(), asking("/stream 1000 ho"))
		if err != nil || len(deltas) != 1000 || done.Items[0].Text != strings.Join(deltas, "") {
			t.Fatal(len(deltas), err)
		}
	})
	t.Run("nothing is streamed that is not wanted", func(t *testing.T) {
		r := asking("/say a b")
		r.Stream = false
		deltas, done, err := collect(open(t, Options{}), t.Context(), r)
		if err != nil || len(deltas) > 0 || done.Items[0].Streamed || done.Items[0].Text != "a b" {
			t.Fatal(deltas, done, err)
		}
	})
	t.Run("the time between words", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			_, done, err := collect(open(t, Options{TokenDelay: 20 * time.Millisecond}), t.Context(), asking("/wait 1s\n/say a b c"))
			if took := time.Since(start); err != nil || done == nil || took != time.Second+40*time.Millisecond {
				t.Fatal(took, err)
			}
		})
	})
	// N-06: a stop always works.
	t.Run("a cancel in the middle of a stream", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			start := time.Now()
			deltas, done, err := collect(open(t, Options{TokenDelay: 20 * time.Millisecond}), ctx, asking("/stream 100 ho"))
			if len(deltas) != 3 || done != nil || !errors.Is(err, context.Canceled) || time.Since(start) != 50*time.Millisecond {
				t.Fatal(len(deltas), done, err, time.Since(start))
			}
		})
	})
	t.Run("a cancel of a waiting call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, done, err := collect(open(t, Options{}), ctx, asking("/wait 10h\n/say a"))
			if done != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(done, err)
			}
		})
	})
	t.Run("the developer takes two seconds for people", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := asking("Fix the login bug")
			r.Agent, r.Depth, r.Stream = "developer", 1, false
			for delay, want := range map[time.Duration]time.Duration{0: 200 * time.Millisecond, time.Millisecond: 2 * time.Second} {
				start := time.Now()
				if _, done, err := collect(open(t, Options{TokenDelay: delay}), t.Context(), r); err != nil || done == nil || time.Since(start) != want {
					t.Fatal(time.Since(start), err)
				}
			}
		})
	})
}

func TestFailures(t *testing.T) {
	m := open(t, Options{})
	codes := map[string]conversation.Code{"429": conversation.RateLimited, "500": conversation.Unavailable, "timeout": conversation.Timeout}
	for kind, code := range codes {
		t.Run(kind, func(t *testing.T) {
			r := asking("/fail " + kind + " 2\n/say a b")
			for r.Attempt = 1; r.Attempt <= 2; r.Attempt++ {
				deltas, done, err := collect(m, t.Context(), r)
				var failure *conversation.ModelError
				if len(deltas) > 0 || done != nil || !errors.As(err, &failure) {
					t.Fatal(deltas, done, err)
				}
				if failure.Failure.Code != code || failure.Failure.Message == "" || failure.Permanent || failure.Usage.InputTokens == 0 {
					t.Fatalf("%+v", failure)
				}
			}
			if _, done, err := collect(m, t.Context(), r); err != nil || done.Items[0].Text != "a b" {
				t.Fatal(done, err)
			}
		})
	}
	t.Run("truncated", func(t *testing.T) {
		for say, want := range map[string]string{"/say a b c d": "a b ", "/partial x": "This answer is cut off in the"} {
			deltas, done, err := collect(m, t.Context(), asking("/fail truncated\n"+say))
			if strings.Join(deltas, "") != want || done != nil || err != nil {
				t.Fatal(deltas, done, err)
			}
		}
		r := asking("/fail truncated\n/say a b c d")
		r.Stream = false
		if deltas, done, err := collect(m, t.Context(), r); len(deltas) > 0 || done != nil || err != nil {
			t.Fatal(deltas, done, err)
		}
	})
}

// The model is a pure function: many goroutines, one model, the same answers.
func TestPurity(t *testing.T) {
	m := open(t, Options{})
	request := func() conversation.Request {
		r := asking("Set up auth")
		for _, name := range engineTools {
			r.Tools = append(r.Tools, conversation.ToolSpec{Name: name})
		}
		return r
	}
	r := request()
	_, want, _ := collect(m, t.Context(), r)
	done := make(chan *conversation.ModelAnswer)
	for range 8 {
		go func() {
			_, got, _ := collect(m, context.Background(), r)
			done <- got
		}()
	}
	for range 8 {
		if got := <-done; !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if !reflect.DeepEqual(request(), r) {
		t.Error("the request was changed")
	}
}

func TestScripts(t *testing.T) {
	const head = "work_time = \"1s\"\nwork_time_fast = \"0s\"\nchanges = \" ($text)\"\nmissing_tool = \"no $tool\"\n[unknown]\nsession = \"what? $quote\"\ndelegation = \"did $text\"\n"
	t.Run("replaced", func(t *testing.T) {
		m := open(t, Options{Script: []byte(head + `
[[rule]]
name = "double"
match = '^say (.+) twice$'
do = ["/partial $1", "/say $1"]
`)})
		_, done, err := collect(m, t.Context(), asking("Say it twice"))
		if err != nil || done.Items[0].Tool != conversation.ToolRespond || done.Items[0].Args != `{"message":"it","inReplyTo":"m1-s1"}` {
			t.Fatal(done, err)
		}
		if _, done, err = collect(m, t.Context(), asking("hello")); err != nil || done.Items[0].Text != "what? hello" {
			t.Fatal(done, err)
		}
	})
	t.Run("the embedded one is a starting point", func(t *testing.T) {
		if _, err := New(Options{Script: Script()}); err != nil {
			t.Fatal(err)
		}
	})
	for name, c := range map[string]struct{ script, want string }{
		"no TOML":               {"work_time = \n", "script: line 1, column 13"},
		"a wrong type":          {"changes = 3\n", "script: line 1, column"},
		"an unknown key":        {head + "color = \"red\"\n", `script: line 8: there is no key "unknown.color"`},
		"an unknown rule key":   {head + "[[rule]]\nname = \"a\"\nmatch = \"a\"\ndo = [\"/say a\"]\ncolour = 1\n", `script: line 12: there is no key "rule.colour"`},
		"an empty script":       {"", "script: work_time is missing"},
		"a bad duration":        {strings.Replace(head, `"1s"`, `"soon"`, 1), `script: a work time is a duration such as "2s", not "soon"`},
		"a bad pattern":         {head + "\n[[rule]]\nname = \"a\"\nmatch = \"(\"\ndo = [\"/say a\"]\n", `script: line 9: rule "a": match: error parsing regexp`},
		"no pattern":            {head + "[[rule]]\nname = \"a\"\ndo = [\"/say a\"]\n", `script: line 8: rule "a" has no match`},
		"no name":               {head + "[[rule]]\nmatch = \"a\"\ndo = [\"/say a\"]\n", `script: line 8: rule "" has no name`},
		"no actions":            {head + "[[rule]]\nname = \"a\"\nmatch = \"a\"\n", `script: line 8: rule "a" has nothing to do`},
		"a wrong place":         {head + "[[rule]]\nname = \"a\"\nmatch = \"a\"\nin = \"bed\"\ndo = [\"/say a\"]\n", `script: line 8: rule "a": in is "session" or "delegation", not "bed"`},
		"an unknown directive":  {head + "[[rule]]\nname = \"a\"\nmatch = \"a\"\ndo = [\"/say a\"]\n\n[[rule]]\nname = \"b\"\nmatch = \"b\"\ndo = [\"/dance\"]\n", `script: line 13: rule "b": do: "/dance": there is no directive /dance`},
		"a directive misused":   {head + "[[rule]]\nname = \"a\"\nmatch = \"a\"\ndo = [\"/say\"]\n", `do: "/say": it is used as /say TEXT`},
		"an unknown variable":   {head + "[[rule]]\nname = \"a\"\nmatch = \"a\"\ndo = [\"/say $nothing\"]\n", `do: "/say $nothing": there is no variable $nothing`},
		"otherwise is read too": {head + "[[rule]]\nname = \"a\"\nmatch = \"a\"\ndo = [\"/say a\"]\notherwise = [\"dance\"]\n", `otherwise: "dance": "dance" is not a directive`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Options{Script: []byte(c.script)})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %s", err, c.want)
			}
		})
	}
	t.Run("a negative delay", func(t *testing.T) {
		if _, err := New(Options{TokenDelay: -1}); err == nil {
			t.Fatal("it is accepted")
		}
	})
}

func TestLabel(t *testing.T) {
	if got := open(t, Options{}).Label(); got != "scripted" {
		t.Fatal(got)
	}
}

// What one answer costs with a transcript of usual length.
func BenchmarkAnswer(b *testing.B) {
	m, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	r := asking("/say hello")
	old := r.Entries[0]
	r.Entries = nil
	for range 200 {
		e := old
		e.Task = "t0-s1"
		r.Entries = append(r.Entries, e, conversation.Entry{
			Role: conversation.RoleAssistant, Task: "t0-s1", ResponseID: "m1-s1:1",
			Items: []conversation.Item{{Kind: conversation.ItemText, ID: "m1-s1:1", Text: "hello"}},
		})
	}
	old.Message = "m9-s1"
	r.Entries = append(r.Entries, old)
	r.Own, r.Counted = len(r.Entries)-1, r.EntryCounts() // as the engine says
	b.ReportAllocs()
	for b.Loop() {
		for range m.Stream(b.Context(), r) {
		}
	}
}
