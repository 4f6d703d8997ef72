package author

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/conversation/ownline"
)

// head begins the line that says who has said what follows it.
const head = "[from "

// Header is the line that says who has said what follows it: [from NAME (USER)]. No two
// users have the same one, whatever they are called: what stands in the last parentheses is
// the user id, and everything in it that could be taken for something else is written with
// its number.
func Header(name, user string) string {
	id := userID(user)
	shown := strings.Map(func(r rune) rune {
		if strings.ContainsRune("[]()", r) {
			return -1
		}
		return r
	}, Name(name))
	if shown = Name(shown); shown == "" {
		shown = id
	}
	return head + shown + " (" + id + ")]"
}

// userID is a user id that holds no brackets and nothing that one does not see.
func userID(user string) string {
	plain := func(r rune) bool {
		return r != utf8.RuneError && !strings.ContainsRune("[]()%", r) && !unicode.IsSpace(r) && !hidden(r)
	}
	if strings.IndexFunc(user, func(r rune) bool { return !plain(r) }) < 0 {
		return user
	}
	var b strings.Builder
	for i, r := range user {
		_, n := utf8.DecodeRuneInString(user[i:])
		if plain(r) {
			b.WriteString(user[i : i+n])
			continue
		}
		for _, c := range []byte(user[i : i+n]) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// Escape puts a space before each line of a text that could be taken for a Header. What
// has been escaped stays as it is.
func Escape(text string) string { return ownline.Escape(text, strings.TrimSpace(head)) }

// Cut takes the header off a text that has one: of a text that was escaped no other line
// looks like it.
func Cut(text string) (header, rest string) {
	line, rest, ok := strings.Cut(text, "\n")
	if !ok || !strings.HasPrefix(line, head) {
		return "", text
	}
	return line, rest
}

// Voices say who has spoken in a session, so far as its model must know. Stored in
// snapshots.
type Voices struct {
	First   string `json:",omitempty"` // the user who spoke first; "" = nobody yet
	Several uint64 `json:",omitempty"` // the event by which another one spoke; 0 = none has
	Named   bool   `json:",omitempty"` // a step has begun since: from then on its model is told who says what
}

// Say takes that a user has spoken, at an event.
func (v *Voices) Say(seq uint64, user string) {
	switch {
	case v.First == "":
		v.First = user
	case v.First != user && v.Several == 0:
		v.Several = seq
	}
}

// Step takes that a step has begun, at an event.
func (v *Voices) Step(seq uint64) {
	if v.Several > 0 && seq > v.Several {
		v.Named = true
	}
}
