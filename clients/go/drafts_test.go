package parley

import (
	"strings"
	"testing"
)

func TestDrafts(t *testing.T) {
	delta := func(draft string, at int, text string) Event {
		return Event{Type: "delta", Task: "t1", Body: &Delta{Draft: draft, At: at, Text: text}}
	}
	event := func(b Body) Event { return Event{Task: "t1", Body: b} }
	hello := []Event{delta("1.1.0", 0, "Hé"), delta("1.1.0", 2, "llo")}
	for _, test := range []struct {
		name   string
		events []Event
		want   string
	}{
		{"grows", hello, "Héllo"},
		{"code points", []Event{delta("1.1.0", 0, "👩‍🚀"), delta("1.1.0", 3, "!")}, "👩‍🚀!"},
		{"again", append(hello[:2:2], delta("1.1.0", 2, "llo")), "Héllo"},
		{"a piece of what is there", append(hello[:2:2], delta("1.1.0", 1, "é")), "Héllo"},
		{"overlaps", append(hello[:2:2], delta("1.1.0", 4, "o, you")), "Héllo, you"},
		{"beyond the end", append(hello[:2:2], delta("1.1.0", 9, "x")), "Héllo"},
		{"begins in the middle", []Event{delta("1.1.0", 4, "x")}, ""},
		{"state", append(hello[:2:2], event(&DraftState{Draft: "1.1.0", Text: "Hé, all"}), delta("1.1.0", 7, "!")), "Hé, all!"},
		{"two", append(hello[:2:2], delta("1.1.1", 0, "B")), "Héllo|B"},
		{"dropped", append(hello[:2:2], event(&DraftDropped{Draft: "1.1.0"})), ""},
		{"part", append(hello[:2:2], delta("1.1.1", 0, "B"), event(&PartialResponse{Part{Draft: "1.1.0"}})), "B"},
		{"response", append(hello[:2:2], event(&Response{Part: Part{Draft: "1.1.0"}})), ""},
		{"its own step", append(hello[:2:2], event(&StepStarted{Step: 1, Attempt: 1})), "Héllo"},
		{"next attempt", append(hello[:2:2], event(&StepStarted{Step: 1, Attempt: 2})), ""},
		{"task ends", append(hello[:2:2], event(&TaskStatus{Task: "t1", NewStatus: "CANCELLED"})), ""},
		{"another task ends", append(hello[:2:2], event(&TaskStatus{Task: "t2", NewStatus: "COMPLETE"})), "Héllo"},
		{"followed", append(hello[:2:2], event(&Followed{})), ""},
	} {
		var d Drafts
		for _, e := range test.events {
			d.Apply(e)
		}
		var texts []string
		for _, draft := range d.All() {
			texts = append(texts, draft.Text)
		}
		if got := strings.Join(texts, "|"); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
