package conversation

import "parley/conversation/access"

// The members of the closed sets: which types are commands, events, effects and
// ephemerals, and what each is called. A new member is declared beside its
// siblings and listed here; tests find out where else it must be known.

// Commands has one zero value of each command, for tables and tests that must
// cover them all.
func Commands() []Command {
	return []Command{
		Create{}, Say{}, Answer{}, Reply{}, Edit{}, Withdraw{}, Move{}, Cancel{}, Update{}, Close{}, Seen{}, Mark{}, Clear{}, AddPart{}, HandOut{}, RuntimeSays{}, Tell{}, Recovered{}, Tick{},
		SlotGranted{}, Drain{}, ModelAnswered{}, ModelFailed{}, ModelStopped{}, Triaged{}, ToolDone{}, ToolAsks{}, ToolAskEnds{}, DelegationAsked{}, DelegationQuestions{}, DelegationQuestionClosed{}, DelegationDone{}, Compacted{},
	}
}

// EventBodies has one zero value of each event's body.
func EventBodies() []EventBody {
	return []EventBody{
		SessionCreated{}, SessionUpdated{}, SessionClosed{}, MessageAccepted{}, MessageEdited{}, MessageWithdrawn{}, MessageMoved{}, MessageResolved{},
		TaskStatusChanged{}, TaskCancelling{}, StepStarted{}, StepFinished{}, PartialResponse{}, Response{}, Asked{}, QuestionAnswered{}, QuestionClosed{},
		ToolStarted{}, ToolFinished{}, DelegationStarted{}, DelegationFinished{}, CoverageNudge{}, ContextCompacted{}, RuntimeStatus{}, ContextCleared{},
	}
}

// Effects has one zero value of each effect.
func Effects() []Effect {
	return []Effect{
		AskModel{}, RunTool{}, StartDelegation{}, AmendDelegation{}, RouteAnswer{}, AnswerTool{}, WantSlot{}, Triage{}, Report{}, ReportQuestion{}, ReportQuestions{}, ReportQuestionClosed{},
		StopModel{}, StopCall{}, RefuseDelegation{},
	}
}

// Name labels the command.
func (Create) Name() string                   { return "create" }
func (Say) Name() string                      { return "send" }
func (Answer) Name() string                   { return "answer" }
func (Reply) Name() string                    { return "reply" }
func (Edit) Name() string                     { return "edit" }
func (Withdraw) Name() string                 { return "withdraw" }
func (Move) Name() string                     { return "move" }
func (Cancel) Name() string                   { return "cancel" }
func (Update) Name() string                   { return "update" }
func (Close) Name() string                    { return "close" }
func (Seen) Name() string                     { return "seen" }
func (Mark) Name() string                     { return "mark" }
func (Clear) Name() string                    { return "clear" }
func (AddPart) Name() string                  { return "add_part" }
func (HandOut) Name() string                  { return "hand_out" }
func (RuntimeSays) Name() string              { return "runtime_says" }
func (Tell) Name() string                     { return "tell" }
func (Recovered) Name() string                { return "recovered" }
func (Tick) Name() string                     { return "tick" }
func (SlotGranted) Name() string              { return "slot_granted" }
func (Drain) Name() string                    { return "drain" }
func (ModelAnswered) Name() string            { return "model_answered" }
func (ModelFailed) Name() string              { return "model_failed" }
func (ModelStopped) Name() string             { return "model_stopped" }
func (Triaged) Name() string                  { return "triaged" }
func (ToolDone) Name() string                 { return "tool_done" }
func (ToolAsks) Name() string                 { return "tool_asks" }
func (ToolAskEnds) Name() string              { return "tool_ask_ends" }
func (DelegationAsked) Name() string          { return "delegation_asked" }
func (DelegationQuestions) Name() string      { return "delegation_questions" }
func (DelegationQuestionClosed) Name() string { return "delegation_question_closed" }
func (DelegationDone) Name() string           { return "delegation_done" }
func (Compacted) Name() string                { return "compacted" }

// Class sorts the command.
func (c Create) Class() Class {
	return Class{AddsWork: true, Creates: true, Bytes: len(c.Title) + c.Policy.bytes(), Needs: access.Read}
}
func (c Say) Class() Class {
	return Class{AddsWork: true, MayStart: true, Bytes: len(c.Text), Needs: access.Write}
}
func (c Answer) Class() Class {
	return Class{MayStart: true, Bytes: len(c.Text), Needs: access.Approve}
}
func (c Reply) Class() Class  { return Class{MayStart: true, Bytes: len(c.Text), Needs: access.Approve} }
func (c Edit) Class() Class   { return Class{AddsWork: true, Bytes: len(c.Text), Needs: access.Write} }
func (Withdraw) Class() Class { return Class{MayStart: true, Needs: access.Write} }
func (Move) Class() Class     { return Class{AddsWork: true, Needs: access.Write} }
func (c Cancel) Class() Class {
	return Class{Stops: true, MayStart: true, Bytes: len(c.Reason), Needs: access.Write}
}
func (c Update) Class() Class {
	class := Class{AddsWork: c.Title != nil || c.Agent != "" || c.Policy != nil || c.Access != nil && *c.Access != AccessPrivate, Bytes: len(c.Agent) + c.Policy.bytes(), Needs: access.Write}
	for _, role := range c.Members {
		class.AddsWork = class.AddsWork || role > access.Reader
	}
	if c.Title != nil {
		class.Bytes += len(*c.Title)
	}
	switch {
	case c.leaves():
		class.Needs = access.Read
	case c.Agent != "" || c.Access != nil || c.Policy != nil || c.Members != nil:
		class.Needs = access.Own
	}
	return class
}

// leaves is true for a member who wants nothing but not to be one any more.
func (c Update) leaves() bool {
	role, named := c.Members[c.By]
	return named && role == access.None && len(c.Members) == 1 && c.Title == nil && c.Agent == "" && c.Access == nil && c.Policy == nil
}
func (c Close) Class() Class {
	return Class{MayStart: true, Bytes: len(c.Reason), Needs: access.Own}
}
func (Seen) Class() Class          { return Class{AddsWork: true, Needs: access.Read} }
func (Mark) Class() Class          { return Class{AddsWork: true, Needs: access.Read} }
func (Clear) Class() Class         { return Class{AddsWork: true, Needs: access.Write} }
func (HandOut) Class() Class       { return Class{} }
func (c RuntimeSays) Class() Class { return Class{Bytes: len(c.Error), Needs: access.Write} }
func (c AddPart) Class() Class {
	return Class{AddsWork: true, Bytes: len(c.Text), Needs: access.Write}
}
func (Tell) Class() Class                     { return Class{Creates: true, MayStart: true} }
func (Recovered) Class() Class                { return Class{MayStart: true} }
func (Tick) Class() Class                     { return Class{MayStart: true} }
func (SlotGranted) Class() Class              { return Class{MayStart: true} }
func (Drain) Class() Class                    { return Class{} }
func (ModelAnswered) Class() Class            { return Class{MayStart: true} }
func (ModelFailed) Class() Class              { return Class{MayStart: true} }
func (ModelStopped) Class() Class             { return Class{MayStart: true} }
func (Triaged) Class() Class                  { return Class{} }
func (ToolDone) Class() Class                 { return Class{MayStart: true} }
func (ToolAsks) Class() Class                 { return Class{MayStart: true} }
func (ToolAskEnds) Class() Class              { return Class{MayStart: true} }
func (DelegationAsked) Class() Class          { return Class{MayStart: true} }
func (DelegationQuestions) Class() Class      { return Class{MayStart: true} }
func (DelegationQuestionClosed) Class() Class { return Class{MayStart: true} }
func (DelegationDone) Class() Class           { return Class{MayStart: true} }
func (Compacted) Class() Class                { return Class{} }

func (Create) isCommand()                   {}
func (Say) isCommand()                      {}
func (Answer) isCommand()                   {}
func (Reply) isCommand()                    {}
func (Edit) isCommand()                     {}
func (Withdraw) isCommand()                 {}
func (Move) isCommand()                     {}
func (Cancel) isCommand()                   {}
func (Update) isCommand()                   {}
func (Close) isCommand()                    {}
func (Seen) isCommand()                     {}
func (Mark) isCommand()                     {}
func (Clear) isCommand()                    {}
func (AddPart) isCommand()                  {}
func (HandOut) isCommand()                  {}
func (RuntimeSays) isCommand()              {}
func (Tell) isCommand()                     {}
func (Recovered) isCommand()                {}
func (Tick) isCommand()                     {}
func (SlotGranted) isCommand()              {}
func (Drain) isCommand()                    {}
func (ModelAnswered) isCommand()            {}
func (ModelFailed) isCommand()              {}
func (ModelStopped) isCommand()             {}
func (Triaged) isCommand()                  {}
func (ToolDone) isCommand()                 {}
func (ToolAsks) isCommand()                 {}
func (ToolAskEnds) isCommand()              {}
func (DelegationAsked) isCommand()          {}
func (DelegationQuestions) isCommand()      {}
func (DelegationQuestionClosed) isCommand() {}
func (DelegationDone) isCommand()           {}
func (Compacted) isCommand()                {}

// Kind numbers the event's kind. A number is stored, so that of a body that
// goes out of use is never given to another.
func (SessionCreated) Kind() EventKind     { return KindSessionCreated }
func (SessionUpdated) Kind() EventKind     { return KindSessionUpdated }
func (SessionClosed) Kind() EventKind      { return KindSessionClosed }
func (MessageAccepted) Kind() EventKind    { return KindMessageAccepted }
func (MessageEdited) Kind() EventKind      { return KindMessageEdited }
func (MessageWithdrawn) Kind() EventKind   { return KindMessageWithdrawn }
func (MessageMoved) Kind() EventKind       { return KindMessageMoved }
func (MessageResolved) Kind() EventKind    { return KindMessageResolved }
func (TaskStatusChanged) Kind() EventKind  { return KindTaskStatus }
func (TaskCancelling) Kind() EventKind     { return KindTaskCancelling }
func (StepStarted) Kind() EventKind        { return KindStepStarted }
func (StepFinished) Kind() EventKind       { return KindStepFinished }
func (PartialResponse) Kind() EventKind    { return KindPartialResponse }
func (Response) Kind() EventKind           { return KindResponse }
func (Asked) Kind() EventKind              { return KindQuestion }
func (QuestionAnswered) Kind() EventKind   { return KindQuestionAnswered }
func (QuestionClosed) Kind() EventKind     { return KindQuestionClosed }
func (ToolStarted) Kind() EventKind        { return KindToolStarted }
func (ToolFinished) Kind() EventKind       { return KindToolFinished }
func (DelegationStarted) Kind() EventKind  { return KindDelegationStarted }
func (DelegationFinished) Kind() EventKind { return KindDelegationFinished }
func (CoverageNudge) Kind() EventKind      { return KindCoverageNudge }
func (ContextCompacted) Kind() EventKind   { return KindContextCompacted }
func (RuntimeStatus) Kind() EventKind      { return KindRuntimeStatus }
func (ContextCleared) Kind() EventKind     { return KindContextCleared }

func (SessionCreated) isEvent()     {}
func (SessionUpdated) isEvent()     {}
func (SessionClosed) isEvent()      {}
func (MessageAccepted) isEvent()    {}
func (MessageEdited) isEvent()      {}
func (MessageWithdrawn) isEvent()   {}
func (MessageMoved) isEvent()       {}
func (MessageResolved) isEvent()    {}
func (TaskStatusChanged) isEvent()  {}
func (TaskCancelling) isEvent()     {}
func (StepStarted) isEvent()        {}
func (StepFinished) isEvent()       {}
func (PartialResponse) isEvent()    {}
func (Response) isEvent()           {}
func (Asked) isEvent()              {}
func (QuestionAnswered) isEvent()   {}
func (QuestionClosed) isEvent()     {}
func (ToolStarted) isEvent()        {}
func (ToolFinished) isEvent()       {}
func (DelegationStarted) isEvent()  {}
func (DelegationFinished) isEvent() {}
func (CoverageNudge) isEvent()      {}
func (ContextCompacted) isEvent()   {}
func (RuntimeStatus) isEvent()      {}
func (ContextCleared) isEvent()     {}

func (AskModel) isEffect()             {}
func (RunTool) isEffect()              {}
func (StartDelegation) isEffect()      {}
func (AmendDelegation) isEffect()      {}
func (AnswerTool) isEffect()           {}
func (RouteAnswer) isEffect()          {}
func (WantSlot) isEffect()             {}
func (Triage) isEffect()               {}
func (Report) isEffect()               {}
func (ReportQuestion) isEffect()       {}
func (ReportQuestions) isEffect()      {}
func (ReportQuestionClosed) isEffect() {}
func (StopModel) isEffect()            {}
func (StopCall) isEffect()             {}
func (RefuseDelegation) isEffect()     {}

func (Delta) isEphemeral()        {}
func (DraftDropped) isEphemeral() {}
func (Progress) isEphemeral()     {}
func (Thinking) isEphemeral()     {}
