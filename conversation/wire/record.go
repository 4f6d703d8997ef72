package wire

import (
	"fmt"

	"parley/conversation"
)

// AppendRecord adds the encoding of r to dst.
func AppendRecord(dst []byte, r conversation.Record) []byte {
	w := newWriter(dst)
	w.text(1, string(r.ID))
	for i := range r.Events {
		w.event(2, &r.Events[i])
	}
	return w.b
}

// DecodeRecord reads what AppendRecord wrote. Errors wrap conversation.ErrTooNew
// or ErrCorrupt. A record without events is corrupt: there are none.
func DecodeRecord(b []byte) (conversation.Record, error) {
	var (
		out     conversation.Record
		damage  error // of the encoding itself, anywhere: then nothing else counts
		refused error // the first event that cannot be taken
	)
	r := newReader(b, &damage)
	for r.next() {
		switch r.number {
		case 1:
			text(&r, &out.ID)
		case 2:
			in, ok := r.message()
			if !ok {
				continue
			}
			e, err := in.event()
			switch {
			case refused != nil: // the rest is read for damage only
			case err != nil:
				refused = fmt.Errorf("event %d: %w", e.Seq, err)
			default:
				out.Events = append(out.Events, e)
			}
		}
	}
	switch err := r.end(); {
	case err != nil:
		return conversation.Record{}, fmt.Errorf("record: %w", err)
	case refused != nil:
		return conversation.Record{}, refused
	case len(out.Events) == 0:
		return conversation.Record{}, fmt.Errorf("record: %w: it holds no events", ErrCorrupt)
	}
	return out, nil
}
