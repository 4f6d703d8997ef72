package transcript

import (
	"slices"
	"strings"
	"testing"

	"parley/conversation"
)

// The place of a whole result is an address that a sub-session's id fits in.
func TestCutResult(t *testing.T) {
	if got := cutResult("root/d1", "c1", "abcdefgh", 4); !strings.Contains(got, "/api/sessions/root%2Fd1/calls/c1") {
		t.Errorf("of a sub-session: %q", got)
	}
}

// What an outside runtime has said is summarised, also when no step has shown it.
func TestCondensedOutsideParts(t *testing.T) {
	tr := New()
	tr.Add(conversation.Event{Seq: 1, Body: conversation.SessionCreated{}})
	for i, text := range []string{"from outside", "later", "newest"} {
		tr.Add(conversation.Event{Seq: conversation.Seq(2 + i), Body: conversation.PartialResponse{Part: conversation.Part{Source: "ext:x", Index: conversation.PartIndex(i), Text: text}}})
	}
	var got []string
	for _, e := range tr.condensed(3) {
		got = append(got, e.Items[0].Text)
	}
	if !slices.Equal(got, []string{"from outside", "later"}) {
		t.Errorf("%q", got)
	}
}
