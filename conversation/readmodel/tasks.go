package readmodel

import (
	"cmp"
	"slices"

	"parley/conversation"
)

// Tasks gathers a page of tasks while each session's log is read once, however many of
// them are of it. The page ends by the bytes of its texts: tasks at its end are left
// out, the first one never.
type Tasks struct {
	page     []*gathered
	room     int // bytes that texts may still have; below 0 = too many
	sessions map[conversation.SessionKey]*sessionTasks
	order    []conversation.SessionKey
}

// gathered is a task of a page.
type gathered struct {
	*Task
	first, last conversation.Seq // the events that Task.Add wants; last 0 = to the end
	bytes       int              // of its texts so far
	out         bool             // left out: the page was full
}

// sessionTasks are those of one session.
type sessionTasks struct {
	all       []*gathered
	byID      map[conversation.TaskID]*gathered
	byTrigger map[conversation.MessageID][]*gathered
}

// Stretch is a part of a log: the events with After < seq < Before; 0 = to the end.
type Stretch struct{ After, Before conversation.Seq }

// NewTasks begins the tasks of rows, whose texts have at most so many bytes together.
func NewTasks(rows []conversation.TaskRow, bytes int) *Tasks {
	t := &Tasks{room: bytes, sessions: make(map[conversation.SessionKey]*sessionTasks)}
	for _, row := range rows {
		g := &gathered{Task: NewTask(row), first: max(row.First, 1)}
		if row.Status.Ended() {
			g.last = row.Last
		}
		t.page = append(t.page, g)
		of := t.sessions[row.Key]
		if of == nil {
			of = &sessionTasks{byID: make(map[conversation.TaskID]*gathered), byTrigger: make(map[conversation.MessageID][]*gathered)}
			t.sessions[row.Key] = of
			t.order = append(t.order, row.Key)
		}
		of.all = append(of.all, g)
		of.byID[row.Task] = g
		of.byTrigger[row.Trigger] = append(of.byTrigger[row.Trigger], g)
	}
	return t
}

// Sessions are the sessions whose logs are to be read, one after the other: their
// Stretches with Add, and then back from Before with AddBefore.
func (t *Tasks) Sessions() []conversation.SessionKey { return t.order }

// Stretches are the parts of a session's log that its tasks need, in order and without
// an overlap.
func (t *Tasks) Stretches(key conversation.SessionKey) (list []Stretch) {
	all := slices.SortedFunc(slices.Values(t.sessions[key].all), func(a, b *gathered) int { return cmp.Compare(a.first, b.first) })
	for _, g := range all {
		if g.out {
			continue
		}
		before := conversation.Seq(0)
		if g.last > 0 {
			before = g.last + 1
		}
		if n := len(list); n > 0 && (list[n-1].Before == 0 || g.first <= list[n-1].Before) {
			if before == 0 || list[n-1].Before != 0 && before > list[n-1].Before {
				list[n-1].Before = before
			}
			continue
		}
		list = append(list, Stretch{After: g.first - 1, Before: before})
	}
	return list
}

// Add takes the next event of a session.
func (t *Tasks) Add(key conversation.SessionKey, e *conversation.Event) {
	of := t.sessions[key]
	own := of.byID[e.Task]
	if own != nil {
		t.give(own, e)
	}
	var message conversation.MessageID
	switch b := e.Body.(type) {
	case conversation.MessageAccepted:
		message = b.Message
	case conversation.MessageEdited:
		message = b.Message
	default:
		return
	}
	for _, g := range of.byTrigger[message] {
		if g != own {
			t.give(g, e)
		}
	}
}

func (t *Tasks) give(g *gathered, e *conversation.Event) {
	if g.out || e.Seq < g.first || g.last != 0 && e.Seq > g.last {
		return
	}
	g.Add(e)
	n := 0
	switch b := e.Body.(type) {
	case conversation.MessageAccepted:
		n = len(b.Text)
	case conversation.PartialResponse:
		n = 2 * len(b.Text) // in the output, and by itself
	case conversation.Response:
		n = 2 * len(b.Text)
	case conversation.Asked:
		n = 2 * len(b.Text)
	}
	g.bytes += n
	t.room -= n
	for n := len(t.page); t.room < 0 && n > 1; n-- {
		last := t.page[n-1]
		last.out = true
		t.room += last.bytes
		last.Task = NewTask(last.Row)
		t.page = t.page[:n-1]
	}
}

// Before is where to begin to look back for the texts of tasks that were born after
// their message; 0 = none is missing.
func (t *Tasks) Before(key conversation.SessionKey) (before conversation.Seq) {
	for _, g := range t.sessions[key].all {
		if !g.out && !g.Prompted() {
			before = max(before, g.first)
		}
	}
	return before
}

// AddBefore takes the events before that, backwards; it is done when no text is missing.
func (t *Tasks) AddBefore(key conversation.SessionKey, e *conversation.Event) (done bool) {
	done = true
	for _, g := range t.sessions[key].all {
		if g.out || g.Prompted() {
			continue
		}
		if e.Seq < g.first {
			g.AddBefore(e)
		}
		done = done && g.Prompted()
	}
	return done
}

// Page returns the tasks in the order of their rows, without those that did not fit.
func (t *Tasks) Page() []*Task {
	list := make([]*Task, len(t.page))
	for i, g := range t.page {
		list[i] = g.Task
	}
	return list
}
