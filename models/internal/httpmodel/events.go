package httpmodel

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/tmaxmax/go-sse"
)

// maxEvent is the longest server-sent event that is read, in bytes. The last one
// of a Responses stream has the whole answer in it.
const maxEvent = 32 << 20

// ReadEvents reads server-sent events and hands each to take, by name ("" = none) and
// data, until take says that the answer is over or fails. A stream that ends
// before that is ErrCut.
func ReadEvents(body io.Reader, take func(name string, data []byte) (over bool, err error)) error {
	events := &wholeEvents{r: bufio.NewReader(body)}
	for event, err := range sse.Read(events, &sse.ReadConfig{MaxEventSize: maxEvent}) {
		switch {
		case err == nil:
		case events.err != nil && !errors.Is(events.err, io.EOF):
			return events.err // the library says only that a line has no end
		case errors.Is(err, sse.ErrUnexpectedEOF):
			return ErrCut
		default:
			return err
		}
		over, err := take(event.Type, []byte(event.Data))
		if err != nil || over {
			return err
		}
	}
	return ErrCut
}

// wholeEvents reads up to the blank line behind an event before it gives any of
// it. The library looks at all that it has of an event with every read: an event
// of 4 MiB that comes in pieces of 4 KiB costs it a second, and as a whole 0.03.
// Streams whose lines end in CR alone are read when they are over.
type wholeEvents struct {
	r     *bufio.Reader
	event []byte // the event, or as much of it as may be
	rest  []byte // the part of event that is not yet handed over
	err   error  // the error that the body ended with
}

func (e *wholeEvents) Read(p []byte) (int, error) {
	if len(e.rest) == 0 && e.err == nil {
		e.next()
	}
	if len(e.rest) == 0 {
		return 0, e.err
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// next reads an event, or as much of it as may be; without any of it, it sets err.
func (e *wholeEvents) next() {
	e.event = e.event[:0]
	defer func() { e.rest = e.event }()
	for len(e.event) <= maxEvent {
		line, err := e.r.ReadSlice('\n')
		e.event = append(e.event, line...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		blank := len(bytes.TrimRight(line, "\r\n")) == 0
		if e.err = err; err != nil || blank {
			return
		}
	}
}
