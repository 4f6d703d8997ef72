package chat

import "strings"

// A row is one thing in the transcript.
type row struct {
	kind string // you, other, agent, question, note
	id   string // of a message or question
	text string // clean

	lines []string // as it is shown, with an empty line behind it
	width int      // of the terminal that lines are for; 0 = they are not made
}

func newRow(kind, id, text string) *row {
	return &row{kind: kind, id: id, text: strings.TrimRight(Clean(text), "\n")}
}

// change gives the row another text.
func (r *row) change(text string) { *r = *newRow(r.kind, r.id, text) }

// show are the lines of the row. They are kept: a conversation may be long, and is
// drawn anew for each word of an answer.
func (r *row) show(width int) []string {
	if r.width == width {
		return r.lines
	}
	text := r.text
	switch r.kind {
	case "you":
		text = bold + "> " + plain + text
	case "agent":
		text = markdown(text)
	case "question":
		text = bold + text + plain
	case "note":
		text = dim + text + plain
	}
	r.lines, r.width = append(wrap(text, width), ""), width
	return r.lines
}

// place is where the transcript stands: its first line on the screen, how many lines it
// has, and how many of them the screen has room for.
func (m *model) place(below int) (from, total, room int) {
	room = m.height - below
	held := 0
	for i, r := range m.rows {
		lines := len(r.show(m.width))
		if i == m.heldRow {
			held = total + min(m.heldLine, lines-1)
		}
		total += lines
	}
	if m.heldRow >= len(m.rows) {
		held = total + m.heldLine
	}
	total += len(m.written())
	from = max(0, total-room)
	if m.held {
		from = min(from, held)
	}
	return from, total, room
}

// window are the lines of the transcript that are on the screen.
func (m *model) window(below int) []string {
	from, total, room := m.place(below)
	to := min(total, from+room)
	lines := make([]string, 0, room)
	take := func(at int, all []string) {
		if lo, hi := max(from-at, 0), min(to-at, len(all)); lo < hi {
			lines = append(lines, all[lo:hi]...)
		}
	}
	at := 0
	for _, r := range m.rows {
		all := r.show(m.width)
		take(at, all)
		at += len(all)
	}
	take(at, m.written())
	for len(lines) < room {
		lines = append(lines, "")
	}
	return lines
}

// written are the lines of the answers that are being written.
func (m *model) written() []string {
	all := m.drafts.All()
	if len(m.writing) > len(all) {
		clear(m.writing)
	}
	var lines []string
	for _, d := range all {
		w := m.writing[d.ID]
		if w == nil {
			w = &writing{}
			m.writing[d.ID] = w
		}
		lines = append(lines, w.show(d.Text, m.width)...)
	}
	return lines
}

// writing shows a draft. Lines of it that have ended are kept, and only what has come
// since is wrapped: a draft may be long, too.
type writing struct {
	text  string // up to a line's end
	width int
	marks marks
	lines []string // of text
}

func (w *writing) show(text string, width int) []string {
	if w.width != width || !strings.HasPrefix(text, w.text) {
		*w = writing{width: width}
	}
	for {
		l, _, ended := strings.Cut(text[len(w.text):], "\n")
		if !ended {
			marks := w.marks
			return append(w.lines[:len(w.lines):len(w.lines)], wrap(marks.text(Clean(l))+"▌", width)...)
		}
		w.text = text[:len(w.text)+len(l)+1]
		w.lines = append(w.lines, wrap(w.marks.text(Clean(l)), width)...)
	}
}

// turn moves the screen over the transcript by a page, so that no line is passed over.
// What is shown then stays where it is, whatever comes below, until the end is reached.
func (m *model) turn(key string) {
	from, _, room := m.place(len(m.below())) // as it is on the screen now
	m.armed, m.notice = false, ""
	page := max(1, min(m.height/2, room))
	if key == "pgup" {
		page = -page
	}
	_, total, room := m.place(len(m.below()))
	end := max(0, total-room)
	m.hold(min(max(0, from+page), end))
	m.held = from+page < end
}

// hold keeps a line of the transcript at the top of the screen. It is named by its row:
// with another width rows have other lines.
func (m *model) hold(at int) {
	m.held = true
	for i, r := range m.rows {
		lines := len(r.show(m.width))
		if at < lines {
			m.heldRow, m.heldLine = i, at
			return
		}
		at -= lines
	}
	m.heldRow, m.heldLine = len(m.rows), at
}
