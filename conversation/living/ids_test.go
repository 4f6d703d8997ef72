package living

import (
	"testing"

	"parley/conversation"
)

// Next and Before are each other's opposite; an id that only looks like the next of
// another is a first one.
func TestNext(t *testing.T) {
	for _, c := range []struct{ id, next, before conversation.SessionID }{
		{"abc", "abc_2", ""},
		{"abc_2", "abc_3", "abc"},
		{"abc_9", "abc_10", "abc_8"},
		{"abc_1", "abc_1_2", ""},
		{"abc_02", "abc_02_2", ""},
		{"abc_x", "abc_x_2", ""},
		{"abc_+3", "abc_+3_2", ""},
		{"_2", "_2_2", ""},
		{"a_2_3", "a_2_4", "a_2_2"},
	} {
		if got := Next(c.id); got != c.next {
			t.Errorf("%q: the next is %q, want %q", c.id, got, c.next)
		}
		before, ok := Before(c.id)
		if before != c.before || ok != (c.before != "") {
			t.Errorf("%q: before it %q, %v, want %q", c.id, before, ok, c.before)
		}
		if before, _ := Before(Next(c.id)); before != c.id {
			t.Errorf("%q: before its next is %q", c.id, before)
		}
	}
}
