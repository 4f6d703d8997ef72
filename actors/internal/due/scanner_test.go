package due

import (
	"errors"
	"iter"
	"strings"
	"testing"

	"parley/conversation"
)

var errLine = errors.New("the line is dead")

// list is sessions that are due; an empty name cannot be read.
func list(names []conversation.SessionID) iter.Seq2[conversation.SessionKey, error] {
	return func(yield func(conversation.SessionKey, error) bool) {
		for _, name := range names {
			var err error
			if name == "" {
				err = errLine
			}
			if !yield(conversation.SessionKey{Tenant: "acme", Session: name}, err) {
				return
			}
		}
	}
}

// A scan that begins in the middle comes round, to where it began.
func TestFrom(t *testing.T) {
	for _, c := range []struct{ due, behind, want string }{
		{"a b c d", "", "a b c d"},
		{"a b c d", "b", "c d a b"},
		{"a b c d", "d", "a b c d"},
		{"a b c d", "x", "a b c d"},
		{"", "a", ""},
		{"a b  c", "", "a b !"},
		{"a b  c", "a", "b !"},
		{"a b  c", "c", "!"},
	} {
		var names []conversation.SessionID
		if c.due != "" {
			for name := range strings.SplitSeq(c.due, " ") {
				names = append(names, conversation.SessionID(name))
			}
		}
		behind := conversation.SessionKey{}
		if c.behind != "" {
			behind = conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(c.behind)}
		}
		var got []string
		for key, err := range from(func() iter.Seq2[conversation.SessionKey, error] { return list(names) }, behind) {
			if err != nil {
				got = append(got, "!")
				break
			}
			got = append(got, string(key.Session))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q behind %q: %q", c.due, c.behind, got)
		}
	}
}
