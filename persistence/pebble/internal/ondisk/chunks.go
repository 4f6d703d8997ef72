package ondisk

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// Logs and manifests are chunks in blocks of 32 KiB; a record is one chunk or more.
// A chunk is a checksum, a length, a type, in logs the log's number and in newer
// ones how much of the log was synced before, and the payload.
const (
	blockSize = 32 << 10

	plainHeader  = 7
	numberHeader = plainHeader + 4
	syncedHeader = numberHeader + 8

	// TrailerSize is the length of what ends a log that was closed: a header with
	// the number of the next log.
	TrailerSize = numberHeader
)

// Tail is how a log or a manifest ends.
type Tail struct {
	Size   int64 // of the file
	End    int64 // behind the last chunk of the intact beginning
	Closed bool  // a log's writer ended it
	// Broken: what lies at End is not the beginning of a chunk that stops with the
	// file, nor zeros: a process that was killed does not leave it.
	Broken bool
	// Last is behind the last intact chunk in what follows End; 0 = there is none.
	Last int64
	// Begun: a record begins in what follows End, so what lies at End was complete
	// once, where records are written one by one.
	Begun bool
	// Proven: a chunk behind End says that what lies at End had been synced. Pebble
	// refuses such a log.
	Proven bool
}

// Lost is how much of the file cannot be read.
func (t Tail) Lost() int64 { return max(t.Last, t.Size) - t.End }

// reader walks through the chunks of one file.
type reader struct {
	number uint32 // of the log, in its chunks
	log    bool
	buf    [blockSize]byte
	n      int   // of buf
	base   int64 // of buf in the file
}

type chunk struct {
	at, end     int // in the block
	payload     []byte
	first, last bool
}

// crcOf is the checksum of a chunk: that of LevelDB, a masked CRC-32C.
func crcOf(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// parse reads the chunk at a place of the block. torn: it goes on behind the end
// of the file. trailer: the log ends here.
func (r *reader) parse(at int) (c chunk, ok, torn, trailer bool) {
	left := r.n - at
	short := r.n < blockSize
	if left < plainHeader {
		return c, false, short, false
	}
	b := r.buf[at:r.n]
	kind := b[6]
	header := 0
	switch {
	case kind >= 1 && kind <= 4 && !r.log:
		header = plainHeader
	case kind >= 5 && kind <= 8 && r.log:
		header = numberHeader
	case kind >= 9 && kind <= 12 && r.log:
		header = syncedHeader
	default:
		return c, false, false, false
	}
	if left < header {
		return c, false, short, false
	}
	if r.log {
		switch binary.LittleEndian.Uint32(b[7:]) {
		case r.number:
		case r.number + 1:
			return c, false, false, true
		default:
			return c, false, false, false
		}
	}
	size := header + int(binary.LittleEndian.Uint16(b[4:]))
	if size > left {
		return c, false, short, false
	}
	if crcOf(b[6:size]) != binary.LittleEndian.Uint32(b) {
		return c, false, false, false
	}
	position := (kind - 1) % 4 // full, first, middle, last
	return chunk{
		at: at, end: at + size, payload: b[header:size],
		first: position <= 1, last: position == 0 || position == 3,
	}, true, false, false
}

// padding says whether the rest of the block is too small for another chunk.
func (r *reader) padding(at int) bool {
	if r.n-at < plainHeader {
		return r.n == blockSize
	}
	if r.n-at >= syncedHeader {
		return false
	}
	return allZero(r.buf[at:r.n])
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// read loads the next block; ok is false at the end of the file.
func (r *reader) read(f io.Reader) (ok bool, err error) {
	r.base += int64(r.n)
	r.n, err = io.ReadFull(f, r.buf[:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return r.n > 0, err
}

// readChunks walks a file and hands out each whole record of its intact beginning.
func readChunks(fs vfs.FS, path string, number uint64, log bool, take func(record []byte) error) (t Tail, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	stat, err := f.Stat()
	if err != nil {
		return t, err
	}
	t.Size = stat.Size()
	r := &reader{number: uint32(number), log: log}
	var record []byte
	inside := false
	for {
		ok, err := r.read(f)
		if !ok || err != nil {
			return t, err
		}
		for at := 0; at < r.n; {
			c, ok, torn, trailer := r.parse(at)
			switch {
			case ok:
				if c.first && !inside {
					record, inside = record[:0], true
				}
				if inside {
					record = append(record, c.payload...)
				}
				if inside && c.last {
					inside = false
					if err := take(record); err != nil {
						return t, err
					}
				}
				at = c.end
				t.End = r.base + int64(at)
				continue
			case trailer && !inside:
				t.End = r.base + int64(at)
				err := t.readBehind(f, r, at+TrailerSize, true)
				if t.Closed = t.Last == 0; t.Closed { // else a chunk whose number is damaged looks like an end
					t.End, t.Broken = t.End+TrailerSize, false
				}
				return t, err
			case r.padding(at):
				at = r.n
				if r.n == blockSize {
					t.End = r.base + blockSize
				}
				continue
			}
			err := t.readBehind(f, r, at, torn)
			if err == nil && t.Last > 0 && log {
				t.Proven, err = proven(fs, path)
			}
			return t, err
		}
	}
}

// readBehind looks, at every place behind the first chunk that is not intact,
// whether one is intact there.
func (t *Tail) readBehind(f io.Reader, r *reader, at int, torn bool) error {
	zeros := allZero(r.buf[at:r.n])
	for {
		for at < r.n {
			c, ok, _, _ := r.parse(at)
			if !ok || !r.log && len(c.payload) == 0 {
				at++
				continue
			}
			t.Last = r.base + int64(c.end)
			t.Begun = t.Begun || c.first
			at = c.end
		}
		ok, err := r.read(f)
		if !ok || err != nil {
			t.Broken = t.Last > 0 || !torn && !zeros
			return err
		}
		at = 0
		zeros = zeros && allZero(r.buf[:r.n])
	}
}

// proven asks Pebble's own reader, which refuses a log on the word of a later chunk.
func proven(fs vfs.FS, path string) (bool, error) {
	var files wal.FileAccumulator
	if _, err := files.MaybeAccumulate(fs, path); err != nil {
		return false, err
	}
	logs := files.Finish()
	if len(logs) == 0 {
		return false, nil
	}
	r := logs[0].OpenForRead()
	var err error
	for err == nil {
		_, _, err = r.NextRecord()
	}
	closeErr := r.Close()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, record.ErrUnexpectedEOF):
		return false, closeErr
	case errors.Is(err, record.ErrInvalidChunk), errors.Is(err, record.ErrZeroedChunk):
		return true, closeErr
	}
	return false, errors.Join(err, closeErr)
}
