package machine

import (
	"slices"

	"parley/conversation"
	"parley/conversation/machine/internal/state"
)

// The questions of tools that run: asked in the middle of a call, which goes on with
// the answer. docs/MACHINE.md, section 4.

// toolAsks opens a tool's question, or tells the tool at once that nobody will answer.
// Rules 4.13, 4.14.
func (qs questions) toolAsks(c conversation.ToolAsks) {
	t, call := qs.state.Call(c.Call)
	switch {
	case call == nil || t.Cancelling != nil:
		return // its end, or the order to stop, has told it
	case call.Held, call.Delegation(), call.Tool == conversation.ToolAmend,
		conversation.IsBlank(c.Text), call.Asked >= qs.policy.MaxAsks, t.AskedBy(call.ID) != nil:
		qs.answerTool(call.ID, "", false)
		return
	}
	qs.ask(t, conversation.Asked{Text: c.Text, Blocking: true, Choices: c.Choices, Call: call.ID, About: t.Guess(nil)})
}

// toolAskEnds closes the question of a tool that does not wait for its answer any more.
// Rule 4.15.
func (qs questions) toolAskEnds(c conversation.ToolAskEnds) {
	if t, call := qs.state.Call(c.Call); call != nil && !call.Held {
		qs.closeOf(t, call)
	}
}

// closeOf closes what a call has asked: the call ends, or begins anew.
// Rules 4.15, 5.11.
func (qs questions) closeOf(t *state.Task, c *state.Call) {
	for _, q := range slices.Clone(t.Questions) {
		if q.Asked.Delegation == c.ID || q.Asked.Call == c.ID {
			qs.close(t, q, conversation.QuestionCancelled)
		}
	}
}

// handOver gives an answer to whom it is for, if that is not the model that asked: to
// the tool or to the delegation. Where the session's caller runs the tool, the answer is
// its result. The question is closed by now.
// Rules 4.13, 4.16.
func (qs questions) handOver(asked conversation.Asked, text string, by conversation.UserID) {
	switch {
	case asked.Delegation != "":
		qs.do(conversation.RouteAnswer{Delegation: asked.Delegation, Question: state.Inner(asked.Question), Text: text, By: by})
	case asked.Call != "":
		if t, c := qs.state.Call(asked.Call); c != nil && c.Caller {
			qs.calls().finishTool(t, c, conversation.CallOK, text, qs.at().Sub(c.At))
			return
		}
		qs.answerTool(asked.Call, text, true)
	}
}

// answerTool tells a tool what became of its question, and how long it may go on.
func (qs questions) answerTool(id conversation.CallID, text string, answered bool) {
	if _, c := qs.state.Call(id); c != nil && !c.Caller {
		qs.do(conversation.AnswerTool{Call: id, Text: text, Answered: answered, Deadline: c.Deadline})
	}
}
