package move

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
)

// earlier reads the frames of a file that is gone on with.
type earlier struct {
	r    *bufio.Reader
	file Begun
	at   int64  // behind the last frame that was taken
	back []byte // the next frame, if it was read already
	over bool   // there is no whole frame any more
}

// peek reads the next frame; nil = there is no whole one. What is damaged was not wholly on
// the disk when the power failed, and neither was anything behind it.
func (h *earlier) peek() []byte {
	if h.back != nil || h.over {
		return h.back
	}
	h.over = true
	head, err := h.r.Peek(5)
	if err != nil {
		return nil
	}
	length := int64(binary.BigEndian.Uint32(head[1:]))
	if length > longest {
		return nil
	}
	var all bytes.Buffer // grows with what is there, not with what a damaged length says
	if _, err := io.CopyN(&all, h.r, length+9); err != nil {
		return nil
	}
	b := all.Bytes()
	end := len(b) - 4
	if crc32.Checksum(b[:end], castagnoli) != binary.BigEndian.Uint32(b[end:]) {
		return nil
	}
	h.back, h.over = b, false
	return b
}

func (h *earlier) next() ([]byte, bool) {
	b := h.peek()
	h.back = nil
	h.at += int64(len(b))
	return b, b != nil
}

// goOn cuts the file behind its last whole frame and writes on from there.
func (w *fileWriter) goOn() error {
	h := w.have
	w.have = nil
	if err := h.file.Truncate(h.at); err != nil {
		return err
	}
	_, err := h.file.Seek(h.at, io.SeekStart)
	return err
}

// taken takes the frames of a kind that are there already, one by one, and gives their
// bodies to see.
func (w *fileWriter) taken(kind byte, see func(body []byte) error) error {
	for w.have != nil {
		b := w.have.peek()
		if b == nil {
			return w.goOn()
		}
		if b[0] != kind {
			return nil
		}
		if err := see(b[5 : len(b)-4]); err != nil {
			return err
		}
		w.have.next()
		w.sums.add(kind, b)
	}
	return nil
}
