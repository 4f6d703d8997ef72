package move

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
)

// Begun is a file that can be gone on with, as *os.File.
type Begun interface {
	io.ReadWriteSeeker
	Truncate(size int64) error
}

// OutAgain is Out into a file that an interrupted Out, or OutAgain, may have begun. What is
// there is compared with the installation and not written again: of sessions all but their
// records and attachments, which their last commit and hashes stand for. Behind the last
// whole frame it goes on. The file is the same as that of an Out that nobody interrupts, but
// for the time in its first line. ErrChanged says that the installation is another one, or
// was written to since, or that another version of the program has begun the file; then
// nothing was changed, and an empty file is to be begun.
func OutAgain(ctx context.Context, from Installation, to Begun, program string, progress func(Totals)) (Totals, error) {
	have := &earlier{r: bufio.NewReaderSize(to, 1<<18), file: to}
	w := &fileWriter{to: bufio.NewWriterSize(to, 1<<18), sums: newSums(), have: have}
	opening := openingOf(from, program)
	line, err := have.r.ReadBytes('\n')
	if err != nil { // not even that
		if err := w.goOn(); err != nil {
			return Totals{}, err
		}
		if w, err = newFileWriter(to, opening); err != nil {
			return Totals{}, err
		}
		return out{w: w, from: from, progress: progress}.all(ctx)
	}
	var was Opening
	if json.Unmarshal(line, &was) != nil {
		return Totals{}, ErrChanged
	}
	was.Time = opening.Time
	if was != opening {
		return Totals{}, ErrChanged
	}
	have.at = int64(len(line))
	_, _ = w.sums.file.Write(line)
	return out{w: w, from: from, progress: progress}.all(ctx)
}

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
