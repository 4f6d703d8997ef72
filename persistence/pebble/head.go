package pebble

import (
	"encoding/binary"
	"errors"
	"fmt"

	"parley/conversation"
	"parley/conversation/wire"
)

// head is the stored state of the end of a session's log.
type head struct {
	row      wire.HeadRow
	activity int64  // milliseconds: where table 03 has the session; only if listed
	listed   bool   // it is in table 03
	summary  []byte // encoded; nil = never committed
}

// headFormat is the first byte of a head's value.
const headFormat = 0x01

var errHead = errors.New("the head of the session cannot be read")

// appendHead encodes h: format, listed activity (empty or 8 bytes), head row,
// summary; each but the first with its length in front.
func appendHead(b []byte, h *head, row []byte) []byte {
	b = append(b, headFormat)
	if h.listed {
		b = append(b, 8)
		b = appendU64(b, ordered(h.activity))
	} else {
		b = append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(row)))
	b = append(b, row...)
	return append(b, h.summary...)
}

// decodeHead reads a head's value; it keeps nothing of b.
func decodeHead(b []byte) (*head, error) {
	if len(b) < 2 {
		return nil, errHead
	}
	if b[0] != headFormat {
		return nil, fmt.Errorf("head: %w: format %#02x", conversation.ErrTooNew, b[0])
	}
	h := &head{}
	switch {
	case b[1] == 0:
		b = b[2:]
	case b[1] == 8 && len(b) >= 10:
		h.listed, h.activity = true, unordered(binary.BigEndian.Uint64(b[2:]))
		b = b[10:]
	default:
		return nil, errHead
	}
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, errHead
	}
	var err error
	if h.row, err = wire.DecodeHead(b[w : w+int(n)]); err != nil {
		return nil, err
	}
	if rest := b[w+int(n):]; len(rest) > 0 {
		h.summary = append([]byte(nil), rest...)
	}
	return h, nil
}
