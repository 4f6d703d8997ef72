package request

import "strings"

// Told is what a new session is told besides: the instructions, and of the history the newest
// bytes, most at most.
func (w *Intent) Told(most int) (text string) {
	if w.Instructions != nil {
		text = *w.Instructions
	}
	if w.History != "" && most > 0 {
		text = strings.TrimSpace(text + "\n\n" + historyHead + newest(w.History, most))
	}
	return text
}

// historyHead goes before what a client, which keeps its conversations itself, says of one.
const historyHead = "The conversation so far, as the user's program tells it:\n"

// How much of that is kept, in bytes: the newest of it. Less than the least is not worth it.
const (
	MaxHistory   = 12 << 10
	LeastHistory = 256
)

func newest(history string, most int) string {
	if len(history) <= most {
		return history
	}
	history = history[len(history)-most:]
	if i := strings.IndexByte(history, '\n'); i >= 0 {
		history = history[i+1:]
	}
	return "(the beginning is left out)\n" + strings.ToValidUTF8(history, "")
}
