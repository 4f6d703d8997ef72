package command

import (
	"testing"

	"parley/conversation"
	"parley/conversation/policy"
)

// R-11 with ask.detect = "question": the agent asks in plain text, in any number of
// rounds. What was said besides the reply comes with it.
func TestContinuationOfPlainQuestions(t *testing.T) {
	s := newStage(t)
	s.world.Rules.Policy.AskDetect = policy.AskDetectQuestion
	s.say("Hello")
	s.answer("Hi.")
	s.say("Fix the login")
	s.answer("I looked at it.\n\nOAuth or JWT?")
	s.isNow(conversation.TaskAwaiting)
	s.say("JWT,\nplease")
	first := "Previous conversation context:\nUser: Hello\nAssistant: Hi.\n\nCurrent message:\nFix the login\n\n" +
		"[Previous Output]\nI looked at it.\n\nOAuth or JWT?\n\n[User Reply]\nJWT,\nplease"
	same(t, s.prompt(10), first+"\n\n[Continue Task]\n"+goOn)
	s.answer("Which key?")
	s.isNow(conversation.TaskAwaiting)
	s.world.Full = true
	s.say("The new one")
	s.say("and quickly") // before the task goes on
	s.world.Full = false
	s.do(conversation.SlotGranted{})
	same(t, s.prompt(10), first+"\n\n[Previous Output]\nWhich key?\n\n[User Reply]\nThe new one\n\nand quickly\n\n[Continue Task]\n"+goOn)
	s.answer("Done.")
	s.isNow(conversation.TaskComplete)
	s.say("Thanks")
	same(t, s.prompt(10), "Previous conversation context:\nUser: Hello\nAssistant: Hi.\nUser: Fix the login\nAssistant: I looked at it.\n\nOAuth or JWT?\n"+
		"User: JWT,\nplease\nAssistant: Which key?\nUser: The new one\n\nand quickly\nAssistant: Done.\n\nCurrent message:\nThanks")
}
