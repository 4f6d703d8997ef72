package modelcall

import (
	"strings"
	"testing"

	"parley/conversation"
)

// What is shown of an item is its text in whole characters, from the moment on at
// which it cannot be a sentinel any more.
func TestDrafts(t *testing.T) {
	d := drafts{ask: conversation.AskModel{Task: "t1", Step: 3, Attempt: 1}}
	heldBack := func(text string) bool { return strings.HasPrefix("NO_REPLY", text) }
	var shown []conversation.Delta
	show := func() { d.show(heldBack, func(delta conversation.Delta) { shown = append(shown, delta) }) }

	if d.add(0, "") || d.add(-1, "x") || d.add(maxItems+1, "x") {
		t.Error("added what cannot be added")
	}
	d.add(1, "NO_")
	show()
	if len(shown) != 0 || d.shown() != nil || d.views() != nil {
		t.Errorf("a text that may become a sentinel is shown: %+v", shown)
	}
	d.add(1, "NE gr\xc3")
	show()
	d.add(1, "\xbcn")
	show()
	show()
	id := conversation.Draft(3, 1, 1)
	want := []conversation.Delta{
		{Task: "t1", Draft: id, At: 0, Text: "NO_NE gr"},
		{Task: "t1", Draft: id, At: 8, Text: "ün"},
	}
	if len(shown) != len(want) || shown[0] != want[0] || shown[1] != want[1] {
		t.Errorf("shown %+v", shown)
	}
	if v := d.views(); len(v) != 1 || v[0].Text != "NO_NE grün" || v[0].Draft != id {
		t.Errorf("views %+v", v)
	}
	part := conversation.PartialResponse{}
	part.Draft = id
	if left := WithoutPart(d.shown(), []conversation.Event{{Body: part}}); len(left) != 0 {
		t.Errorf("%+v is left although its part is there", left)
	}
	if left := WithoutPart(d.shown(), []conversation.Event{{Body: conversation.CoverageNudge{}}}); len(left) != 1 {
		t.Errorf("%d are left without a part", len(left))
	}
}
