package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"parley/conversation"
)

// The parts that a session shows.

func (w *writer) partialResponse(b conversation.PartialResponse) {
	w.part(1, b.Part)
}

func (r *reader) partialResponse(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.PartialResponse)
	for r.next() {
		switch r.number {
		case 1:
			r.part(&b.Part)
		}
	}
	return b
}

func (w *writer) response(b conversation.Response) {
	w.part(1, b.Part)
	w.uint(2, uint64(b.ResponseKind))
	w.bool(3, b.Promoted)
}

func (r *reader) response(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.Response)
	for r.next() {
		switch r.number {
		case 1:
			r.part(&b.Part)
		case 2:
			enum(r, &b.ResponseKind, conversation.ResponseEmpty)
		case 3:
			boolean(r, &b.Promoted)
		}
	}
	return b
}

func (w *writer) part(field protowire.Number, p conversation.Part) {
	at := w.begin(field)
	w.text(1, string(p.Message))
	w.text(2, string(p.Source))
	w.uint(3, uint64(p.Index))
	w.text(4, p.Text)
	w.text(5, string(p.InReplyTo))
	w.text(6, string(p.Draft))
	w.text(7, string(p.Author))
	w.text(8, string(p.ClientMsgID))
	w.bool(9, p.Guessed)
	w.bool(10, p.Cut)
	w.end(at)
}

func (r *reader) part(into *conversation.Part) {
	in, _ := r.message()
	for in.next() {
		switch in.number {
		case 1:
			text(&in, &into.Message)
		case 2:
			text(&in, &into.Source)
		case 3:
			unsigned(&in, &into.Index)
		case 4:
			text(&in, &into.Text)
		case 5:
			text(&in, &into.InReplyTo)
		case 6:
			text(&in, &into.Draft)
		case 7:
			text(&in, &into.Author)
		case 8:
			text(&in, &into.ClientMsgID)
		case 9:
			boolean(&in, &into.Guessed)
		case 10:
			boolean(&in, &into.Cut)
		}
	}
}
