package machine

import (
	"fmt"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/machine/internal/plan"
	"parley/conversation/machine/internal/state"
)

// Calls: what an answer asks for besides text. The engine's own tools are
// executed here; other tools and delegations are journaled and run by the
// shell. docs/MACHINE.md, section 5.

// startTool journals a call; it runs when that is durable.
// Rule 5.1.
func (cs calls) startTool(t *state.Task, id conversation.CallID, tool, args, modelCall string) {
	rule, _ := cs.rules.Tool(tool)
	timeout := rule.Spec.Timeout
	if timeout <= 0 {
		timeout = cs.policy.ToolTimeout
	}
	b := conversation.ToolStarted{
		Call: id, Tool: tool, Args: args, Deadline: conversation.Stamp(cs.now.Add(timeout)), ModelCall: modelCall, Idempotent: rule.Spec.Idempotent,
	}
	e := cs.emit(t, b)
	cs.do(conversation.RunTool{Task: e.Task, Call: id, Tool: tool, Seq: e.Seq, Args: args, Deadline: b.Deadline})
}

// startCallers journals a call of a tool that the session's caller runs, and asks for its
// result. Nothing of ours runs, so a crash changes nothing, nor does a change of the
// session's tools: the log has the call and the question.
// Rules 4.16, 5.13.
func (cs calls) startCallers(t *state.Task, tool, args, modelCall string) {
	id := cs.state.NextCall()
	cs.emit(t, conversation.ToolStarted{Call: id, Tool: tool, Args: args, ModelCall: modelCall, Caller: true})
	// The arguments are not in the text: not everybody who sees questions may see them.
	cs.questions().ask(t, conversation.Asked{
		Text: fmt.Sprintf("%s is yours to run. Its result is the answer.", tool), Blocking: true, Call: id,
	})
}

// decideApproval starts or refuses the call that waited.
func (cs calls) decideApproval(t *state.Task, a *conversation.Approval, approved bool, args string) {
	c := t.Call(a.Call)
	if c == nil {
		return
	}
	if !approved {
		cs.finishTool(t, c, conversation.CallDenied, "denied: the user declined this call", 0)
		return
	}
	cs.startTool(t, a.Call, a.Tool, args, "")
}

func (cs calls) finishTool(t *state.Task, c *state.Call, status conversation.CallStatus, summary string, took time.Duration) {
	cs.questions().closeOf(t, c)
	cs.emit(t, conversation.ToolFinished{Call: c.ID, Status: status, Summary: summary, Took: took})
}

// answeredAlready resolves the messages of which the model says that it has answered
// them: by the last part that there is now.
// Rule 8.11.
func (cs calls) answeredAlready(t *state.Task, asked []plan.Call) {
	if t.LastPart == nil {
		return
	}
	for _, id := range plan.AnsweredBy(asked) {
		cs.answered(t, id, t.LastPart.Index, conversation.EvidenceNamed)
	}
}

// Rule 5.3.
func (cs calls) toolDone(c conversation.ToolDone) {
	if t, open := cs.state.Call(c.Call); open != nil && !open.Delegation() && !open.Held {
		cs.finishTool(t, open, c.Status, c.Result, c.Took)
	}
}

// stopCalls tells every open call of a task to stop. One that waits for an approval, or
// for its caller, ends at once: nothing of it runs.
func (cs calls) stopCalls(t *state.Task) {
	for _, c := range slices.Clone(t.Calls) {
		if c.Held {
			cs.finishTool(t, c, conversation.CallCancelled, "cancelled", 0)
			continue
		}
		cs.do(conversation.StopCall{Call: c.ID})
	}
}

// tickCalls ends calls whose time is over.
// Rule 1.7.
func (cs calls) tickCalls(t *state.Task) {
	for _, c := range slices.Clone(t.Calls) {
		if t.Cancelling != nil {
			switch {
			case t.Cancelling.Until.After(cs.now):
			case c.Delegation():
				cs.finishDelegation(t, c, conversation.CallCancelled, "cancelled", cs.at().Sub(c.At))
			default:
				cs.finishTool(t, c, conversation.CallUnknown, "outcome unknown: the call did not stop in time", cs.at().Sub(c.At))
			}
			continue
		}
		due := c.Due(cs.policy.CancelGrace)
		if due.IsZero() || due.After(cs.now) {
			continue
		}
		cs.do(conversation.StopCall{Call: c.ID})
		if c.Delegation() {
			cs.finishDelegation(t, c, conversation.CallTimeout, "the delegation did not finish in time", cs.at().Sub(c.At))
		} else {
			cs.finishTool(t, c, conversation.CallTimeout, "the call did not finish in time", cs.at().Sub(c.At))
		}
	}
}

// carryOut decides what a call of an answer asks for.
func (cs calls) carryOut(t *state.Task, call plan.Call) {
	switch a := call.Do.(type) {
	case plan.Refuse:
		id := cs.state.NextCall()
		cs.emit(t, conversation.ToolStarted{Call: id, Tool: call.Item.Tool, Args: call.Item.Args, Deadline: cs.now, ModelCall: call.Item.ID})
		cs.emit(t, conversation.ToolFinished{Call: id, Status: conversation.CallError, Summary: "error: " + a.Reason.Error()})
	case plan.Show:
		if a.Message == "" {
			cs.emit(t, partial(cs.said(t, a.Text, "")))
			return
		}
		part := cs.state.NextPart(t, a.Text, a.Message, "")
		cs.emit(t, partial(part))
		cs.answered(t, a.Message, part.Index, conversation.EvidenceNamed)
	case plan.Answered:
		if a.ByPart {
			cs.answered(t, a.Message, a.Part, conversation.EvidenceNamed)
		}
	case plan.Resolve:
		cs.resolve(t, a.Message, a.How, "")
	case plan.AnswerQuestion:
		cs.questions().answerBy(t, a.Message, a.Question, a.Text)
	case plan.Ask:
		cs.questions().ask(t, a.Question)
	case plan.Delegate:
		cs.startDelegations(t, a.Jobs, call.Item.ID)
	case plan.Amend:
		id := cs.state.NextCall()
		e := cs.emit(t, conversation.ToolStarted{
			Call: id, Tool: conversation.ToolAmend, Args: call.Item.Args, Deadline: a.Deadline, Delegation: a.Delegation, ModelCall: call.Item.ID, Idempotent: true,
		})
		cs.do(conversation.AmendDelegation{Call: id, Delegation: a.Delegation, Text: a.Text, Seq: e.Seq})
	case plan.CallTool:
		switch {
		case a.Caller:
			cs.startCallers(t, call.Item.Tool, a.Args, call.Item.ID)
			return
		case !a.Approval:
			cs.startTool(t, cs.state.NextCall(), call.Item.Tool, a.Args, call.Item.ID)
			return
		}
		cs.questions().ask(t, conversation.Asked{
			Text: fmt.Sprintf("May I call %s?", call.Item.Tool), Blocking: true, Choices: []string{"approve", "decline"},
			Approval: &conversation.Approval{Call: cs.state.NextCall(), Tool: call.Item.Tool, Args: a.Args}, ModelCall: call.Item.ID,
		})
	}
}
