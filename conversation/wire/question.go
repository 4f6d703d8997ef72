package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"parley/conversation"
)

// Questions and what became of them.

func (w *writer) asked(b conversation.Asked) {
	w.text(1, string(b.Question))
	w.text(2, b.Text)
	w.bool(3, b.Blocking)
	appendTexts(w, 4, b.Choices)
	w.time(5, b.ExpiresAt)
	if b.Default != nil {
		w.optionalText(6, *b.Default)
	}
	w.text(7, string(b.Delegation))
	w.approval(8, b.Approval)
	w.text(9, b.ModelCall)
	w.text(10, string(b.About))
	w.text(11, string(b.Call))
}

func (r *reader) asked(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.Asked)
	for r.next() {
		switch r.number {
		case 1:
			text(r, &b.Question)
		case 2:
			text(r, &b.Text)
		case 3:
			boolean(r, &b.Blocking)
		case 4:
			textList(r, &b.Choices)
		case 5:
			moment(r, &b.ExpiresAt)
		case 6:
			optionalText(r, &b.Default)
		case 7:
			text(r, &b.Delegation)
		case 8:
			r.approval(&b.Approval)
		case 9:
			text(r, &b.ModelCall)
		case 10:
			text(r, &b.About)
		case 11:
			text(r, &b.Call)
		}
	}
	return b
}

func (w *writer) questionAnswered(b conversation.QuestionAnswered) {
	w.text(1, string(b.Question))
	w.text(2, string(b.Message))
	w.text(3, b.Text)
	w.text(4, b.By)
}

func (r *reader) questionAnswered(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.QuestionAnswered)
	for r.next() {
		switch r.number {
		case 1:
			text(r, &b.Question)
		case 2:
			text(r, &b.Message)
		case 3:
			text(r, &b.Text)
		case 4:
			text(r, &b.By)
		}
	}
	return b
}

func (w *writer) questionClosed(b conversation.QuestionClosed) {
	w.text(1, string(b.Question))
	w.uint(2, uint64(b.Reason))
}

func (r *reader) questionClosed(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.QuestionClosed)
	for r.next() {
		switch r.number {
		case 1:
			text(r, &b.Question)
		case 2:
			enum(r, &b.Reason, conversation.QuestionCancelled)
		}
	}
	return b
}

func (w *writer) approval(field protowire.Number, p *conversation.Approval) {
	if p == nil {
		return
	}
	at := w.begin(field)
	w.text(1, string(p.Call))
	w.text(2, p.Tool)
	w.text(3, p.Args)
	w.end(at)
}

func (r *reader) approval(into **conversation.Approval) {
	in, ok := r.message()
	if !ok {
		return
	}
	if *into == nil {
		*into = new(conversation.Approval)
	}
	for in.next() {
		switch in.number {
		case 1:
			text(&in, &(*into).Call)
		case 2:
			text(&in, &(*into).Tool)
		case 3:
			text(&in, &(*into).Args)
		}
	}
}
