package receipts

import (
	"encoding/json"
	"fmt"
	"slices"
)

// event is a durable event as a client reads it, with those fields that are looked at.
type event struct {
	Type string
	Task string
	Data struct {
		Message     string
		ClientMsgID string `json:"client_msg_id"`
		Text        string
		Source      string
		Part        *int
		How         string
		Evidence    string
		Question    string
		Delegation  string
		Session     string
		Call        string
		Approval    *struct{}
		NewStatus   string `json:"new_status"`
		Promoted    bool
		Messages    []string
		Outcome     string
		Model       string
		Usage       *usage
		Step        int
	}
}

// usage is what model calls have used, in tokens.
type usage struct {
	Input     int64 `json:"input_tokens"`
	Cached    int64 `json:"cached_tokens"` // of the input
	Output    int64 `json:"output_tokens"`
	Estimated bool  `json:"estimated,omitempty"` // by the engine: the provider did not say all of it
}

func (u *usage) add(b usage) {
	u.Input += b.Input
	u.Cached += b.Cached
	u.Output += b.Output
	u.Estimated = u.Estimated || b.Estimated
}

// part is something that the model said.
type part struct {
	Task  string
	Index int
	Text  string

	nudged bool // said in a step that a nudge opened
}

// message is what became of one message.
type message struct {
	id       string
	resolved bool
	how      string
	evidence string
	task     string // whose part answered it
	part     int    // -1 = none
	question string // that it was taken to answer
}

// question is one that is open.
type question struct {
	id       string
	approval bool // of a call: yes or no
}

// step is one of a task.
type step struct {
	number int  // 0 = it has not begun
	nudge  bool // it was opened by one
}

// history is what the events of a session have said.
type history struct {
	events   int
	tasks    map[string]string // status
	messages map[string]*message
	byClient map[string]*message
	parts    []part
	open     []question
	calls    map[string]bool // that run
	running  map[string]bool // tasks with an open step
	asked    int             // model calls, repeated ones too
	nudged   int             // messages that were nudged for
	nudges   int             // steps that were opened for it
	steps    map[string]step // the last one of each task
	failed   int             // steps that came to nothing
	used     usage
	children []string // sub-sessions
	model    string   // that answered last
}

func newHistory() *history {
	return &history{tasks: map[string]string{}, messages: map[string]*message{}, byClient: map[string]*message{}, calls: map[string]bool{}, running: map[string]bool{}, steps: map[string]step{}}
}

// add reads one durable event.
func (h *history) add(raw []byte) error {
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("an event that cannot be read: %w: %s", err, raw)
	}
	h.events++
	d := &e.Data
	switch e.Type {
	case "message_accepted":
		m := &message{id: d.Message, part: -1}
		h.messages[d.Message], h.byClient[d.ClientMsgID] = m, m
		if _, known := h.tasks[e.Task]; !known && e.Task != "" {
			h.tasks[e.Task] = "QUEUED"
		}
	case "message_resolved":
		if m := h.messages[d.Message]; m != nil {
			m.resolved, m.how, m.evidence, m.task, m.question = true, d.How, d.Evidence, e.Task, d.Question
			if d.Part != nil {
				m.part = *d.Part
			}
		}
	case "partial_response", "response":
		if !d.Promoted && d.Part != nil {
			h.parts = append(h.parts, part{Task: e.Task, Index: *d.Part, Text: d.Text, nudged: h.steps[e.Task].nudge})
		}
	case "task_status":
		h.tasks[e.Task] = d.NewStatus
	case "question":
		h.open = append(h.open, question{d.Question, d.Approval != nil})
	case "question_answered", "question_closed":
		h.open = slices.DeleteFunc(h.open, func(q question) bool { return q.id == d.Question })
	case "coverage_nudge":
		h.nudged += len(d.Messages)
		h.nudges++
		h.steps[e.Task] = step{nudge: true} // the next one
	case "delegation_started":
		h.calls[d.Delegation] = true
		h.children = append(h.children, d.Session)
	case "delegation_finished":
		delete(h.calls, d.Delegation)
	case "tool_started":
		h.calls[d.Call] = true
	case "tool_finished":
		delete(h.calls, d.Call)
	case "step_started":
		h.asked++
		if s := h.steps[e.Task]; s.number != d.Step { // else it is another attempt
			h.steps[e.Task] = step{d.Step, s.nudge && s.number == 0}
		}
		h.running[e.Task] = true
		h.use(d.Usage) // of the attempt that failed
	case "step_finished":
		delete(h.running, e.Task)
		h.use(d.Usage)
		if d.Outcome != "ok" {
			h.failed++
		}
		if d.Model != "" {
			h.model = d.Model
		}
	}
	return nil
}

func (h *history) use(u *usage) {
	if u != nil {
		h.used.add(*u)
	}
}

// resting is true if nothing will happen before somebody says something: no task runs
// or waits for its turn, and one that waits for an answer has asked something.
func (h *history) resting() bool {
	for _, status := range h.tasks {
		switch status {
		case "COMPLETE", "ERROR", "CANCELLED":
		case "AWAITING_RESPONSE":
			if len(h.open) == 0 {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// text is what a part of a task said.
func (h *history) text(task string, index int) (string, bool) {
	for _, p := range h.parts {
		if p.Task == task && p.Index == index {
			return p.Text, true
		}
	}
	return "", false
}
