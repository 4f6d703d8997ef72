package receipts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// verdict is what is true of one message and its receipt.
type verdict string

const (
	verdictTrue       verdict = "true"       // the receipt says what happened
	verdictFalse      verdict = "false"      // it does not: the user believes in an answer that is none
	verdictMissed     verdict = "missed"     // unanswered, and yet a part has the answer
	verdictUnanswered verdict = "unanswered" // and so it was
	verdictFailed     verdict = "failed"     // the task ended in an error, or was cancelled
	verdictOpen       verdict = "open"       // nothing became of it within the time
	verdictNeither    verdict = "neither"    // merged or dismissed, where that is as good as an answer
	verdictUnjudged   verdict = "not judged" // its answer has nothing of its own: a bare "Yes."
)

// judged is one message with what became of it.
type judged struct {
	Turn     int     `json:"turn"` // from 1
	Text     string  `json:"text"`
	How      string  `json:"how,omitempty"`
	Evidence string  `json:"evidence,omitempty"`
	Part     string  `json:"part,omitempty"` // the text that the receipt names
	Verdict  verdict `json:"verdict"`
	Why      string  `json:"why,omitempty"` // where it is not true
}

// judge says for each message of a conversation whether its receipt is true.
func (p *play) judge() []judged {
	var all []judged
	for n := range p.Turns {
		if p.Turns[n].Withdraw > 0 || p.Turns[n].Edit > 0 {
			continue
		}
		said, gone := &p.Turns[n], false
		for later := n + 1; later < p.next; later++ {
			t := &p.Turns[later]
			switch {
			case p.refused[later]:
			case t.Edit == n+1:
				said = t
			case t.Withdraw == n+1:
				gone = true
			}
		}
		all = append(all, p.judgeMessage(n, said, gone))
	}
	return all
}

// judgeMessage judges the message of turn n, which says what the turn said says.
func (p *play) judgeMessage(n int, said *turn, gone bool) judged {
	j := judged{Turn: n + 1, Text: said.Say, Verdict: verdictOpen, Why: "nothing became of it in time"}
	m := p.message(n)
	if m == nil || !m.resolved {
		return j
	}
	j.How, j.Evidence = m.how, m.evidence
	wrong := func(v verdict, format string, args ...any) judged {
		j.Verdict, j.Why = v, fmt.Sprintf(format, args...)
		return j
	}
	j.Verdict, j.Why = verdictTrue, ""
	switch {
	case p.Everyday == nil || m.how == "failed" || m.how == "cancelled":
	case p.Everyday.loose() && (m.how == merged || m.how == dismissed):
		return wrong(verdictNeither, "it is %s", m.how)
	case !said.truth.judged:
		return wrong(verdictUnjudged, "the answer has nothing of its own")
	}
	switch m.how {
	case withdrawn:
		if !gone {
			return wrong(verdictFalse, "nobody has withdrawn it")
		}
	case unanswered:
		if !said.unknown() && p.anyPart(said) {
			return wrong(verdictMissed, "a part has the answer")
		}
		return wrong(verdictUnanswered, "no part has the answer")
	case answered:
		text, ok := p.history.text(m.task, m.part)
		j.Part = text
		if !ok {
			return wrong(verdictFalse, "the part that it names is not there")
		}
		if !said.answeredBy(text) {
			return wrong(verdictFalse, "the part does not have %s%s", wanted(said), p.others(n, text))
		}
		if !slices.Contains(said.Want, answered) {
			return wrong(verdictFalse, "it needs no answer of its own")
		}
	case merged, dismissed:
		if m.question != "" && !slices.Contains(said.Want, merged) {
			return p.taken(j, said)
		}
		if !slices.Contains(said.Want, m.how) {
			return wrong(verdictFalse, "it is not to be %s", m.how)
		}
		if !p.anyPart(said) {
			return wrong(verdictFalse, "no part has %s", wanted(said))
		}
	default:
		return wrong(verdictFailed, "the message is %s", m.how)
	}
	return j
}

// taken judges a message that the engine gave to a question of the model, although it
// was meant to be one of its own: what counts is whether it was answered all the same.
func (p *play) taken(j judged, said *turn) judged {
	if !p.anyPart(said) {
		j.Verdict, j.Why = verdictUnanswered, "it was taken as the answer to a question"
	}
	return j
}

// anyPart is true if a part holds the ground truth of a turn, if it has one.
func (p *play) anyPart(t *turn) bool {
	return t.unknown() || slices.ContainsFunc(p.history.parts, func(x part) bool { return t.answeredBy(x.Text) })
}

// others says which other turns a text answers: then it is the receipt that errs, and
// not the model.
func (p *play) others(n int, text string) string {
	for i := range p.Turns {
		if t := &p.Turns[i]; i != n && !t.unknown() && t.answeredBy(text) {
			return fmt.Sprintf(", it answers turn %d", i+1)
		}
	}
	return ""
}

func wanted(t *turn) string {
	if t.truth != nil {
		return strconv.Quote(t.truth.answer)
	}
	var all []string
	for _, oneOf := range t.Words {
		all = append(all, strings.Join(oneOf, " or "))
	}
	return strings.Join(all, ", and ")
}

// joined counts the parts that answered more than one message: the answers to
// independent requests are never to be merged (D-01).
func (p *play) joined() int {
	type place struct {
		task string
		part int
	}
	answers := map[place]int{}
	for n := range p.Turns {
		if m := p.message(n); m != nil && m.how == answered && slices.Equal(p.Turns[n].Want, []string{answered}) {
			answers[place{m.task, m.part}]++
		}
	}
	several := 0
	for _, n := range answers {
		if n > 1 {
			several++
		}
	}
	return several
}

// twice counts the parts of an everyday conversation that say nothing but what their
// task has said before.
func (p *play) twice() (n int) {
	type told struct {
		task string
		turn int
	}
	before := map[told]bool{}
	for _, part := range p.history.parts {
		tells, news := 0, 0
		for i := range p.Turns {
			if t := &p.Turns[i]; t.truth != nil && t.truth.judged && t.truth.in(part.Text) {
				tells++
				if at := (told{part.Task, i}); !before[at] {
					before[at] = true
					news++
				}
			}
		}
		if tells > 0 && news == 0 {
			n++
		}
	}
	return n
}

// odd counts the parts of an everyday conversation that answer nothing, in steps that a
// nudge opened: "I have already answered that."
func (p *play) odd() (n int) {
	for _, part := range p.history.parts {
		if part.nudged && !slices.ContainsFunc(p.Turns, func(t turn) bool { return t.truth == nil || t.truth.resembles(part.Text) }) {
			n++
		}
	}
	return n
}
