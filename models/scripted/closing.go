package scripted

import (
	"slices"
	"strconv"

	"parley/conversation"
)

// closing answers a request whose answer must be calls: for each open message, in their
// order, its answer by name, or that a text has answered it. One that asks for no answer, or
// whose answer is still to come, gets none.
func (t *reading) closing() decision {
	var d decision
	for _, m := range t.request.Open {
		i := slices.IndexFunc(t.programs, func(p *program) bool { return p.message == m.Message })
		if i < 0 {
			continue
		}
		p, ordinal := t.programs[i], strconv.Itoa(m.Ordinal)
		a := t.next(p)
		switch {
		case a != nil && (a.verb == verbSay || a.verb == verbPartial) && t.ready(p, a):
			mark := lineMark(p.message, a.line)
			d.mark(t, mark)
			d.call(t, mark, conversation.ToolRespond, encode(respondArgs{t.fill(p, a, a.text, false), ordinal}))
		default:
			if k := slices.IndexFunc(t.texts[string(p.message)], t.isAnswer); k >= 0 {
				d.call(t, t.texts[string(p.message)][k], conversation.ToolCover, encode(coverArgs{Message: ordinal, As: "answered"}))
			}
		}
	}
	return d
}

// isAnswer reports whether the text of a line is its answer, and not said beside a call.
func (t *reading) isAnswer(mark string) bool { return len(t.calls[mark]) == 0 }
