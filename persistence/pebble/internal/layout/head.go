package layout

import (
	"encoding/binary"
	"errors"
	"fmt"

	"parley/conversation"
	"parley/conversation/wire"
)

// Head is the stored state of the end of a session's log.
type Head struct {
	Row      wire.HeadRow
	Activity int64  // milliseconds: where table 03 has the session; only if listed
	Latest   int64  // milliseconds: its newest activity, less than ActivityLag behind; not stored, see Moves
	Listed   bool   // it is in table 03
	Summary  []byte // encoded; nil = never committed
}

// ActivityLag is how far behind its newest activity a session may stand in table 03,
// in milliseconds: less than this. A session that works would else be moved with each
// commit, which was four of the sixteen keys that a turn wrote. Lists look
// that much further and sort what they read by the heads. A smaller lag is a change
// of the layout: lists would overlook entries of before.
const ActivityLag = 1000

// Moves notes an activity, and says whether the session has to move in table 03: the
// newest activity is the later one of its place there and of its summary's. So it
// also moves when a summary is older than the one before, which forgets that one's.
func (h *Head) Moves(activity int64) bool {
	was := h.Latest
	if !h.Listed {
		was = activity
	}
	h.Latest = max(was, activity)
	return !h.Listed || h.Latest-h.Activity >= ActivityLag || activity < h.Latest && h.Activity < h.Latest
}

// headFormat is the first byte of a head's value.
const headFormat = 0x01

// ErrHead says that a head's value is damaged.
var ErrHead = errors.New("the head of the session cannot be read")

// AppendHead encodes h: format, listed activity (empty or 8 bytes), head row,
// summary; each but the first with its length in front.
func AppendHead(b []byte, h *Head, row []byte) []byte {
	b = append(b, headFormat)
	if h.Listed {
		b = append(b, 8)
		b = AppendU64(b, Ordered(h.Activity))
	} else {
		b = append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(row)))
	b = append(b, row...)
	return append(b, h.Summary...)
}

// DecodeHead reads a head's value; it keeps nothing of b.
func DecodeHead(b []byte) (*Head, error) {
	if len(b) < 2 {
		return nil, ErrHead
	}
	if b[0] != headFormat {
		return nil, fmt.Errorf("head: %w: format %#02x", conversation.ErrTooNew, b[0])
	}
	h := &Head{}
	switch {
	case b[1] == 0:
		b = b[2:]
	case b[1] == 8 && len(b) >= 10:
		h.Listed, h.Activity = true, Unordered(binary.BigEndian.Uint64(b[2:]))
		b = b[10:]
	default:
		return nil, ErrHead
	}
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, ErrHead
	}
	var err error
	if h.Row, err = wire.DecodeHead(b[w : w+int(n)]); err != nil {
		return nil, err
	}
	h.Latest = h.Activity
	if rest := b[w+int(n):]; len(rest) > 0 {
		h.Summary = append([]byte(nil), rest...)
		h.Latest = max(h.Activity, wire.SummaryActivity(rest))
	}
	return h, nil
}
