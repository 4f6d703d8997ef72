package wire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"parley/conversation"
)

// A body's field number is its kind's and this.
const bodies = 10

// firstBody is the lowest field number of an event's body.
const firstBody = bodies + protowire.Number(conversation.KindSessionCreated)

func (w *writer) event(field protowire.Number, e *conversation.Event) {
	at := w.begin(field)
	w.uint(1, uint64(e.Seq))
	w.time(2, e.At)
	w.text(3, string(e.Task))
	body := w.begin(bodies + protowire.Number(e.Body.Kind()))
	w.body(e.Body)
	w.end(body)
	w.end(at)
}

// event reads an event. Its Seq is right also when there is an error.
func (r *reader) event() (conversation.Event, error) {
	var (
		e       conversation.Event
		newer   protowire.Number // the first body that this program does not know
		refused []refusal        // of e.Body
	)
	for r.next() {
		switch r.number {
		case 1:
			unsigned(r, &e.Seq)
		case 2:
			moment(r, &e.At)
		case 3:
			text(r, &e.Task)
		default:
			if r.number < firstBody {
				continue
			}
			kind := conversation.EventKind(0)
			in, ok := r.message()
			if ok && r.number <= bodies+lastKind {
				kind = conversation.EventKind(r.number - bodies)
			}
			// Of several bodies the last counts; two of the same kind are merged.
			if e.Body != nil && e.Body.Kind() == kind {
				in.refused = refused
			}
			body := in.body(kind, e.Body)
			switch {
			case body != nil:
				e.Body, refused = body, in.refused
			case newer == 0:
				newer = r.number
			}
		}
	}
	switch {
	case newer != 0:
		return e, fmt.Errorf("%w: event kind %d", conversation.ErrTooNew, newer-bodies)
	case e.Body == nil:
		return e, fmt.Errorf("%w: the event has no body", ErrCorrupt)
	}
	body := reader{damage: r.damage, refused: refused}
	if err := body.end(); err != nil {
		return e, fmt.Errorf("%s: %w", e.Body.Kind(), err)
	}
	return e, nil
}

// lastKind is the last kind of event that this program knows.
const lastKind = protowire.Number(conversation.KindContextCleared)

// body panics on a body that is none of the vocabulary's: a test holds the
// switch against conversation.EventKinds.
func (w *writer) body(body conversation.EventBody) {
	switch b := body.(type) {
	case conversation.SessionCreated:
		w.sessionCreated(b)
	case conversation.SessionUpdated:
		w.sessionUpdated(b)
	case conversation.SessionClosed:
		w.sessionClosed(b)
	case conversation.MessageAccepted:
		w.messageAccepted(b)
	case conversation.MessageEdited:
		w.messageEdited(b)
	case conversation.MessageWithdrawn:
		w.messageWithdrawn(b)
	case conversation.MessageMoved:
		w.messageMoved(b)
	case conversation.MessageResolved:
		w.messageResolved(b)
	case conversation.TaskStatusChanged:
		w.taskStatusChanged(b)
	case conversation.TaskCancelling:
		w.taskCancelling(b)
	case conversation.StepStarted:
		w.stepStarted(b)
	case conversation.StepFinished:
		w.stepFinished(b)
	case conversation.PartialResponse:
		w.partialResponse(b)
	case conversation.Response:
		w.response(b)
	case conversation.Asked:
		w.asked(b)
	case conversation.QuestionAnswered:
		w.questionAnswered(b)
	case conversation.QuestionClosed:
		w.questionClosed(b)
	case conversation.ToolStarted:
		w.toolStarted(b)
	case conversation.ToolFinished:
		w.toolFinished(b)
	case conversation.DelegationStarted:
		w.delegationStarted(b)
	case conversation.DelegationFinished:
		w.delegationFinished(b)
	case conversation.CoverageNudge:
		w.coverageNudge(b)
	case conversation.ContextCompacted:
		w.contextCompacted(b)
	case conversation.RuntimeStatus:
		w.runtimeStatus(b)
	case conversation.ContextCleared:
		w.contextCleared(b)
	default:
		panic(fmt.Sprintf("wire: there is no encoding for an event body of type %T", body))
	}
}

// body reads a body of a kind; nil if the kind is unknown. Fields that are not
// there keep their value of earlier, which is the event's body so far, if that
// is of the same kind.
func (r *reader) body(kind conversation.EventKind, earlier conversation.EventBody) conversation.EventBody {
	switch kind {
	case conversation.KindSessionCreated:
		return r.sessionCreated(earlier)
	case conversation.KindSessionUpdated:
		return r.sessionUpdated(earlier)
	case conversation.KindSessionClosed:
		return r.sessionClosed(earlier)
	case conversation.KindMessageAccepted:
		return r.messageAccepted(earlier)
	case conversation.KindMessageEdited:
		return r.messageEdited(earlier)
	case conversation.KindMessageWithdrawn:
		return r.messageWithdrawn(earlier)
	case conversation.KindMessageMoved:
		return r.messageMoved(earlier)
	case conversation.KindMessageResolved:
		return r.messageResolved(earlier)
	case conversation.KindTaskStatus:
		return r.taskStatusChanged(earlier)
	case conversation.KindTaskCancelling:
		return r.taskCancelling(earlier)
	case conversation.KindStepStarted:
		return r.stepStarted(earlier)
	case conversation.KindStepFinished:
		return r.stepFinished(earlier)
	case conversation.KindPartialResponse:
		return r.partialResponse(earlier)
	case conversation.KindResponse:
		return r.response(earlier)
	case conversation.KindQuestion:
		return r.asked(earlier)
	case conversation.KindQuestionAnswered:
		return r.questionAnswered(earlier)
	case conversation.KindQuestionClosed:
		return r.questionClosed(earlier)
	case conversation.KindToolStarted:
		return r.toolStarted(earlier)
	case conversation.KindToolFinished:
		return r.toolFinished(earlier)
	case conversation.KindDelegationStarted:
		return r.delegationStarted(earlier)
	case conversation.KindDelegationFinished:
		return r.delegationFinished(earlier)
	case conversation.KindCoverageNudge:
		return r.coverageNudge(earlier)
	case conversation.KindContextCompacted:
		return r.contextCompacted(earlier)
	case conversation.KindRuntimeStatus:
		return r.runtimeStatus(earlier)
	case conversation.KindContextCleared:
		return r.contextCleared(earlier)
	}
	return nil
}
