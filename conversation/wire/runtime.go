package wire

import "parley/conversation"

// What outside runtimes say of their work.

func (w *writer) runtimeStatus(b conversation.RuntimeStatus) {
	w.text(1, string(b.Message))
	w.uint(2, uint64(b.Status))
	w.uint(3, uint64(b.Generation))
	w.text(4, string(b.Runtime))
	w.time(5, b.Until)
	w.text(6, b.Error)
	w.bool(7, b.Permanent)
	w.time(8, b.NotBefore)
}

func (r *reader) runtimeStatus(earlier conversation.EventBody) conversation.EventBody {
	b, _ := earlier.(conversation.RuntimeStatus)
	for r.next() {
		switch r.number {
		case 1:
			text(r, &b.Message)
		case 2:
			enum(r, &b.Status, conversation.RuntimeFailed)
		case 3:
			unsigned(r, &b.Generation)
		case 4:
			text(r, &b.Runtime)
		case 5:
			moment(r, &b.Until)
		case 6:
			text(r, &b.Error)
		case 7:
			boolean(r, &b.Permanent)
		case 8:
			moment(r, &b.NotBefore)
		}
	}
	return b
}
