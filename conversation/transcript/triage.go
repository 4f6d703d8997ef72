package transcript

import (
	"slices"

	"parley/conversation"
)

// report notes for the next step, of whatever task, what the triage agent says of the
// waiting messages. The newest one counts.
// Rule 9.16.
func (t *Transcript) report(text string) {
	if text == "" {
		return // messages were moved: their order says it
	}
	t.dropReport()
	t.tell("", conversation.Entry{Role: conversation.RoleUser, Text: "[triage of the waiting messages: " + text + "]"})
	news := t.news[""]
	news[len(news)-1].report = true
}

// dropReport drops a report that no step has been shown: it spoke of messages that say
// something else now.
func (t *Transcript) dropReport() {
	t.news[""] = slices.DeleteFunc(t.news[""], func(n noted) bool { return n.report })
}
