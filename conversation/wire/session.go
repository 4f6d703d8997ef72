package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"parley/conversation"
)

// The session itself.

func (w *writer) sessionCreated(b conversation.SessionCreated) {
	w.text(1, b.Title)
	w.text(2, string(b.Agent))
	w.text(3, string(b.Owner))
	w.uint(4, uint64(b.Access))
	w.overrides(5, b.Policy)
	appendTexts(w, 6, b.Lifted)
}

func (r *reader) sessionCreated(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.SessionCreated)
	for r.next() {
		switch r.number {
		case 1:
			text(r, &b.Title)
		case 2:
			text(r, &b.Agent)
		case 3:
			text(r, &b.Owner)
		case 4:
			enum(r, &b.Access, conversation.AccessTenant)
		case 5:
			r.overrides(&b.Policy)
		case 6:
			textList(r, &b.Lifted)
		}
	}
	return b
}

func (w *writer) sessionUpdated(b conversation.SessionUpdated) {
	if b.Title != nil {
		w.optionalText(1, *b.Title)
	}
	if b.Access != nil {
		w.optionalUint(2, uint64(*b.Access))
	}
	w.overrides(3, b.Policy)
	w.members(4, b.Members)
	appendTexts(w, 5, b.Lifted)
	w.text(6, string(b.Agent))
}

func (r *reader) sessionUpdated(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.SessionUpdated)
	for r.next() {
		switch r.number {
		case 1:
			optionalText(r, &b.Title)
		case 2:
			if r.typ == protowire.VarintType {
				b.Access = new(conversation.Access)
				enum(r, b.Access, conversation.AccessTenant)
			}
		case 3:
			r.overrides(&b.Policy)
		case 4:
			r.members(&b.Members)
		case 5:
			textList(r, &b.Lifted)
		case 6:
			text(r, &b.Agent)
		}
	}
	return b
}

func (w *writer) sessionClosed(b conversation.SessionClosed) {
	w.text(1, b.Reason)
}

func (r *reader) sessionClosed(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.SessionClosed)
	for r.next() {
		switch r.number {
		case 1:
			text(r, &b.Reason)
		}
	}
	return b
}

func (w *writer) contextCleared(b conversation.ContextCleared) {
	w.text(1, string(b.By))
}

func (r *reader) contextCleared(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.ContextCleared)
	for r.next() {
		switch r.number {
		case 1:
			text(r, &b.By)
		}
	}
	return b
}
