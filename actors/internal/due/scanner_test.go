package due

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"time"

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

// A session of another node is left to it, once: if the next scan finds it again, nobody
// has loaded it. One that is due no more is forgotten.
func TestOrphans(t *testing.T) {
	lists := []string{"a b", "b c", "b", "c", "c"}
	var loaded []string
	n := 0
	s := New(Options{
		Parallel: 1, Log: slog.New(slog.DiscardHandler), GoOn: func() bool { return true },
		List: func(context.Context, time.Time) iter.Seq2[conversation.SessionKey, error] {
			var names []conversation.SessionID
			for name := range strings.SplitSeq(lists[n], " ") {
				names = append(names, conversation.SessionID(name))
			}
			return list(names)
		},
		Skip:      func(conversation.SessionKey) bool { return false },
		Elsewhere: func(key conversation.SessionKey) bool { return key.Session != "a" },
		Load: func(key conversation.SessionKey, orphan bool, done func(bool)) {
			loaded = append(loaded, fmt.Sprint(n, " ", key.Session, " ", orphan))
			done(false)
		},
		Scanned: func(string) {},
	})
	for n = range lists {
		s.scan(t.Context(), conversation.SessionKey{})
	}
	if got, want := strings.Join(loaded, ", "), "0 a false, 1 b true, 4 c true"; got != want {
		t.Errorf("loaded %s; want %s", got, want)
	}
}
