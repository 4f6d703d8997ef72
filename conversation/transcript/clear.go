package transcript

import (
	"slices"

	"parley/conversation"
)

// Clear takes that the context was cleared at a seq: what lies up to there is shown to
// the task that it belongs to, and to no other. A transcript that is rebuilt is told
// before it is fed, for the event may not be in what it is fed; else the event says it.
// Rule 9.15.
func (t *Transcript) Clear(at conversation.Seq) {
	if at <= t.cleared {
		return
	}
	t.cleared, t.base, t.origin = at, max(t.base, at), ""
	for i := range t.traces {
		if t.traces[i].pin == pinOrigin { // of an open task: it is one of its messages
			if t.shared { // a request still shows it
				t.entries, t.shared = slices.Clone(t.entries), false
			}
			t.traces[i].pin, t.entries[i].Pinned = pinNone, false
		}
	}
	t.news[""] = slices.DeleteFunc(t.news[""], func(n noted) bool { return n.seq <= at })
	t.dropCleared()
}

// dropCleared drops what was cleared and belongs to no open task: it is shown to
// nobody any more.
func (t *Transcript) dropCleared() {
	if t.cleared > 0 {
		t.drop(func(i int) bool { return t.traces[i].seq <= t.cleared && t.over(t.entries[i].Task) })
	}
}

// drop drops entries that are shown to nobody any more.
func (t *Transcript) drop(goes func(i int) bool) {
	first := 0
	for first < len(t.entries) && !goes(first) {
		first++
	}
	if first == len(t.entries) {
		return
	}
	entries, ms := slices.Clone(t.entries[:first]), slices.Clone(t.traces[:first])
	for i := first; i < len(t.entries); i++ {
		if goes(i) {
			t.counts = minus(t.counts, t.traces[i].counts)
		} else {
			entries, ms = append(entries, t.entries[i]), append(ms, t.traces[i])
		}
	}
	t.entries, t.traces, t.shared = entries, ms, false
	t.forget()
}

// hides is true for an entry that was cleared and is of another task than the one that
// is shown the rest.
func (t *Transcript) hides(i int, task conversation.TaskID) bool {
	return t.traces[i].seq <= t.cleared && t.entries[i].Task != task
}

// visible are the entries that a task may be shown, and the others: nil where there
// are none.
func (t *Transcript) visible(task conversation.TaskID) (tokens int, hidden []bool) {
	tokens = t.Size()
	apart, calls := t.askedAlone(task), map[string]bool(nil)
	if apart != nil {
		calls = map[string]bool{}
	}
	for i := 0; (t.cleared > 0 || apart != nil) && i < len(t.entries); i++ {
		if !t.hides(i, task) && (apart == nil || t.entries[i].Task != task || !apart.leavesOut(&t.entries[i], &t.traces[i], calls)) {
			continue
		}
		if hidden == nil {
			hidden = make([]bool, len(t.entries))
		}
		hidden[i] = true
		tokens -= t.traces[i].counts.Tokens
	}
	return tokens, hidden
}

// quotes says that the last entry noted for a task quotes some of its messages: it is
// as old as the oldest of them, so that a clear between hides it with them.
func (t *Transcript) quotes(task conversation.TaskID, messages []conversation.MessageID) {
	last := &t.news[task][len(t.news[task])-1]
	for _, o := range t.open[task] {
		if slices.Contains(messages, o.id) {
			last.seq = min(last.seq, o.seq)
		}
	}
}
