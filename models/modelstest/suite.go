package modelstest

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/conversation"
)

// Scenario describes the answer of a backend. An adapter's test arranges that: it
// scripts its stand-in of the provider's server, or, for the scripted model,
// the message.
type Scenario struct {
	Name  string
	Items []conversation.Item // Kind and Text, or Tool and Args; ids are the backend's
	Cut   bool                // the stream breaks off after some text of the first item
	Hold  bool                // the backend stops in the middle of the first item until the caller goes away
}

// Request returns a request that fits the scenario: one message, one tool, streaming.
func (s Scenario) Request() conversation.Request {
	return conversation.Request{
		Session: "s1", Task: "t1-s1", Agent: conversation.Coordinator, System: "Be brief.", Step: 1, Attempt: 1, Stream: true,
		Entries: []conversation.Entry{{Role: conversation.RoleUser, Task: "t1-s1", Message: "m1-s1", Text: "Tell me."}},
		Open:    []conversation.OpenMessage{{Ordinal: 1, Message: "m1-s1", Excerpt: "Tell me."}},
		Tools: []conversation.ToolSpec{
			{Name: "lookup", Description: "Looks something up.", Schema: json.RawMessage(`{"type":"object"}`)},
			{Name: conversation.ToolCover, Description: "Says what became of a message.", Schema: json.RawMessage(`{"type":"object"}`)},
		},
	}
}

func text(s string) conversation.Item {
	return conversation.Item{Kind: conversation.ItemText, Text: s}
}

func call(tool, args string) conversation.Item {
	return conversation.Item{Kind: conversation.ItemCall, Tool: tool, Args: args}
}

// Opener makes a model that answers as the scenario says, and the request to ask
// it with.
type Opener = func(t *testing.T, s Scenario) (conversation.Model, conversation.Request)

// Run runs the suite. The column tells which cases passed.
func Run(t *testing.T, open Opener) Column {
	return run(t, open, func(items []conversation.Item) []conversation.Item { return items })
}

// run is Run for a model whose wire format carries only some orders of items.
func run(t *testing.T, open Opener, carries func([]conversation.Item) []conversation.Item) Column {
	col := Column{}
	for _, s := range wholeScenarios() {
		s.Items = carries(s.Items)
		col.run(t, s.Name, func(t *testing.T) { runWhole(t, s, open) })
	}
	col.run(t, "cancel", func(t *testing.T) { runCancel(t, open) })
	col.run(t, "break", func(t *testing.T) { runBreak(t, open) })
	col.run(t, "cut", func(t *testing.T) { runCut(t, open) })
	col.run(t, "label", func(t *testing.T) {
		model, _ := open(t, wholeScenarios()[0])
		if label := model.Label(); label == "" || strings.ContainsAny(label, " \n\t") {
			t.Errorf("the label is %q: it names the model in events and metrics, without spaces", label)
		}
	})
	return col
}

// whole are the scenarios in which the answer comes whole.
func wholeScenarios() []Scenario {
	return []Scenario{
		// M-04: one text is exactly one item.
		{Name: "plain", Items: []conversation.Item{text("Hello, this is the answer.")}},
		// M-01, M-05: several items stay several, in order.
		{Name: "parts", Items: []conversation.Item{text("The first part."), text("The second."), text("And a third one.")}},
		// M-02: a text and calls stay distinct.
		{Name: "tool", Items: []conversation.Item{call("lookup", `{"query":"a \"b\" c","n":3}`)}},
		// M-06: calls and text in one answer.
		{Name: "mixed", Items: []conversation.Item{call(conversation.ToolCover, `{"messageId":"m1-s1","as":"dismissed"}`), text("Never mind then.")}},
		// characters that are split between chunks of bytes come out whole.
		{Name: "unicode", Items: []conversation.Item{text("naïve 👩‍👩‍👧‍👦 日本語 e\u0301 𝄞 ﷽ done")}},
		{Name: "long", Items: []conversation.Item{text(strings.TrimSpace(strings.Repeat("many words of an answer ", 2000)))}},
	}
}

// runWhole asks with and without streaming.
func runWhole(t *testing.T, s Scenario, open Opener) {
	for _, streaming := range []bool{true, false} {
		model, r := open(t, s)
		r.Stream = streaming
		drafts := map[int]string{}
		var done *conversation.ModelAnswer
		last := 0
		for out, err := range model.Stream(t.Context(), r) {
			if err != nil {
				t.Fatalf("streaming=%v: %v", streaming, err)
			}
			if done != nil {
				t.Fatalf("streaming=%v: %+v came after the whole answer", streaming, out)
			}
			if out.Done != nil {
				done = out.Done
				continue
			}
			if !streaming {
				t.Fatalf("%q was streamed though nothing was to be", out.Delta)
			}
			if out.Delta == "" {
				continue // a sign of life
			}
			if !utf8.ValidString(out.Delta) {
				t.Fatalf("the delta %q is not UTF-8 by itself", out.Delta)
			}
			if out.Item < last {
				t.Fatalf("a delta of item %d came after one of item %d", out.Item, last)
			}
			last = out.Item
			drafts[out.Item] += out.Delta
		}
		if done == nil {
			t.Fatalf("streaming=%v: the stream ended without the whole answer", streaming)
		}
		compare(t, s.Items, done.Items)
		ids := map[string]bool{}
		for i, item := range done.Items {
			if item.Kind == conversation.ItemCall && (item.ID == "" || ids[item.ID]) {
				t.Errorf("the call has the id %q, which cannot pair its result", item.ID)
			}
			ids[item.ID] = true
			if item.Streamed != (drafts[i] != "") {
				t.Errorf("item %d: Streamed is %v, its deltas are %q", i, item.Streamed, drafts[i])
			}
			if drafts[i] != "" && drafts[i] != item.Text {
				t.Errorf("item %d: the deltas make %q, the text is %q", i, drafts[i], item.Text)
			}
		}
		if u := done.Usage; u.InputTokens <= 0 || u.OutputTokens <= 0 {
			t.Errorf("the usage is %+v", u)
		}
	}
}

func compare(t *testing.T, want, got []conversation.Item) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d items came, want %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		if got[i].Kind != want[i].Kind || got[i].Text != want[i].Text || got[i].Tool != want[i].Tool || !sameJSON(got[i].Args, want[i].Args) {
			t.Errorf("item %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}

func sameJSON(a, b string) bool {
	if a == b {
		return true
	}
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

var held = Scenario{Name: "held", Items: []conversation.Item{text("These words come slowly, one after the other.")}, Hold: true}

// runCancel: the sequence ends when its context does, and says so.
func runCancel(t *testing.T, open Opener) {
	model, r := open(t, held)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	seen := 0
	for out, err := range model.Stream(ctx, r) {
		if out.Done != nil {
			t.Fatal("the whole answer came though the backend held it back")
		}
		if seen++; out.Delta != "" {
			cancel()
		}
		last = err
	}
	if seen < 2 || !errors.Is(last, context.Canceled) {
		t.Fatalf("after %d pieces the stream ended with %v, not with the context's error", seen, last)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	for out, err := range model.Stream(ended, r) {
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("a call whose context has ended got %+v, %v", out, err)
		}
	}
}

// runBreak: a caller that stops reading is let go.
func runBreak(t *testing.T, open Opener) {
	model, r := open(t, held)
	for out, err := range model.Stream(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		if out.Delta != "" {
			return
		}
	}
	t.Fatal("nothing was streamed")
}

// runCut: a broken stream is never taken for a whole answer.
func runCut(t *testing.T, open Opener) {
	model, r := open(t, Scenario{Name: "cut", Items: []conversation.Item{text("Half of this is lost.")}, Cut: true})
	got := ""
	for out, err := range model.Stream(t.Context(), r) {
		if out.Done != nil {
			t.Fatalf("half an answer was reported as whole: %+v", out.Done)
		}
		var failure *conversation.ModelError
		if errors.As(err, &failure) && failure.Permanent {
			t.Fatalf("a cut stream is worth another attempt, but %v is permanent", err)
		}
		got += out.Delta
	}
	if got == "" || !strings.HasPrefix("Half of this is lost.", got) {
		t.Errorf("before the cut came %q", got)
	}
}
