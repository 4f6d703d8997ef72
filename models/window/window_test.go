package window

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"parley/conversation"
	"parley/models/modelstest"
)

// small refuses what it cannot hold, as providers do.
type small struct {
	conversation.Model
	holds int
	asked conversation.Request
}

func (s *small) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	s.asked = r
	if r.Tokens() <= s.holds {
		return s.Model.Stream(ctx, r)
	}
	return func(yield func(conversation.Output, error) bool) {
		yield(conversation.Output{}, &conversation.ModelError{Permanent: true, Failure: conversation.Failure{Code: conversation.TooLarge, Message: "too large"}})
	}
}

func long(task conversation.TaskID) (r conversation.Request) {
	r = conversation.Request{Session: "s1", Task: task, Step: 9, System: "Be brief."}
	for _, of := range []conversation.TaskID{"t1", "t2", "t3"} {
		r.Entries = append(r.Entries,
			conversation.Entry{Role: conversation.RoleUser, Task: of, Message: "m-" + conversation.MessageID(of), Text: "message of " + string(of), Pinned: of == "t1"},
			conversation.Entry{Role: conversation.RoleAssistant, Task: of, Items: []conversation.Item{{Kind: conversation.ItemCall, ID: "c-" + string(of), Tool: "f", Args: "{}"}}},
			conversation.Entry{Role: conversation.RoleTool, Task: of, CallID: "c-" + string(of), Text: strings.Repeat("word", 300)})
	}
	return r
}

// A model is asked with what it can hold; the same request is refused without the window.
func TestCutForOneModel(t *testing.T) {
	r := long("t3")
	r.MustCall, r.Tools, r.Forbidden = true, []conversation.ToolSpec{{Name: "g"}}, []conversation.ToolSpec{{Name: "f"}}
	answers := func() conversation.Model {
		return &modelstest.Fake{Name: "small", Turns: []modelstest.FakeTurn{{Says: "yes"}}}
	}
	bare := &small{Model: answers(), holds: 700}
	var known *conversation.ModelError
	if h := modelstest.Ask(t.Context(), bare, r); !errors.As(h.Err, &known) || known.Failure.Code != conversation.TooLarge {
		t.Fatalf("without a window: %+v", h)
	}
	inner := &small{Model: answers(), holds: 700}
	m, err := New(inner, 700, nil)
	if err != nil {
		t.Fatal(err)
	}
	if h := modelstest.Ask(t.Context(), m, r); h.Err != nil || h.Done.Items[0].Text != "yes" {
		t.Fatalf("with a window: %+v", h)
	}
	shown := ""
	for _, e := range inner.asked.Entries {
		shown += e.Text + "\n"
	}
	for _, want := range []string{"message of t1", "message of t3", "are left out here"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not shown: %s", want, shown)
		}
	}
	if strings.Contains(shown, "message of t2") || len(r.Entries) != 9 {
		t.Errorf("shown is %s", shown)
	}
	if a := inner.asked; !a.MustCall || len(a.Tools) != 1 || len(a.Forbidden) != 1 {
		t.Errorf("the rest of the request is %+v", a)
	}
	if got := m.Stats(); got != (Stats{Cut: 1}) || m.Label() != inner.Label() {
		t.Errorf("%+v, %s", got, m.Label())
	}
}

// What the model can hold is passed on as it is; what cannot be cut is sent all the same.
func TestBothSidesOfTheLimit(t *testing.T) {
	r := long("t3")
	for _, c := range []struct {
		name   string
		tokens int
		want   Stats
	}{
		{"as large as it holds", r.Tokens(), Stats{}},
		{"one more", r.Tokens() - 1, Stats{Cut: 1}},
		{"nothing more can go", 100, Stats{Cut: 1, Over: 1}},
	} {
		inner := &small{Model: &modelstest.Fake{Name: "small", Turns: []modelstest.FakeTurn{{Says: "yes"}}}, holds: 1 << 20}
		m, err := New(inner, c.tokens, nil)
		if err != nil {
			t.Fatal(err)
		}
		if h := modelstest.Ask(t.Context(), m, r); h.Err != nil || m.Stats() != c.want {
			t.Errorf("%s: %+v, %+v", c.name, m.Stats(), h.Err)
		}
		if same := len(inner.asked.Entries) == len(r.Entries); same != (c.want == Stats{}) {
			t.Errorf("%s: %d entries of %d", c.name, len(inner.asked.Entries), len(r.Entries))
		}
	}
	if _, err := New(&modelstest.Fake{}, 0, nil); err == nil {
		t.Error("a window of nothing")
	}
}
