package layout

import (
	"encoding/binary"
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/search"
)

// SaidPrefix is the common prefix of what can be found of a session.
func SaidPrefix(b []byte, key conversation.SessionKey) []byte {
	return append(SessionPrefix(b, key), KindSaid)
}

// KeySaid is the key of what can be found at a place.
func KeySaid(b []byte, key conversation.SessionKey, at search.Place) []byte {
	return AppendU64(AppendU64(SaidPrefix(b, key), ^Ordered(at.At)), ^uint64(at.Seq))
}

// KeySaidTo is the key of the seq up to which a log is in KindSaid.
func KeySaidTo(b []byte, key conversation.SessionKey) []byte {
	return append(SessionPrefix(b, key), KindSaidTo)
}

// AppendSaid encodes what can be found: the seq of its text, its message, the folded text.
func AppendSaid(b []byte, s search.Said) []byte {
	b = binary.AppendUvarint(b, uint64(s.Text))
	b = binary.AppendUvarint(b, uint64(len(s.Message)))
	return append(append(b, s.Message...), s.Folded...)
}

// CutSaid reads what stands behind the session in a key of KindSaid, its kind first, and the
// value; it keeps nothing of v.
func CutSaid(rest, v []byte) (s search.Said, err error) {
	bad := fmt.Errorf("%w: what can be found of a session cannot be read", conversation.ErrDamaged)
	if len(rest) != 17 || rest[0] != KindSaid {
		return s, bad
	}
	s.At = time.UnixMilli(Unordered(^binary.BigEndian.Uint64(rest[1:]))).UTC()
	s.Seq = conversation.Seq(^binary.BigEndian.Uint64(rest[9:]))
	text, n := binary.Uvarint(v)
	if n <= 0 {
		return s, bad
	}
	size, m := binary.Uvarint(v[n:])
	if m <= 0 || size > uint64(len(v)-n-m) {
		return s, bad
	}
	all := string(v[n+m:])
	s.Text, s.Message, s.Folded = conversation.Seq(text), conversation.MessageID(all[:size]), all[size:]
	return s, nil
}
