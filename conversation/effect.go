package conversation

import "time"

// Effect is something to be done because of events. The set is closed.
//
// Effects that stop something (StopModel, StopCall, RefuseDelegation) come in
// Decided.Release and are done at once. All others start or tell something; they
// are done only after the commit of the events that caused them, so the machine
// keeps them until then: Session.Durable hands out those that are still to be
// done, for a cancel may have come meanwhile.
//
//sumtype:decl
type Effect interface{ isEffect() }

// AskModel starts one attempt of a model call, at once: an attempt that must
// wait is returned by the Tick at its time.
type AskModel struct {
	Task    TaskID
	Step    StepNumber
	Attempt int
	Agent   AgentName
	Upto    Seq // the transcript ends here: the step_started of attempt 1
	WrapUp  bool
	Form    NudgeForm // of the nudge that opened the step
}

// RunTool starts a tool call.
type RunTool struct {
	Task     TaskID
	Call     CallID
	Tool     string
	Seq      Seq    // of tool_started: the arguments are in its record
	Args     string // "" after a recovery
	Deadline time.Time

	TraceParent string // the shell's word for ToolCall.TraceParent
}

// StartDelegation tells a sub-session its objective, and keeps telling until it
// has an answer.
type StartDelegation struct {
	Task      TaskID
	Call      CallID
	Agent     AgentName
	Session   SessionID
	Objective string // "" after a recovery: it is in the record at Seq
	Seq       Seq
	Deadline  time.Time
	Stop      bool // do not tell: cancel the sub-session and wait for its end
}

// AmendDelegation forwards a text to a running delegation; its outcome comes
// back as ToolDone of Call.
type AmendDelegation struct {
	Call       CallID
	Delegation CallID
	Text       string // "" after a recovery: it is in the arguments of the record at Seq
	Seq        Seq
}

// RouteAnswer hands the answer to a delegation's question down.
type RouteAnswer struct {
	Delegation CallID
	Question   QuestionID // as the sub-session calls it
	Text       string
	By         UserID
}

// AnswerTool tells a running tool what became of its question. It answers one ToolAsks.
type AnswerTool struct {
	Call     CallID
	Text     string
	Answered bool      // false: the question was closed without an answer, or is not asked at all
	Deadline time.Time // of the call; later by the time that the question was open
}

// WantSlot asks admission for a slot; SlotGranted comes when there is one.
type WantSlot struct{ Task TaskID }

// Triage asks an agent in which order the waiting messages should go; it may
// only Move them.
type Triage struct {
	Agent   AgentName
	Waiting []InboxView
}

// Report tells the parent of a sub-session how its task ended. Repeated tells
// repeat it.
type Report struct {
	Status  CallStatus
	Summary string // "" when it was shown earlier: it is in the record at Seq, if that is not 0
	Seq     Seq
}

// ReportQuestion tells the parent of a sub-session that a question is open.
type ReportQuestion struct{ Asked Asked }

// ReportQuestions tells the parent of a sub-session that it works, and which
// questions are open: all of them, so that the parent closes any other. It
// follows a recovery and every repeated tell, whatever got lost before.
type ReportQuestions struct{ Open []QuestionID }

// ReportQuestionClosed tells the parent of a sub-session that a question closed
// without the parent's doing.
type ReportQuestionClosed struct {
	Question QuestionID
	Reason   ClosedReason
	Default  *string
}

// StopModel cancels the model call of a step.
type StopModel struct{ Step StepNumber }

// StopCall cancels a tool call or a delegation; its end comes back as a
// command. A call that was not started (its commit was still in flight) is
// answered like one that has just stopped: ToolDone or DelegationDone, cancelled.
type StopCall struct{ Call CallID }

// RefuseDelegation tells a sub-session that speaks of a call that is not open
// to cancel itself.
type RefuseDelegation struct{ Delegation CallID }

// Ephemeral is a thing that clients are shown and that is never stored: it has
// no seq and may be lost. The set is closed.
//
//sumtype:decl
type Ephemeral interface{ isEphemeral() }

// Delta is text of a draft at an offset in code points.
type Delta struct {
	Task  TaskID
	Draft DraftID
	At    int
	Text  string
}

// DraftDropped says that a draft became a call, nothing, or a retry.
type DraftDropped struct {
	Task  TaskID
	Draft DraftID
}

// Progress is a call's note on how far it is.
type Progress struct {
	Task    TaskID
	Call    CallID
	Note    string
	Percent *int
}

// Thinking says that a model call has begun.
type Thinking struct {
	Task  TaskID
	Agent AgentName
	Step  StepNumber
}
