package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"golang.org/x/time/rate"
)

// What a program writes: messages to its standard output, anything to its standard
// error. Many write a banner or their log to standard output, too.

// junkKept is how much of a line is kept that cannot be a message.
const junkKept = 64 << 10

// messages reads the standard output of a program. It hands on the lines that are
// messages, and gives all others to junk: one of them must not cost the connection.
type messages struct {
	from  *bufio.Reader
	limit int // of a message; a longer one is errTooLong, for somebody may wait for it
	junk  func(line []byte, dropped int)

	line []byte // read at last
	rest []byte // of line, not handed on yet
	err  error
}

func newMessages(from io.Reader, limit int, junk func(line []byte, dropped int)) *messages {
	return &messages{from: bufio.NewReader(from), limit: limit, junk: junk}
}

// Read hands on messages, each with its end of the line.
func (m *messages) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		dropped := m.next()
		switch {
		case errors.Is(m.err, errTooLong):
		case dropped == 0 && isMessage(m.line):
			m.line = append(bytes.TrimSpace(m.line), '\n')
			m.rest = m.line
		default:
			m.junk(m.line, dropped)
		}
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// next reads a line, and tells how much of its end was dropped.
func (m *messages) next() (dropped int) {
	m.line = m.line[:0]
	for {
		part, err := m.from.ReadSlice('\n')
		keep := m.limit
		if head := bytes.TrimSpace(append(m.line, part[:min(len(part), 64)]...)); len(head) > 0 && head[0] != '{' && head[0] != '[' {
			keep = min(keep, junkKept)
		}
		room := max(min(len(part), keep-len(m.line)), 0)
		m.line = append(m.line, part[:room]...)
		if dropped += len(bytes.TrimRight(part[room:], "\r\n")); dropped > 0 && bytes.HasPrefix(bytes.TrimSpace(m.line), []byte("{")) {
			m.err = errTooLong
			return dropped
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			m.err = err
			return dropped
		}
	}
}

// isMessage tells whether a line is a message, or a batch of them.
func isMessage(line []byte) bool {
	line = bytes.TrimSpace(line)
	if !json.Valid(line) { // the library's decoder passes over what follows a message
		return false
	}
	if line[0] != '[' {
		_, err := jsonrpc.DecodeMessage(line)
		return err == nil
	}
	var batch []json.RawMessage
	if json.Unmarshal(line, &batch) != nil || len(batch) == 0 {
		return false
	}
	for _, m := range batch {
		if _, err := jsonrpc.DecodeMessage(m); err != nil {
			return false
		}
	}
	return true
}

// stderr logs the standard error of a program line by line, and the lines of its
// standard output that are no messages. It bounds the length of a line and the number
// of lines in a second.
type stderr struct {
	log    *slog.Logger
	redact redactor
	limit  int
	may    *rate.Limiter

	mu           sync.Mutex
	line         []byte
	droppedBytes int // bytes of the line that were dropped
	droppedLines int // lines since the last one that was logged
	last         string
	warned       bool // of a line that is no message
}

func newStderr(log *slog.Logger, redact redactor, limit int) *stderr {
	return &stderr{log: log, redact: redact, limit: limit, may: rate.NewLimiter(20, 200)}
}

// Write never fails: a program must not die of its logs.
func (e *stderr) Write(data []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for rest := data; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		rest = after
		room := min(len(line), e.limit-len(e.line))
		e.line = append(e.line, line[:room]...)
		e.droppedBytes += len(line) - room
		if ended {
			e.flush()
		}
	}
	return len(data), nil
}

func (e *stderr) flush() {
	dropped := e.droppedBytes
	e.show(slog.LevelDebug, "standard error of an MCP server", e.line, dropped)
	e.line, e.droppedBytes = e.line[:0], 0
}

// noMessage logs a line of the standard output that is no message; the rest of it,
// so many bytes, was dropped. The first one is a warning: a log belongs on standard error.
func (e *stderr) noMessage(line []byte, dropped int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	level := slog.LevelDebug
	if !e.warned {
		level, e.warned = slog.LevelWarn, true
	}
	room := min(len(line), e.limit)
	e.show(level, "an MCP server wrote something to its standard output that is no message", line[:room], dropped+len(line)-room)
}

func (e *stderr) show(level slog.Level, message string, line []byte, dropped int) {
	text := string(bytes.TrimSpace(line))
	if text == "" {
		return
	}
	text = printable(e.redact.clean(text))
	e.last = text
	if !e.log.Enabled(context.Background(), level) {
		return
	}
	if !e.may.Allow() {
		e.droppedLines++
		return
	}
	attrs := []any{"text", text}
	if dropped > 0 {
		attrs = append(attrs, "bytes_cut", dropped)
	}
	if e.droppedLines > 0 {
		attrs = append(attrs, "lines_left_out", e.droppedLines)
		e.droppedLines = 0
	}
	e.log.Log(context.Background(), level, message, attrs...)
}

// lastLine returns the newest line that is not blank.
func (e *stderr) lastLine() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.line) > 0 {
		e.flush()
	}
	return excerpt(e.last)
}
