package chat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	parley "parley/clients/go"
)

// ask shows a question once, with all that is approved.
func (m *model) ask(q *parley.Question) {
	if m.rowOf(q.ID) < 0 {
		m.add("question", q.ID, questionText(q))
	}
}

// rowOf is the row of a question; -1 = it has none.
func (m *model) rowOf(question string) int {
	return slices.IndexFunc(m.rows, func(r *row) bool { return r.kind == "question" && r.id == question })
}

func (m *model) unask(id string) {
	m.questions = slices.DeleteFunc(slices.Clone(m.questions), func(q parley.Question) bool { return q.ID == id })
	delete(m.looks, id)
	if m.args == id {
		m.args = ""
		m.input.set("") // they are of no use for another question
		m.add("note", "", "the question has its answer: the arguments in the line were not sent")
	}
}

// target is the question that Enter answers: the one that Tab has chosen, else the oldest
// that a task waits for, else the oldest. nil = none is open.
func (m *model) target() *parley.Question {
	best := -1
	for i, q := range m.questions {
		switch {
		case q.ID == m.chosen:
			return &m.questions[i]
		case best < 0, q.Blocking && !m.questions[best].Blocking:
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return &m.questions[best]
}

func (m *model) targetID() string {
	if q := m.target(); q != nil {
		return q.ID
	}
	return ""
}

// choose makes the next question the one that Enter answers. What stands in the line is
// for it then; an approval wants words of its own.
func (m *model) choose() {
	q := m.target()
	if q == nil || m.args != "" {
		return
	}
	if m.chosen != q.ID && !q.Blocking { // until now a text was a message
		m.chosen = q.ID
	} else {
		i := slices.IndexFunc(m.questions, func(o parley.Question) bool { return o.ID == q.ID })
		m.chosen = m.questions[(i+1)%len(m.questions)].ID
		if m.chosen == q.ID && !q.Blocking {
			m.chosen = ""
		}
	}
	if q = m.target(); q.Approval == nil && !m.input.empty() {
		m.aim = q.ID
	}
}

// answer is what Enter means for the question that it answers; false = the text is none
// of an answer.
func (m model) answer(text string) (tea.Model, tea.Cmd, bool) {
	q := m.target()
	if q == nil || len(m.files) > 0 { // a message with files is no answer
		return m, nil, false
	}
	n, err := strconv.Atoi(text)
	choice := err == nil && n >= 1 && n <= len(q.Choices)
	if !q.Blocking && !choice && q.Approval == nil && m.chosen != q.ID {
		return m, nil, false
	}
	if m.aim != q.ID {
		m.notice = "this was begun before the question came: Enter again answers it so; /say TEXT is a message"
		if q.Approval != nil {
			m.notice = "this was begun before the question came: Esc empties the line; /say TEXT is a message"
		} else {
			m.aim = q.ID
		}
		return m, nil, true
	}
	word := strings.ToLower(text)
	if q.Approval != nil {
		yes, no := word == "y" || word == "yes", word == "n" || word == "no"
		if !no && !m.saw(q) {
			if m.show(q.ID); yes || choice || word == "e" {
				m.input.set("")
			}
			return m, nil, true
		}
		switch {
		case yes, no:
			m.input.set("")
			next, cmd := m.approve(q.ID, yes, "")
			return next, cmd, true
		case word == "e":
			return m.arguments(q)
		}
	}
	m.input.set("")
	if choice {
		text = q.Choices[n-1]
	}
	next, cmd := m.reply(q.ID, text)
	return next, cmd, true
}

// arguments puts those of an approval into the line.
func (m model) arguments(q *parley.Question) (tea.Model, tea.Cmd, bool) {
	m.input.set("")
	if args := q.Approval.Args; !strings.HasPrefix(strings.TrimSpace(string(args)), "{") || redacted(args) {
		m.notice = "the whole arguments are not known here: they can only be approved or refused"
		return m, nil, true
	}
	m.args, m.shown = q.ID, compact(q.Approval.Args)
	m.input.set(m.shown)
	m.notice = "the arguments: Enter approves them as they stand here, Esc goes back"
	return m, nil, true
}

// A look is what has been on the screen of a question.
type look struct {
	width int
	seen  []bool // its lines
}

func (l *look) whole() bool { return l != nil && !slices.Contains(l.seen, false) }

// look notes which lines of the approvals are on the screen. A call of which a person
// cannot have read everything is not approved by a key.
func (m *model) look() {
	if !slices.ContainsFunc(m.questions, func(q parley.Question) bool { return q.Approval != nil && !m.looks[q.ID].whole() }) {
		return
	}
	from, _, room := m.place(len(m.below()))
	at := 0
	for _, r := range m.rows {
		lines := r.show(m.width)
		if r.kind == "question" && !m.looks[r.id].whole() {
			l := m.looks[r.id]
			if l == nil || l.width != m.width {
				l = &look{width: m.width, seen: make([]bool, len(lines)-1)}
				m.looks[r.id] = l
			}
			for i := range l.seen {
				l.seen[i] = l.seen[i] || at+i >= from && at+i < from+room
			}
		}
		at += len(lines)
	}
}

// saw says whether all of a question has been on the screen.
func (m *model) saw(q *parley.Question) bool { return m.looks[q.ID].whole() }

// show brings the screen to the first line of a question that was not on it.
func (m *model) show(question string) {
	m.notice = "first read what would be approved: Page Down shows the rest; then y and Enter"
	i := m.rowOf(question)
	if i < 0 {
		return
	}
	m.held, m.heldRow, m.heldLine = true, i, 0
	if l := m.looks[question]; l != nil && l.width == m.width {
		m.heldLine = max(0, slices.Index(l.seen, false))
	}
}

// asks are the lines that say what is open and how it is answered.
func (m *model) asks() []string {
	q := m.target()
	if q == nil {
		return nil
	}
	which := ""
	if i := slices.IndexFunc(m.questions, func(o parley.Question) bool { return o.ID == q.ID }); len(m.questions) > 1 {
		which = fmt.Sprintf("%d of %d, Tab chooses: ", i+1, len(m.questions))
	}
	name := line(q.Text)
	if q.Approval != nil && !strings.Contains(name, line(q.Approval.Tool)) {
		name += " " + line(q.Approval.Tool)
	}
	keys := "type the answer"
	switch {
	case m.args == q.ID:
		keys = "Enter approves the arguments below"
	case q.Approval != nil && !m.saw(q):
		keys = "not all of it was shown: Page Up, Page Down; n Enter refuses"
	case q.Approval != nil:
		keys = "y Enter approves, n Enter refuses, e Enter changes it"
	case !q.Blocking && m.chosen != q.ID && len(q.Choices) == 0:
		keys = "Tab, then type the answer"
	case !q.Blocking && m.chosen != q.ID:
		keys = fmt.Sprintf("1 to %d choose, then Enter", min(9, len(q.Choices)))
	case len(q.Choices) > 0:
		keys = fmt.Sprintf("1 to %d choose, or type the answer; then Enter", min(9, len(q.Choices)))
	}
	return append([]string{m.cut(bold + "? " + which + plain + name)}, m.few("  "+keys, 2)...)
}
