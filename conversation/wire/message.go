package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"parley/conversation"
)

// The users' messages.

func (w *writer) messageAccepted(b conversation.MessageAccepted) {
	w.text(1, string(b.Message))
	w.text(2, string(b.ClientMsgID))
	w.text(3, string(b.Author))
	w.text(4, b.Text)
	w.uint(5, uint64(b.Disposition))
	w.uint(6, uint64(b.Via))
	w.uint(7, uint64(b.Mode))
	w.text(8, string(b.InReplyTo))
	w.text(9, string(b.Question))
	w.time(10, b.NotBefore)
	w.bool(11, b.Steer)
	w.bool(12, b.Preempts)
	w.bool(13, b.Deferred)
	w.text(14, b.AuthorName)
	w.files(15, b.Files)
}

func (r *reader) messageAccepted(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.MessageAccepted)
	for r.next() {
		switch r.number {
		case 1:
			text(r, &b.Message)
		case 2:
			text(r, &b.ClientMsgID)
		case 3:
			text(r, &b.Author)
		case 4:
			text(r, &b.Text)
		case 5:
			enum(r, &b.Disposition, conversation.Answered)
		case 6:
			enum(r, &b.Via, conversation.ViaA2A)
		case 7:
			enum(r, &b.Mode, conversation.ModeReject)
		case 8:
			text(r, &b.InReplyTo)
		case 9:
			text(r, &b.Question)
		case 10:
			moment(r, &b.NotBefore)
		case 11:
			boolean(r, &b.Steer)
		case 12:
			boolean(r, &b.Preempts)
		case 13:
			boolean(r, &b.Deferred)
		case 14:
			text(r, &b.AuthorName)
		case 15:
			r.files(&b.Files)
		}
	}
	return b
}

func (w *writer) messageEdited(b conversation.MessageEdited) {
	w.text(1, string(b.Message))
	w.text(2, b.Text)
}

func (r *reader) messageEdited(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.MessageEdited)
	for r.next() {
		switch r.number {
		case 1:
			text(r, &b.Message)
		case 2:
			text(r, &b.Text)
		}
	}
	return b
}

func (w *writer) messageWithdrawn(b conversation.MessageWithdrawn) {
	w.text(1, string(b.Message))
	w.text(2, string(b.NewTrigger))
}

func (r *reader) messageWithdrawn(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.MessageWithdrawn)
	for r.next() {
		switch r.number {
		case 1:
			text(r, &b.Message)
		case 2:
			text(r, &b.NewTrigger)
		}
	}
	return b
}

func (w *writer) messageMoved(b conversation.MessageMoved) {
	w.text(1, string(b.Message))
	w.text(2, string(b.Before))
	w.text(3, b.Report)
}

func (r *reader) messageMoved(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.MessageMoved)
	for r.next() {
		switch r.number {
		case 1:
			text(r, &b.Message)
		case 2:
			text(r, &b.Before)
		case 3:
			text(r, &b.Report)
		}
	}
	return b
}

func (w *writer) messageResolved(b conversation.MessageResolved) {
	w.text(1, string(b.Message))
	w.uint(2, uint64(b.How))
	if b.Part != nil {
		w.optionalUint(3, uint64(*b.Part))
	}
	w.text(4, string(b.Question))
	w.uint(5, uint64(b.Evidence))
}

func (r *reader) messageResolved(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.MessageResolved)
	for r.next() {
		switch r.number {
		case 1:
			text(r, &b.Message)
		case 2:
			enum(r, &b.How, conversation.ResolvedUnanswered)
		case 3:
			if r.typ == protowire.VarintType {
				b.Part = new(conversation.PartIndex)
				unsigned(r, b.Part)
			}
		case 4:
			text(r, &b.Question)
		case 5:
			enum(r, &b.Evidence, conversation.EvidenceJudged)
		}
	}
	return b
}
