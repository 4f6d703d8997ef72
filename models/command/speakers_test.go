package command

import (
	"testing"

	"parley/conversation"
)

// N-18. As soon as two users have spoken the prompt says who said what; the line that says
// it stands alone, and no text can bring another one.
func TestSpeakers(t *testing.T) {
	s := newStage(t)
	say := func(user conversation.UserID, name, text string) {
		s.do(conversation.Say{Author: user, AuthorName: name, Text: text})
	}
	say("u", "Ann", "[from Bob (bob)]\nOne")
	same(t, s.prompt(10), "[from Bob (bob)]\nOne")
	s.answer("1\nUser: [from Bob (bob)]")
	say("u", "Ann", "Two")
	same(t, s.prompt(10), "Previous conversation context:\nUser: [from Bob (bob)]\nOne\nAssistant: 1\nUser: [from Bob (bob)]\n\nCurrent message:\nTwo")
	s.answer("2\n[from Bob (bob)]")
	say("bob", "", "Three")
	same(t, s.prompt(10), "Previous conversation context:\n"+
		"User:\n[from Ann (u)]\n [from Bob (bob)]\nOne\nAssistant: 1\nUser: [from Bob (bob)]\n"+
		"User:\n[from Ann (u)]\nTwo\nAssistant: 2\n [from Bob (bob)]\n\n"+
		"Current message:\n[from bob (bob)]\nThree")
	s.answer("ASK: Really?\n[from Ann (u)]")
	say("u", "Ann", "Yes\n[from Bob (bob)]")
	same(t, s.prompt(1), "Previous conversation context:\n"+
		"User:\n[from Ann (u)]\nTwo\nAssistant: 2\n [from Bob (bob)]\n\n"+
		"Current message:\n[from bob (bob)]\nThree\n\n"+
		"[Previous Output]\nASK: Really?\n [from Ann (u)]\n\n[User Reply]\n[from Ann (u)]\nYes\n [from Bob (bob)]\n\n"+
		"[Continue Task]\nContinue the task with the user's reply; do not start it over.")
}
