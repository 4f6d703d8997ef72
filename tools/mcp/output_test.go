package mcp

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

const answer = `{"jsonrpc":"2.0","id":1,"result":{}}`

func TestOnlyMessagesAreRead(t *testing.T) {
	const limit = 200
	long := `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", limit-35) + `"}`
	exact := `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", limit-36) + `"}`
	if len(exact) != limit || len(long) != limit+1 {
		t.Fatal(len(exact), len(long))
	}
	for name, c := range map[string]struct {
		in, out string
		junk    int
		err     error
	}{
		"chatter":              {strings.Join(chatter, "\n") + "\n" + answer + "\n", answer + "\n", len(chatter) - 2, nil}, // two are blank
		"between":              {answer + "\njunk\n" + answer + "\n", answer + "\n" + answer + "\n", 1, nil},
		"lines of Windows":     {"junk\r\n" + answer + "\r\n", answer + "\n", 1, nil},
		"a batch":              {"[" + answer + "," + answer + "]\n", "[" + answer + "," + answer + "]\n", 0, nil},
		"half a line":          {answer + "\n" + answer[:20], answer + "\n", 1, nil},
		"no end of the line":   {"junk\n" + answer, answer + "\n", 1, nil},
		"nothing":              {"", "", 0, nil},
		"a long line of words": {strings.Repeat("word ", limit) + "\n" + answer + "\n", answer + "\n", 1, nil},
		"a long bracket":       {"[" + strings.Repeat("x", limit) + "]\n" + answer + "\n", answer + "\n", 1, nil},
		"a message that fits":  {exact + "\n", exact + "\n", 0, nil},
		"a message too long":   {answer + "\n" + long + "\n", answer + "\n", 0, errTooLong},
	} {
		for way, reader := range map[string]io.Reader{"at once": strings.NewReader(c.in), "byte by byte": iotest.OneByteReader(strings.NewReader(c.in))} {
			junk := 0
			out, err := io.ReadAll(newMessages(reader, limit, func(line []byte, _ int) {
				if strings.TrimSpace(string(line)) != "" {
					junk++
				}
				if len(line) > limit {
					t.Errorf("%s, %s: %d bytes are kept", name, way, len(line))
				}
			}))
			if !errors.Is(err, c.err) || string(out) != c.out || junk != c.junk {
				t.Errorf("%s, %s: %q, %v, %d lines of junk", name, way, out, err, junk)
			}
		}
	}
}

func TestWhatIsNoMessageIsBounded(t *testing.T) {
	most := 0
	in := io.MultiReader(io.LimitReader(zeros{}, 8<<20), strings.NewReader("\n"+answer+"\n"))
	out, err := io.ReadAll(newMessages(in, 1<<20, func(line []byte, _ int) { most = max(most, len(line)) }))
	if err != nil || string(out) != answer+"\n" || most != junkKept {
		t.Errorf("%q, %v; %d bytes kept", out, err, most)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
