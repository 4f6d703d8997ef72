package httpmodel

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// What servers send as server-sent events, whole and byte by byte.
func TestEvents(t *testing.T) {
	broken := errors.New("the connection broke")
	long := strings.Repeat("0123456789abcdef", 1<<14) // 256 KiB
	for _, c := range []struct {
		name, stream string
		want         []string // "NAME=DATA"
		end          error    // what follows the stream; nil = io.EOF
		err          error
	}{
		{"names and data", "event: a\ndata: 1\n\ndata: 2\n\n", []string{"a=1", "=2"}, nil, ErrCut},
		{"no space behind the colon", "event:a\ndata:1\n\n", []string{"a=1"}, nil, ErrCut},
		{"CRLF", "event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", []string{"a=1", "=2"}, nil, ErrCut},
		{"CR", "data: 1\r\rdata: 2\r\r", []string{"=1", "=2"}, nil, ErrCut},
		{"data in several lines", "data: {\ndata: }\n\n", []string{"={\n}"}, nil, ErrCut},
		{"comments, other fields and blank lines", ": PING\n\n\n\nid: 7\nretry: 5\nx: y\n:\ndata: 1\n\n\n\n", []string{"=1"}, nil, ErrCut},
		{"a byte order mark", "\xef\xbb\xbfdata: 1\n\n", []string{"=1"}, nil, ErrCut},
		{"no last blank line", "data: 1\n\ndata: 2\n", []string{"=1", "=2"}, nil, ErrCut},
		{"half a line", "data: 1\n\ndata: 2", []string{"=1"}, nil, ErrCut},
		{"a long line", "data: " + long + "\n\n", []string{"=" + long}, nil, ErrCut},
		{"a broken connection", "data: 1\n\n", []string{"=1"}, broken, broken},
		{"a connection that breaks in a line", "data: 1\n\ndata: 2", []string{"=1"}, broken, broken},
		{"a connection that breaks between two lines", "data: 1\n\nevent: a\ndata: 2\n", []string{"=1"}, broken, broken},
		{"a line of no end", "data: " + strings.Repeat("x", maxEvent), nil, nil, bufio.ErrTooLong},
		{"nothing", "", nil, nil, ErrCut},
		{"the end of the answer", "data: 1\n\ndata: over\n\ndata: 2\n\n", []string{"=1", "=over"}, nil, nil},
	} {
		for _, slow := range []bool{false, true} {
			if slow && len(c.stream) > 1<<20 {
				continue
			}
			t.Run(fmt.Sprintf("%s slow=%v", c.name, slow), func(t *testing.T) {
				body := io.Reader(strings.NewReader(c.stream))
				if c.end != nil {
					body = io.MultiReader(body, iotest.ErrReader(c.end))
				}
				if slow && len(c.stream) < 1<<10 {
					body = iotest.OneByteReader(body)
				}
				var got []string
				err := ReadEvents(body, func(name string, data []byte) (bool, error) {
					got = append(got, name+"="+string(data))
					return string(data) == "over", nil
				})
				if !slices.Equal(got, c.want) || !errors.Is(err, c.err) {
					t.Errorf("%.200q and %v, not %.200q and %v", got, err, c.want, c.err)
				}
			})
		}
	}
	if err := ReadEvents(strings.NewReader("data: 1\n\n"), func(string, []byte) (bool, error) { return true, broken }); !errors.Is(err, broken) {
		t.Errorf("the reader's error is %v", err)
	}
}
