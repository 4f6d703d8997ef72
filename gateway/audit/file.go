package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"parley/conversation"
	"parley/gateway/service"
)

// Keep says how much is kept.
//
// The tags describe a field to the configuration: option.FieldError lists them.
type Keep struct {
	FileBytes int64 `key:"audit.file_bytes" min:"64 KiB" unit:"bytes"` // a file of this size is closed and the next one begun; 0 in code = never
	Files     int   `key:"audit.files" min:"0"`                        // closed files that are kept; 0 = all
}

// DefaultKeep is that of a configuration that says nothing.
func DefaultKeep() Keep { return Keep{FileBytes: 16 << 20, Files: 20} }

const (
	current = "audit.log"
	before  = "audit-" // + number + after
	after   = ".log"

	maxText   = 256     // characters of each text of an act; the rest is cut
	pageBytes = 4 << 20 // how much of the files one page reads; a page may end there before it is full
)

// File is the audit log in a directory. It implements service.Audit.
type File struct {
	dir  string
	keep Keep
	mu   sync.Mutex // held while names are looked up, and while a line is written
}

var _ service.Audit = (*File)(nil)

// Open makes the File of a directory; nothing is touched before the first act.
func Open(dir string, keep Keep) *File { return &File{dir: dir, keep: keep} }

// Record implements service.Audit.
func (l *File) Record(ctx context.Context, a service.Act) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, text := range []*string{&a.Credential, &a.Address, &a.Act, &a.Object, &a.Detail} {
		*text = conversation.Excerpt(*text, maxText)
	}
	line, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.write(append(line, '\n')); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// write puts a line behind the others and makes it durable.
func (l *File) write(line []byte) (err error) {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(l.dir, current)
	info, err := os.Stat(path)
	made := errors.Is(err, fs.ErrNotExist)
	if err != nil && !made {
		return err
	}
	if !made && l.keep.FileBytes > 0 && info.Size() > 0 && info.Size()+int64(len(line)) > l.keep.FileBytes {
		if err := l.rotate(path); err != nil {
			return err
		}
		made = true
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if torn, err := endsTorn(f); err != nil {
		return err
	} else if torn {
		line = append([]byte{'\n'}, line...)
	}
	if _, err := f.Write(line); err != nil {
		return err
	}
	if err := f.Sync(); err != nil || !made {
		return err
	}
	return l.syncDir()
}

// endsTorn is true for a file whose last line was not written to its end.
func endsTorn(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return last[0] != '\n', err
}

// rotate closes the current file and drops what is too old.
func (l *File) rotate(path string) error {
	closed, err := l.closed()
	if err != nil {
		return err
	}
	next := 1
	if len(closed) > 0 {
		next = closed[len(closed)-1] + 1
	}
	if err := os.Rename(path, l.path(next)); err != nil {
		return err
	}
	closed = append(closed, next)
	if l.keep.Files > 0 && len(closed) > l.keep.Files {
		for _, n := range closed[:len(closed)-l.keep.Files] {
			if err := os.Remove(l.path(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return l.syncDir()
}

func (l *File) path(n int) string {
	return filepath.Join(l.dir, fmt.Sprintf("%s%06d%s", before, n, after))
}

// closed are the numbers of the closed files, the oldest first.
func (l *File) closed() (numbers []int, err error) {
	entries, err := os.ReadDir(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), before)
		digits, log := strings.CutSuffix(digits, after)
		if n, bad := strconv.Atoi(digits); ok && log && bad == nil && n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

func (l *File) syncDir() error {
	d, err := os.Open(l.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// cursor is a place in a file: lines that begin before it are still to be read.
type cursor struct {
	file int
	at   int64 // -1 = its end
}

func (c cursor) String() string { return fmt.Sprintf("%d.%d", c.file, c.at) }

func parseCursor(s string) (cursor, error) {
	file, at, ok := strings.Cut(s, ".")
	n, err := strconv.Atoi(file)
	place, bad := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil || bad != nil || n < 1 || place < 0 {
		return cursor{}, service.ErrAuditCursor
	}
	return cursor{n, place}, nil
}

// Acts implements service.Audit.
func (l *File) Acts(ctx context.Context, tenant conversation.TenantID, from string, limit int) (acts []service.Act, next string, err error) {
	place := cursor{file: int(^uint(0) >> 1), at: -1}
	if from != "" {
		if place, err = parseCursor(from); err != nil {
			return nil, "", err
		}
	}
	for left := int64(pageBytes); ; place = (cursor{place.file - 1, -1}) {
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		f, number, err := l.open(place.file)
		if f == nil || err != nil {
			return acts, "", err
		}
		if number != place.file {
			place = cursor{number, -1}
		}
		full := false
		stopped, err := backward(f, place.at, func(line []byte) bool {
			left -= int64(len(line)) + 1
			var a service.Act
			if json.Unmarshal(line, &a) != nil || a.Act == "" || a.Tenant != tenant {
				return left > 0
			}
			if full = len(acts) == limit; full {
				return false
			}
			acts = append(acts, a)
			return left > 0
		}, func() bool { return full })
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, "", err
		}
		if stopped >= 0 {
			return acts, cursor{place.file, stopped}.String(), nil
		}
	}
}

// open opens the newest file with at most this number; nil = there is none.
func (l *File) open(number int) (*os.File, int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	closed, err := l.closed()
	if err != nil {
		return nil, 0, err
	}
	last := 1
	if len(closed) > 0 {
		last = closed[len(closed)-1] + 1
	}
	if number >= last {
		f, err := os.Open(filepath.Join(l.dir, current))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return f, last, err
		}
	}
	for _, n := range slices.Backward(closed) {
		if n <= number {
			f, err := os.Open(l.path(n))
			return f, n, err
		}
	}
	return nil, 0, nil
}

// backward hands out the lines that begin before a place, the last one first, until
// line returns false. stopped is where the next page begins: behind the line that was
// not taken if refused says so, else before the last one; -1 = all was read.
func backward(f *os.File, end int64, line func([]byte) bool, refused func() bool) (stopped int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if end < 0 || end > info.Size() { // a cursor says what its sender wants
		end = info.Size()
	}
	const block = 64 << 10
	tail := []byte(nil) // the end of a line whose beginning is in an earlier block
	for at := end; at > 0; {
		n := min(at, block)
		buf := make([]byte, n, int(n)+len(tail))
		if _, err := f.ReadAt(buf, at-n); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		at -= n
		buf = append(buf, tail...)
		for {
			i := bytes.LastIndexByte(buf[:max(len(buf)-1, 0)], '\n')
			if i < 0 && at > 0 {
				break
			}
			begin := at + int64(i) + 1
			stop := begin + int64(len(buf)-i-1)
			if text := bytes.TrimSpace(buf[i+1:]); len(text) > 0 && !line(text) {
				if refused() {
					return stop, nil
				}
				return begin, nil
			}
			if buf = buf[:i+1]; i < 0 {
				break
			}
		}
		tail = buf
	}
	return -1, nil
}
