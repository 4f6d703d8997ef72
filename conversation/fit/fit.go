package fit

import (
	"fmt"
	"slices"

	"parley/conversation"
	"parley/conversation/author"
	"parley/conversation/tokens"
)

// Cut is what a request would show, and what is known of its entries, by their place.
type Cut struct {
	Entries []conversation.Entry
	Task    conversation.TaskID                 // that the request is for
	Hidden  []bool                              // entries that are not shown at all; nil = none
	Tokens  func(i int) int                     // of an entry
	Pinned  func(i int) bool                    // it stays
	Over    func(task conversation.TaskID) bool // the task has ended
}

// leaps is the number of leaps in which as much is left out as a model can hold.
const leaps = 8

// To leaves out what makes a request of so many tokens larger than the budget. left is the
// number of entries that it has left out, hidden ones not counted; an entry in their place
// says so. tokens are those of the request as it is then.
func (t *Cut) To(budget, size int) (entries []conversation.Entry, tokens, left int) {
	if size <= budget {
		return t.without(0, len(t.Entries), t.Hidden), size, 0
	}
	gone := make([]bool, len(t.Entries))
	copy(gone, t.Hidden)
	tokens, place := size, -1
	drop := func(i int) {
		if gone[i] || t.Pinned(i) {
			return
		}
		gone[i] = true
		tokens -= t.Tokens(i)
		if left++; place < 0 || i < place {
			place = i
		}
	}
	tokens += leftOutTokens // the entry that says so
	leap := max(budget/leaps, 1)
	goal := tokens - (tokens-budget+leap-1)/leap*leap
	goes := t.tasksToLeaveOut(gone, tokens-goal)
	for i := range t.Entries {
		if goes[t.unit(i)] {
			drop(i)
		}
	}
	newest := -1
	for i := range t.Entries {
		if t.ownAnswer(i) {
			newest = i
		}
	}
	for i := 0; i < newest && tokens > goal; i++ {
		if !t.ownAnswer(i) {
			continue
		}
		drop(i)
		for k := i + 1; k < len(t.Entries) && t.Entries[k].Role == conversation.RoleTool; k++ {
			drop(k)
		}
	}
	if left == 0 {
		return t.without(0, len(t.Entries), t.Hidden), size, 0
	}
	said := conversation.Entry{Role: conversation.RoleUser, Text: fmt.Sprintf(leftOut, left)}
	entries = append(slices.Clip(t.without(0, place, gone)), said)
	return append(entries, t.without(place, len(t.Entries), gone)...), tokens, left
}

func (t *Cut) ownAnswer(i int) bool {
	return t.Entries[i].Role == conversation.RoleAssistant && t.Entries[i].Task == t.Task
}

// without are the entries of a stretch that are not gone.
func (t *Cut) without(from, to int, gone []bool) []conversation.Entry {
	if gone == nil {
		return t.Entries[from:to:to]
	}
	kept := make([]conversation.Entry, 0, to-from)
	for i := from; i < to; i++ {
		if !gone[i] {
			kept = append(kept, t.Entries[i])
		}
	}
	return kept
}

// unit names what is left out together: a task, or what belongs to none, which stands alone.
type unit struct {
	task  conversation.TaskID
	entry int // where task is ""
}

func (t *Cut) unit(i int) unit {
	if task := t.Entries[i].Task; task != "" {
		return unit{task: task}
	}
	return unit{entry: i}
}

// tasksToLeaveOut chooses what else than the request's own task must go so that it is
// smaller by so many tokens: what has ended first, and the oldest first.
func (t *Cut) tasksToLeaveOut(gone []bool, tokens int) map[unit]bool {
	weigh, order := map[unit]int{}, []unit(nil)
	for i := range t.Entries {
		if gone[i] || t.Pinned(i) || t.Entries[i].Task == t.Task && t.Task != "" {
			continue
		}
		u := t.unit(i)
		if _, known := weigh[u]; !known {
			order = append(order, u)
		}
		weigh[u] += t.Tokens(i)
	}
	goes := map[unit]bool{}
	for _, ended := range []bool{true, false} {
		for _, u := range order {
			if tokens > 0 && t.Over(u.task) == ended {
				goes[u] = true
				tokens -= weigh[u]
			}
		}
	}
	return goes
}

// leftOut stands where the first entry was left out of a request.
const (
	leftOut       = "[%d earlier entries of the conversation are left out here]"
	leftOutTokens = tokens.PerEntry + 20
)

// Results cuts results of calls for a model that holds little: those of one answer fill
// at most half of the budget together, each by head and tail. It is the same in each step.
// The entries are the given ones where nothing is cut. In named ones no line may look as if it
// said who wrote what follows, so neither may the one that a cut begins.
func Results(entries []conversation.Entry, budget int, named bool) []conversation.Entry {
	shared := true
	for i := 0; i < len(entries); i++ {
		n := 0
		for i+n < len(entries) && entries[i+n].Role == conversation.RoleTool {
			n++
		}
		limit := budget * tokens.BytesEach / 2 / max(n, 1)
		for ; n > 0; n, i = n-1, i+1 {
			if len(entries[i].Text) <= limit {
				continue
			}
			if shared {
				entries, shared = slices.Clone(entries), false
			}
			if !named {
				entries[i].Text = Middle(entries[i].Text, limit)
				continue
			}
			header, text := author.Cut(entries[i].Text)
			if entries[i].Text = author.Escape(Middle(text, limit)); header != "" {
				entries[i].Text = header + "\n" + entries[i].Text
			}
		}
	}
	return entries
}
