package move

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/conversation/listing"
)

// The kinds of frames.
const (
	kindErased   = 't'
	kindSession  = 's'
	kindSnapshot = 'p'
	kindTask     = 'k'
	kindCursor   = 'c'
	kindFile     = 'b'
	kindPiece    = 'd'
	kindRecord   = 'r'
	kindEnd      = 'e'
	kindChatRow  = 'w'
	kindFeed     = 'f'
	kindEntry    = 'n'
	kindFileEnd  = 'z'
)

// format is the version of the file.
const format = 1

// longest is the most bytes that a frame may have: a length beyond it is damage, not memory.
const longest = 1 << 30

// Opening is the first line of a file.
type Opening struct {
	Type    string             `json:"type"` // opener
	Version int                `json:"version"`
	Log     conversation.LogID `json:"log"`
	Program string             `json:"program"`
	Time    time.Time          `json:"time"`
}

const opener = "parley-move"

type erasedFrame struct {
	Tenant  conversation.TenantID  `json:"tenant"`
	Session conversation.SessionID `json:"session"`
	Epoch   conversation.Epoch     `json:"epoch"`
	Erased  time.Time              `json:"erased,omitzero"`
}

type sessionFrame struct {
	Tenant     conversation.TenantID  `json:"tenant"`
	Session    conversation.SessionID `json:"session"`
	Last       conversation.Seq       `json:"last"`
	Commit     []byte                 `json:"commit"`
	Summary    []byte                 `json:"summary"`
	Wake       time.Time              `json:"wake,omitzero"`
	Claim      []byte                 `json:"claim,omitempty"`
	SnapshotAt conversation.Seq       `json:"snapshot_at,omitempty"`
}

type cursorFrame struct {
	User  conversation.UserID `json:"user"`
	Seq   conversation.Seq    `json:"seq"`
	Marks listing.Marks       `json:"marks,omitempty"`
}

type chatRowFrame struct {
	Tenant   conversation.TenantID  `json:"tenant"`
	Channel  chats.Channel          `json:"channel"`
	Chat     chats.Chat             `json:"chat"`
	Revision chats.Revision         `json:"revision"`
	Session  conversation.SessionID `json:"session,omitempty"`
	Value    []byte                 `json:"value"`
}

type entryFrame struct {
	Number  chats.Number           `json:"number"`
	At      int64                  `json:"at"` // milliseconds
	Session conversation.SessionID `json:"session,omitempty"`
	Value   []byte                 `json:"value"`
}

type endFrame struct {
	Records int    `json:"records"`
	Tasks   int    `json:"tasks"`
	Cursors int    `json:"cursors"`
	Files   int    `json:"files,omitempty"`
	Sum     string `json:"sha256"`
}

type fileEndFrame struct {
	Totals
	Sum string `json:"sha256"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sums are the running sums of a file and of the session in it.
type sums struct{ file, session hash.Hash }

func newSums() sums { return sums{sha256.New(), sha256.New()} }

func (s sums) add(kind byte, b []byte) {
	_, _ = s.file.Write(b)
	if kind == kindSession {
		s.session.Reset()
	}
	_, _ = s.session.Write(b)
}

func sumOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// fileWriter writes frames.
type fileWriter struct {
	to   *bufio.Writer
	sums sums
	buf  []byte
	have *earlier // what an interrupted one has written; nil = nothing, or no more
}

func newFileWriter(to io.Writer, first Opening) (*fileWriter, error) {
	w := &fileWriter{to: bufio.NewWriterSize(to, 1<<18), sums: newSums()}
	line, err := json.Marshal(first)
	if err != nil {
		return nil, err
	}
	line = append(line, '\n')
	_, _ = w.sums.file.Write(line)
	_, err = w.to.Write(line)
	return w, err
}

func (w *fileWriter) frame(kind byte, body []byte) error {
	if len(body) > longest {
		return fmt.Errorf("%d bytes are more than a frame may have", len(body))
	}
	b := binary.BigEndian.AppendUint32(append(w.buf[:0], kind), uint32(len(body))) //nolint:gosec // see longest
	b = append(b, body...)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	w.buf = b
	if cap(b) > 1<<20 {
		w.buf = nil
	}
	if w.have != nil {
		was, ok := w.have.next()
		if ok && !bytes.Equal(was, b) {
			return ErrChanged
		}
		if ok {
			w.sums.add(kind, b)
			return nil
		}
		if err := w.goOn(); err != nil {
			return err
		}
	}
	w.sums.add(kind, b)
	_, err := w.to.Write(b)
	return err
}

func (w *fileWriter) json(kind byte, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.frame(kind, body)
}

// fileReader reads frames and compares their sums.
type fileReader struct {
	from    *bufio.Reader
	sums    sums
	opening Opening
	file    string // the sum of the file before its last frame
	session string // the sum of the session before its last frame
}

func newFileReader(from io.Reader) (*fileReader, error) {
	r := &fileReader{from: bufio.NewReaderSize(from, 1<<18), sums: newSums()}
	line, err := r.from.ReadSlice('\n')
	if err != nil || json.Unmarshal(line, &r.opening) != nil || r.opening.Type != opener {
		return nil, errors.New("this is not a file of \"parley move out\" (what \"parley export\" writes is for people, and is not read back)")
	}
	if r.opening.Version > format {
		return nil, ErrNewer
	}
	_, _ = r.sums.file.Write(line)
	return r, nil
}

// next reads a frame. Its body is the caller's.
func (r *fileReader) next() (kind byte, body []byte, err error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(r.from, head); err != nil {
		return 0, nil, cut(err)
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length > longest {
		return 0, nil, ErrDamaged
	}
	var all bytes.Buffer // grows with what is there, not with what a damaged length says
	all.Write(head)
	if _, err := io.CopyN(&all, r.from, int64(length)+4); err != nil {
		return 0, nil, cut(err)
	}
	b := all.Bytes()
	end := len(b) - 4
	if crc32.Checksum(b[:end], castagnoli) != binary.BigEndian.Uint32(b[end:]) {
		return 0, nil, ErrDamaged
	}
	switch b[0] {
	case kindEnd:
		r.session = sumOf(r.sums.session)
	case kindFileEnd:
		r.file = sumOf(r.sums.file)
	}
	r.sums.add(b[0], b)
	return b[0], b[5:end], nil
}

// ended says whether nothing follows the last frame.
func (r *fileReader) ended() bool {
	_, err := r.from.Peek(1)
	return errors.Is(err, io.EOF)
}

func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrCut
	}
	return err
}

// read reads the JSON of a frame.
func read[T any](body []byte) (v T, err error) {
	if err := json.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return v, nil
}
