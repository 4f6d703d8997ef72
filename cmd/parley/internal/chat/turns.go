package chat

import (
	parley "parley/clients/go"
)

// turns knows what became of the messages that were sent.
type turns struct {
	open      map[string]bool   // messages without an end
	tasks     map[string]string // message → the task that it went to
	merged    map[string]bool   // tasks that have taken such a message in, and go on
	ended     map[string]bool   // tasks
	known     map[string]string // resolutions that came before their receipt
	replied   map[string]bool   // messages that a part is shown as the reply to
	unproven  map[string]bool   // messages that nothing answered, of tasks that may still say something
	questions []parley.Question // open ones that a task waits for, and that people are asked
	results   callers           // what a program is asked that brought tools
	why       string            // the sentence of what failed
	failed    bool
}

func newTurns() *turns {
	return &turns{open: map[string]bool{}, tasks: map[string]string{}, merged: map[string]bool{}, ended: map[string]bool{}, known: map[string]string{}, replied: map[string]bool{}, unproven: map[string]bool{}}
}

// sent takes the receipt of a message; its end may have come before.
func (t *turns) sent(r parley.Receipt) {
	t.tasks[r.Message] = r.Task
	if how, ended := t.known[r.Message]; ended {
		t.end(r.Message, how)
		return
	}
	t.open[r.Message] = true
}

func (t *turns) end(message, how string) {
	delete(t.open, message)
	switch how {
	case "answered", "dismissed", "withdrawn":
	case "merged":
		if task := t.tasks[message]; task != "" && !t.ended[task] {
			t.merged[task] = true
		}
	case "unanswered": // nothing proves an answer; a reply that is shown is one
		switch task := t.tasks[message]; {
		case t.replied[message]:
		case task == "" || t.ended[task]:
			t.fail("the message got no answer")
		default:
			t.unproven[message] = true
		}
	default:
		t.fail(map[string]string{"failed": "the message failed", "cancelled": "the message was cancelled"}[how])
	}
}

func (t *turns) fail(why string) {
	t.failed = true
	if t.why == "" {
		t.why = why
	}
}

// said takes a part.
func (t *turns) said(p parley.Part) {
	t.replied[p.InReplyTo] = true
	delete(t.unproven, p.InReplyTo)
}

// apply takes an event.
func (t *turns) apply(e parley.Event) {
	switch b := e.Body.(type) {
	case *parley.Followed:
		t.questions = nil
		t.results.open(b.State)
		for _, q := range b.State.Questions {
			if q.Blocking && !t.results.asked(&q.Question) {
				t.questions = append(t.questions, q.Question)
			}
		}
	case *parley.ToolStarted:
		t.results.started(b)
	case *parley.ToolFinished:
		t.results.finished(b)
	case *parley.Question:
		if b.Blocking && !t.results.asked(b) {
			t.closed(b.ID)
			t.questions = append(t.questions, *b)
		}
	case *parley.QuestionAnswered:
		t.closed(b.Question)
	case *parley.QuestionClosed:
		t.closed(b.Question)
	case *parley.PartialResponse:
		t.said(b.Part)
	case *parley.Response:
		if b.Kind == "error" {
			t.why = b.Text
		}
		t.said(b.Part)
	case *parley.MessageResolved:
		if _, mine := t.tasks[b.Message]; mine {
			t.end(b.Message, b.How)
		} else {
			t.known[b.Message] = b.How
		}
	case *parley.TaskStatus:
		switch b.NewStatus {
		case "COMPLETE", "ERROR", "CANCELLED":
			t.ended[b.Task] = true
			for message := range t.unproven {
				if t.tasks[message] == b.Task {
					delete(t.unproven, message)
					t.fail("the message got no answer")
				}
			}
			if t.merged[b.Task] && b.NewStatus != "COMPLETE" {
				t.failed = true
				if b.Error != nil && t.why == "" {
					t.why = b.Error.Message
				}
			}
			delete(t.merged, b.Task)
		}
	}
}

// callers are the open calls of tools that a program runs, which brought them to the session:
// their names, by call. The question for the result of one is no person's: what somebody
// types here is not a result.
type callers map[string]string

// open takes them from the state of a follow.
func (c *callers) open(state parley.State) {
	*c = nil
	for _, call := range state.Calls {
		if call.Caller {
			c.add(call.Call, call.Tool)
		}
	}
}

func (c *callers) started(b *parley.ToolStarted) {
	if b.Caller {
		c.add(b.Call, b.Tool)
	}
}

func (c *callers) add(call, tool string) {
	if *c == nil {
		*c = callers{}
	}
	(*c)[call] = tool
}

func (c callers) finished(b *parley.ToolFinished) { delete(c, b.Call) }

// asked is true for the question for the result of such a call.
func (c callers) asked(q *parley.Question) bool {
	_, is := c[q.Call]
	return is && q.Call != ""
}

// note says what is waited for.
func (c callers) note(q *parley.Question) string {
	return line(c[q.Call]) + " waits for its result, which a program gives"
}

func (t *turns) closed(question string) {
	kept := t.questions[:0]
	for _, q := range t.questions {
		if q.ID != question {
			kept = append(kept, q)
		}
	}
	t.questions = kept
}

// done says that everything that was sent has its end.
func (t *turns) done() bool { return len(t.open)+len(t.merged)+len(t.unproven) == 0 }

// code is the exit code of that.
func (t *turns) code() int {
	switch {
	case t.failed:
		return Failed
	case len(t.questions) > 0:
		return Asked
	default:
		return Answered
	}
}
