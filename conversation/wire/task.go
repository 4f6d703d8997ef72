package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"parley/conversation"
)

// Tasks and their steps.

func (w *writer) taskStatusChanged(b conversation.TaskStatusChanged) {
	w.text(1, string(b.Trigger))
	w.uint(2, uint64(b.Old))
	w.uint(3, uint64(b.New))
	appendTexts(w, 4, b.Messages)
	w.text(5, b.Reason)
	w.failure(6, b.Error)
}

func (r *reader) taskStatusChanged(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.TaskStatusChanged)
	for r.next() {
		switch r.number {
		case 1:
			text(r, &b.Trigger)
		case 2:
			enum(r, &b.Old, conversation.TaskCancelled)
		case 3:
			enum(r, &b.New, conversation.TaskCancelled)
		case 4:
			textList(r, &b.Messages)
		case 5:
			text(r, &b.Reason)
		case 6:
			r.failure(&b.Error)
		}
	}
	return b
}

func (w *writer) taskCancelling(b conversation.TaskCancelling) {
	w.uint(1, uint64(b.By))
	w.time(2, b.Until)
	w.text(3, b.Reason)
	w.failure(4, b.Error)
	w.bool(5, b.Drop)
	w.text(6, string(b.Author))
	w.text(7, string(b.ClientMsgID))
}

func (r *reader) taskCancelling(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.TaskCancelling)
	for r.next() {
		switch r.number {
		case 1:
			enum(r, &b.By, conversation.ByParent)
		case 2:
			moment(r, &b.Until)
		case 3:
			text(r, &b.Reason)
		case 4:
			r.failure(&b.Error)
		case 5:
			boolean(r, &b.Drop)
		case 6:
			text(r, &b.Author)
		case 7:
			text(r, &b.ClientMsgID)
		}
	}
	return b
}

func (w *writer) stepStarted(b conversation.StepStarted) {
	w.uint(1, uint64(b.Step))
	w.int(2, int64(b.Attempt))
	w.text(3, string(b.Agent))
	appendTexts(w, 4, b.Read)
	w.uint(5, uint64(b.Cause))
	w.failure(6, b.Error)
	if b.Usage != nil {
		w.usage(7, *b.Usage)
	}
	w.time(8, b.NotBefore)
	w.bool(9, b.WrapUp)
}

func (r *reader) stepStarted(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.StepStarted)
	for r.next() {
		switch r.number {
		case 1:
			unsigned(r, &b.Step)
		case 2:
			integer(r, &b.Attempt)
		case 3:
			text(r, &b.Agent)
		case 4:
			textList(r, &b.Read)
		case 5:
			enum(r, &b.Cause, conversation.CauseMoved)
		case 6:
			r.failure(&b.Error)
		case 7:
			if r.typ == protowire.BytesType {
				if b.Usage == nil {
					b.Usage = new(conversation.Usage)
				}
				r.usage(b.Usage)
			}
		case 8:
			moment(r, &b.NotBefore)
		case 9:
			boolean(r, &b.WrapUp)
		}
	}
	return b
}

func (w *writer) stepFinished(b conversation.StepFinished) {
	w.uint(1, uint64(b.Step))
	w.int(2, int64(b.Attempt))
	w.uint(3, uint64(b.Outcome))
	appendEnums(w, 4, b.Decisions)
	w.text(5, b.Model)
	if b.Usage != (conversation.Usage{}) {
		w.usage(6, b.Usage)
	}
	w.duration(7, b.Took)
	w.failure(8, b.Error)
	w.text(9, b.ResponseID)
	w.items(10, b.Items)
	w.results(11, b.Results)
	w.uint(12, uint64(b.Stop))
}

func (r *reader) stepFinished(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.StepFinished)
	for r.next() {
		switch r.number {
		case 1:
			unsigned(r, &b.Step)
		case 2:
			integer(r, &b.Attempt)
		case 3:
			enum(r, &b.Outcome, conversation.StepUnknown)
		case 4:
			enumList(r, &b.Decisions, conversation.DecisionTool)
		case 5:
			text(r, &b.Model)
		case 6:
			r.usage(&b.Usage)
		case 7:
			duration(r, &b.Took)
		case 8:
			r.failure(&b.Error)
		case 9:
			text(r, &b.ResponseID)
		case 10:
			r.items(&b.Items)
		case 11:
			r.results(&b.Results)
		case 12:
			enum(r, &b.Stop, conversation.StopRefused)
		}
	}
	return b
}

func (w *writer) coverageNudge(b conversation.CoverageNudge) {
	appendTexts(w, 1, b.Messages)
	w.int(2, int64(b.Nudge))
	appendTexts(w, 3, b.Questions)
	w.uint(4, uint64(b.Form))
}

func (r *reader) coverageNudge(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.CoverageNudge)
	for r.next() {
		switch r.number {
		case 1:
			textList(r, &b.Messages)
		case 2:
			integer(r, &b.Nudge)
		case 3:
			textList(r, &b.Questions)
		case 4:
			enum(r, &b.Form, conversation.NudgeQuestion)
		}
	}
	return b
}

func (w *writer) contextCompacted(b conversation.ContextCompacted) {
	w.uint(1, uint64(b.Upto))
	w.int(2, int64(b.TokensBefore))
	w.int(3, int64(b.TokensAfter))
	w.text(4, b.Summary)
}

func (r *reader) contextCompacted(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.ContextCompacted)
	for r.next() {
		switch r.number {
		case 1:
			unsigned(r, &b.Upto)
		case 2:
			integer(r, &b.TokensBefore)
		case 3:
			integer(r, &b.TokensAfter)
		case 4:
			text(r, &b.Summary)
		}
	}
	return b
}
