package wire

import "parley/conversation"

// Tool calls and delegations.

func (w *writer) toolStarted(b conversation.ToolStarted) {
	w.text(1, string(b.Call))
	w.text(2, b.Tool)
	w.text(3, b.Args)
	w.time(4, b.Deadline)
	w.text(5, string(b.Delegation))
	w.text(6, b.ModelCall)
	w.bool(7, b.Idempotent)
	w.bool(8, b.Caller)
}

func (r *reader) toolStarted(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.ToolStarted)
	for r.next() {
		switch r.number {
		case 1:
			text(r, &b.Call)
		case 2:
			text(r, &b.Tool)
		case 3:
			text(r, &b.Args)
		case 4:
			moment(r, &b.Deadline)
		case 5:
			text(r, &b.Delegation)
		case 6:
			text(r, &b.ModelCall)
		case 7:
			boolean(r, &b.Idempotent)
		case 8:
			boolean(r, &b.Caller)
		}
	}
	return b
}

func (w *writer) toolFinished(b conversation.ToolFinished) {
	w.text(1, string(b.Call))
	w.uint(2, uint64(b.Status))
	w.text(3, b.Summary)
	w.duration(4, b.Took)
}

func (r *reader) toolFinished(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.ToolFinished)
	for r.next() {
		switch r.number {
		case 1:
			text(r, &b.Call)
		case 2:
			enum(r, &b.Status, conversation.CallFailed)
		case 3:
			text(r, &b.Summary)
		case 4:
			duration(r, &b.Took)
		}
	}
	return b
}

func (w *writer) delegationStarted(b conversation.DelegationStarted) {
	w.text(1, string(b.Delegation))
	w.text(2, string(b.Agent))
	w.text(3, b.Objective)
	w.text(4, string(b.Session))
	w.time(5, b.Deadline)
	w.text(6, b.ModelCall)
}

func (r *reader) delegationStarted(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.DelegationStarted)
	for r.next() {
		switch r.number {
		case 1:
			text(r, &b.Delegation)
		case 2:
			text(r, &b.Agent)
		case 3:
			text(r, &b.Objective)
		case 4:
			text(r, &b.Session)
		case 5:
			moment(r, &b.Deadline)
		case 6:
			text(r, &b.ModelCall)
		}
	}
	return b
}

func (w *writer) delegationFinished(b conversation.DelegationFinished) {
	w.text(1, string(b.Delegation))
	w.uint(2, uint64(b.Status))
	w.text(3, b.Summary)
	w.duration(4, b.Took)
}

func (r *reader) delegationFinished(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.DelegationFinished)
	for r.next() {
		switch r.number {
		case 1:
			text(r, &b.Delegation)
		case 2:
			enum(r, &b.Status, conversation.CallFailed)
		case 3:
			text(r, &b.Summary)
		case 4:
			duration(r, &b.Took)
		}
	}
	return b
}
