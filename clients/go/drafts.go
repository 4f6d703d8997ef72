package parley

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Drafts joins the deltas of a session to the texts that are being written. Give it
// every event of one [Following]; it must not be used by several goroutines at once.
type Drafts struct {
	open []*Draft
}

// A Draft is an answer while it is written.
type Draft struct {
	ID   string // "<step>.<attempt>.<item>"
	Task string
	Text string
}

// All are the drafts, the oldest first.
func (d *Drafts) All() []Draft {
	all := make([]Draft, len(d.open))
	for i, draft := range d.open {
		all[i] = *draft
	}
	return all
}

// Apply takes an event and says whether a draft has changed, come or gone.
//
// A draft ends with the part that names it, with draft_dropped, with the next step or
// attempt, with its task, and with each new follow (what is still open comes as a
// draft_state then).
func (d *Drafts) Apply(e Event) bool {
	switch b := e.Body.(type) {
	case *Delta:
		return d.splice(e.Task, b)
	case *DraftState:
		draft := d.find(b.Draft)
		if draft == nil {
			draft = &Draft{ID: b.Draft, Task: e.Task}
			d.open = append(d.open, draft)
		}
		draft.Text = b.Text
		return true
	case *DraftDropped:
		return d.drop(func(draft *Draft) bool { return draft.ID == b.Draft })
	case *PartialResponse:
		return d.drop(func(draft *Draft) bool { return draft.ID == b.Draft })
	case *Response:
		return d.drop(func(draft *Draft) bool { return draft.ID == b.Draft })
	case *StepStarted:
		now := fmt.Sprintf("%d.%d.", b.Step, b.Attempt)
		return d.drop(func(draft *Draft) bool { return !strings.HasPrefix(draft.ID, now) })
	case *TaskStatus:
		if b.NewStatus == "RUNNING" {
			return false
		}
		return d.drop(func(draft *Draft) bool { return draft.Task == b.Task || draft.Task == "" })
	case *Followed, *Gone:
		return d.drop(func(*Draft) bool { return true })
	}
	return false
}

func (d *Drafts) find(id string) *Draft {
	for _, draft := range d.open {
		if draft.ID == id {
			return draft
		}
	}
	return nil
}

func (d *Drafts) drop(which func(*Draft) bool) bool {
	kept := d.open[:0]
	for _, draft := range d.open {
		if !which(draft) {
			kept = append(kept, draft)
		}
	}
	changed := len(kept) != len(d.open)
	clear(d.open[len(kept):])
	d.open = kept
	return changed
}

// splice puts a delta at its place. One beyond the end is left out: the draft_state
// that brings what is missing is on its way.
func (d *Drafts) splice(task string, b *Delta) bool {
	draft := d.find(b.Draft)
	if draft == nil {
		if b.At != 0 {
			return false
		}
		draft = &Draft{ID: b.Draft, Task: task}
		d.open = append(d.open, draft)
	}
	have := utf8.RuneCountInString(draft.Text)
	switch {
	case b.At == have:
		draft.Text += b.Text
	case b.At > have:
		return false
	default:
		runes := []rune(draft.Text)
		end := b.At + utf8.RuneCountInString(b.Text)
		if end >= have {
			draft.Text = string(runes[:b.At]) + b.Text
		} else { // a piece that is there already
			draft.Text = string(runes[:b.At]) + b.Text + string(runes[end:])
		}
	}
	return true
}
