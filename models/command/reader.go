package command

import (
	"unicode/utf8"

	"parley/conversation"
)

// reader turns an agent's output into an answer.
type reader interface {
	feed(chunk []byte)
	takeDeltas() []conversation.Output // deltas since the last time
	end() (whole bool)                 // the output has ended; false = in the middle of the answer
	failed() string                    // the kind of failure that the agent reports; "" = none
	cut() bool                         // something was over max_output
	answer() ([]conversation.Item, conversation.Usage)
}

func (c *call) reader() reader {
	o := &c.m.o
	a := &items{marker: o.marker(c.r), marked: o.Guard != GuardNone, limit: o.MaxResponseLength, step: c.r.Step}
	if o.Format == FormatStreamJSON {
		return &streamJSON{items: a, most: o.MaxOutput}
	}
	return &plainText{items: a, most: o.MaxOutput}
}

// plainText is the output of an agent that writes its answer and nothing else.
type plainText struct {
	*items
	most int // bytes
	kept []byte
	more bool // there was more than is kept
}

func (t *plainText) feed(chunk []byte) {
	n := min(len(chunk), t.most-len(t.kept))
	t.kept = append(t.kept, chunk[:n]...)
	t.more = t.more || n < len(chunk)
	if draft := t.draft(); draft.count <= t.limit {
		// The characters that the limit may let through, and one more.
		t.replaceBlock(string(wholeRunes(t.kept[:min(len(t.kept), utf8.UTFMax*(t.limit+1))])))
	}
}

func (t *plainText) end() bool {
	text := t.kept
	if t.more {
		text = wholeRunes(text)
	}
	t.block(string(text), t.more)
	return true
}

// wholeRunes drops an incomplete character at the end of a text.
func wholeRunes(text []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax, len(text)); i++ {
		if last := text[len(text)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return text[:len(text)-i]
			}
			break
		}
	}
	return text
}

func (t *plainText) failed() string { return "" }
func (t *plainText) cut() bool      { return t.more }

func (t *plainText) answer() ([]conversation.Item, conversation.Usage) {
	return t.list, conversation.Usage{}
}
