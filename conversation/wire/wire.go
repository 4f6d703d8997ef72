// Package wire is the one encoding of events and rows, for disk and cluster:
// protobuf behind a format byte. The messages are described in events.proto and
// store.proto, with the rules for changing them.
//
// Append functions add to a slice and return it, as append does; the same value
// always gives the same bytes. Decode functions keep nothing of the bytes that
// they are given, so these may be a buffer of the store's that changes later.
// They never panic: what they cannot read is ErrCorrupt, or conversation.ErrTooNew
// when a newer program wrote it.
//
// What comes back is what was put in, with these limits: times and durations have
// milliseconds and times are UTC, a time at exactly 1970-01-01T00:00:00Z is no
// time, an empty slice or map comes back nil, and text that is not UTF-8 comes
// back with U+FFFD in the place of each byte that is not.
package wire

//go:generate sh generate.sh

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"parley/conversation"
	"parley/conversation/wire/internal/pb"
)

// format is the first byte of every encoded value. A value that older programs
// must not read in the old way gets another one.
const format = 0x01

// ErrCorrupt is wrapped by every Decode error that is not conversation.ErrTooNew:
// the bytes are damaged, or are not what they are taken for.
var ErrCorrupt = errors.New("the stored bytes cannot be read")

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
	var in pb.Record
	if err := decodeMessage(b, &in); err != nil {
		return conversation.Record{}, fmt.Errorf("record: %w", err)
	}
	if len(in.Events) == 0 {
		return conversation.Record{}, fmt.Errorf("record: %w: it holds no events", ErrCorrupt)
	}
	out := conversation.Record{ID: conversation.CommitID(in.Id), Events: make([]conversation.Event, len(in.Events))}
	for i, p := range in.Events {
		e, err := readEvent(p)
		if err != nil {
			return conversation.Record{}, fmt.Errorf("event %d: %w", p.Seq, err)
		}
		out.Events[i] = e
	}
	return out, nil
}

func decodeMessage(b []byte, m proto.Message) error {
	if len(b) == 0 {
		return fmt.Errorf("%w: it is empty", ErrCorrupt)
	}
	if b[0] != format {
		return fmt.Errorf("%w: format %#02x", conversation.ErrTooNew, b[0])
	}
	if err := proto.Unmarshal(b[1:], m); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}

// firstBody is the lowest field number of an event's body.
const firstBody = 10 + protowire.Number(conversation.KindSessionCreated)

// unknownBody is the number of a body that this program does not know, or 0.
func unknownBody(e *pb.Event) protowire.Number {
	for b := e.ProtoReflect().GetUnknown(); len(b) > 0; {
		number, _, n := protowire.ConsumeField(b)
		if n < 0 {
			return 0
		}
		if number >= firstBody {
			return number
		}
		b = b[n:]
	}
	return 0
}
