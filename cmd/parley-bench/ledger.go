package main

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// An event is a durable frame, as far as the ledger reads it.
type event struct {
	Type string
	Seq  int
	TS   time.Time
	Task string
	Data eventData
}

type eventData struct {
	Message, Text, Disposition, Question, Heir, Before, How, Mode string
	Source, Trigger, Outcome, Cause, Reason                       string
	Call, Tool, Status, Delegation, Agent, Objective, Session     string
	ClientMsgID                                                   string   `json:"client_msg_id"`
	OldStatus                                                     string   `json:"old_status"`
	NewStatus                                                     string   `json:"new_status"`
	Messages, Read, Choices                                       []string // of tasks, steps, questions
	Part                                                          *int
	Step, Attempt                                                 int
	Promoted, Blocking                                            bool
	Args                                                          json.RawMessage
	Policy                                                        map[string]any
	Approval                                                      *struct {
		Tool string
		Args json.RawMessage
	}
}

// A ledger is what a reader of a session's log knows. It is kept event by event,
// and each event that the contract does not allow at its place is an error: the
// same ledger steers the load, judges what comes live, and judges the log.
type ledger struct {
	seq       int
	at        time.Time
	mode      string // the session's, for messages without one
	messages  map[string]*said
	clients   map[string]*said // by client_msg_id
	order     []*said
	tasks     map[string]*work
	works     []*work
	questions map[string]*asked
	asks      []*asked
	calls     map[string]*call
	parts     map[string][]shown // by source
	step      *openStep
	steps     int
	moves     []moved
	counts    map[string]int
}

type said struct {
	id, client, text, task, disposition, mode string
	at                                        int // seq
	read                                      int // the step that read it; 0 = none
	readAs                                    int // its place in that step
	edits                                     []string
	withdrawn                                 bool
	how                                       string // "" = not resolved
}

type work struct {
	id, status string
	cancelling bool
	responses  int
}

func (t *work) ended() bool {
	return t.status == "COMPLETE" || t.status == "ERROR" || t.status == "CANCELLED"
}

type asked struct {
	id, task string
	event    eventData
	closed   bool
}

type call struct {
	id, task, tool, status, session, objective string
	args                                       json.RawMessage
	started                                    bool
}

type shown struct{ message, text string }

type openStep struct {
	task          string
	step, attempt int
	read          []string
}

type moved struct {
	message, before *said
	at              int
}

func newLedger() *ledger {
	return &ledger{
		messages: map[string]*said{}, clients: map[string]*said{}, tasks: map[string]*work{},
		questions: map[string]*asked{}, calls: map[string]*call{}, parts: map[string][]shown{}, counts: map[string]int{},
	}
}

// add takes the next event of the log.
func (l *ledger) add(raw []byte) error {
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		return promise("an event that cannot be read: %v: %s", err, raw)
	}
	if e.Seq != l.seq+1 {
		return promise("seq %d comes after %d", e.Seq, l.seq)
	}
	if e.TS.Before(l.at) {
		return promise("seq %d is of %s, earlier than the one before", e.Seq, e.TS)
	}
	l.seq, l.at = e.Seq, e.TS
	l.counts[e.Type]++
	if err := l.take(&e); err != nil {
		return promise("%v, says %s", err, raw)
	}
	return nil
}

func (l *ledger) take(e *event) error {
	switch e.Type {
	case "session_created":
		l.mode, _ = e.Data.Policy["inbox.mode"].(string)
	case "message_accepted", "message_edited", "message_withdrawn", "message_moved", "message_resolved":
		return l.message(e)
	case "task_status", "task_cancelling":
		return l.task(e)
	case "step_started", "step_finished":
		return l.stepped(e)
	case "partial_response", "response":
		return l.part(e)
	case "question", "question_answered", "question_closed":
		return l.question(e)
	case "tool_started", "tool_finished", "delegation_started", "delegation_finished":
		return l.called(e)
	}
	return nil
}

func (l *ledger) message(e *event) error {
	d := &e.Data
	m := l.messages[d.Message]
	if e.Type == "message_accepted" {
		return l.accepted(e, m)
	}
	switch {
	case m == nil:
		return promise("there is no message %s", d.Message)
	case m.how != "":
		return promise("%s was resolved before (%s)", d.Message, m.how)
	case e.Type == "message_resolved":
		m.how = d.How
		l.counts["resolved "+d.How]++
		switch {
		case m.withdrawn != (d.How == "withdrawn"):
			return promise("%s is resolved %s, withdrawn: %v", d.Message, d.How, m.withdrawn)
		case d.How == "answered" && m.read == 0:
			return promise("%s is answered and was never read", d.Message)
		}
		return nil
	case m.read != 0 || m.withdrawn:
		return promise("%s was read in step %d or withdrawn", d.Message, m.read)
	}
	switch e.Type {
	case "message_edited":
		m.text, m.edits = d.Text, append(m.edits, d.Text)
	case "message_withdrawn":
		m.withdrawn = true
	case "message_moved":
		l.moves = append(l.moves, moved{m, l.messages[d.Before], e.Seq})
	}
	return nil
}

func (l *ledger) accepted(e *event, twice *said) error {
	d := &e.Data
	if twice != nil {
		return promise("the message id %s was given before", d.Message)
	}
	if other := l.clients[d.ClientMsgID]; other != nil && d.ClientMsgID != "" {
		return promise("%s was accepted as %s and as %s", d.ClientMsgID, other.id, d.Message)
	}
	m := &said{id: d.Message, client: d.ClientMsgID, text: d.Text, task: e.Task, disposition: d.Disposition, mode: d.Mode, at: e.Seq}
	if m.mode == "" {
		m.mode = l.mode
	}
	l.messages[m.id], l.clients[m.client] = m, m
	l.order = append(l.order, m)
	l.counts["mode "+d.Mode]++
	t := l.tasks[e.Task]
	switch d.Disposition {
	case "started", "queued":
		if t != nil {
			return promise("task %s is made twice", e.Task)
		}
		l.newTask(e.Task)
	case "joined":
		if t == nil || t.ended() || t.cancelling {
			return promise("%s joins task %s, which it cannot", m.id, e.Task)
		}
	case "answered":
		q := l.questions[d.Question]
		if q == nil || q.closed {
			return promise("%s answers question %s, which is not open", m.id, d.Question)
		}
	}
	return nil
}

func (l *ledger) newTask(id string) {
	t := &work{id: id, status: "QUEUED"}
	l.tasks[id] = t
	l.works = append(l.works, t)
}

func (l *ledger) task(e *event) error {
	d := &e.Data
	t := l.tasks[e.Task]
	if e.Type == "task_cancelling" {
		if t == nil || t.ended() || t.cancelling {
			return promise("task %s cannot be cancelled", e.Task)
		}
		t.cancelling = true
		return nil
	}
	if d.OldStatus == "" {
		if t != nil {
			return promise("task %s is made twice", e.Task)
		}
		l.newTask(e.Task)
		for _, id := range d.Messages {
			m := l.messages[id]
			if m == nil || m.read != 0 {
				return promise("%s is left over and not waiting", id)
			}
			m.task = e.Task
		}
		return nil
	}
	if t == nil || t.status != d.OldStatus || t.ended() {
		return promise("task %s is not %s", e.Task, d.OldStatus)
	}
	t.status = d.NewStatus
	l.counts["task "+d.NewStatus]++
	if t.status == "RUNNING" {
		for _, other := range l.works {
			if other != t && other.status == "RUNNING" {
				return promise("tasks %s and %s are RUNNING", other.id, t.id)
			}
		}
	}
	if t.ended() {
		return l.atEnd(t)
	}
	return nil
}

// atEnd looks for what an ended task must not leave open.
func (l *ledger) atEnd(t *work) error {
	if l.step != nil && l.step.task == t.id {
		return promise("task %s has ended in step %d", t.id, l.step.step)
	}
	for _, c := range l.calls {
		if c.task == t.id && c.status == "" {
			return promise("task %s has ended and call %s has not", t.id, c.id)
		}
	}
	for _, q := range l.questions {
		if q.task == t.id && !q.closed {
			return promise("task %s has ended and question %s is open", t.id, q.id)
		}
	}
	return nil
}

func (l *ledger) stepped(e *event) error {
	d := &e.Data
	if e.Type == "step_finished" {
		if l.step == nil || l.step.task != e.Task || l.step.step != d.Step || l.step.attempt != d.Attempt {
			return promise("step %d.%d is not open", d.Step, d.Attempt)
		}
		l.step = nil
		return nil
	}
	if t := l.tasks[e.Task]; t == nil || t.status != "RUNNING" || t.cancelling {
		return promise("task %s is not RUNNING", e.Task)
	}
	if d.Attempt > 1 {
		l.counts["attempt "+d.Cause]++
		if o := l.step; o == nil || o.task != e.Task || o.step != d.Step || o.attempt != d.Attempt-1 || !slices.Equal(o.read, d.Read) {
			return promise("attempt %d of step %d does not follow attempt %d of the same", d.Attempt, d.Step, d.Attempt-1)
		}
		l.step.attempt = d.Attempt
		return nil
	}
	if l.step != nil {
		return promise("step %d is open", l.step.step)
	}
	if l.steps++; d.Step != l.steps {
		return promise("step %d is the %dth", d.Step, l.steps)
	}
	l.step = &openStep{e.Task, d.Step, d.Attempt, d.Read}
	for i, id := range d.Read {
		m := l.messages[id]
		if m == nil || m.read != 0 || m.withdrawn || m.task != e.Task {
			return promise("%s is not there to be read", id)
		}
		m.read, m.readAs = d.Step, i
	}
	return nil
}

func (l *ledger) part(e *event) error {
	d := &e.Data
	if d.Part == nil {
		return nil
	}
	have := l.parts[d.Source]
	if d.Promoted {
		if *d.Part >= len(have) || have[*d.Part] != (shown{d.Message, d.Text}) {
			return promise("part (%s %d) is promoted and was not shown so", d.Source, *d.Part)
		}
	} else {
		switch {
		case *d.Part < len(have):
			return promise("part (%s %d) is there twice", d.Source, *d.Part)
		case *d.Part > len(have):
			return promise("part (%s %d) comes after %d parts", d.Source, *d.Part, len(have))
		}
		l.parts[d.Source] = append(have, shown{d.Message, d.Text})
		l.counts["part"]++
	}
	if t := l.tasks[e.Task]; e.Type == "response" && t != nil {
		if t.responses++; t.responses > 1 {
			return promise("task %s has two responses", t.id)
		}
	}
	return nil
}

func (l *ledger) question(e *event) error {
	d := &e.Data
	q := l.questions[d.Question]
	if e.Type == "question" {
		if t := l.tasks[e.Task]; q != nil || t == nil || t.ended() || t.cancelling {
			return promise("question %s cannot be asked", d.Question)
		}
		q = &asked{id: d.Question, task: e.Task, event: *d}
		l.questions[q.id] = q
		l.asks = append(l.asks, q)
		if d.Approval != nil {
			l.counts["approval"]++
		}
		return nil
	}
	if q == nil || q.closed {
		return promise("question %s is not open", d.Question)
	}
	q.closed = true
	if d.Message != "" && l.messages[d.Message] == nil {
		return promise("question %s is answered by %s, which is no message", d.Question, d.Message)
	}
	return nil
}

func (l *ledger) called(e *event) error {
	d := &e.Data
	id := d.Call
	if strings.HasPrefix(e.Type, "delegation_") {
		id = d.Delegation
	}
	c := l.calls[id]
	switch e.Type {
	case "tool_started", "delegation_started":
		if t := l.tasks[e.Task]; c != nil || t == nil || t.ended() || t.cancelling {
			return promise("call %s cannot start", id)
		}
		l.calls[id] = &call{id: id, task: e.Task, tool: d.Tool, session: d.Session, objective: d.Objective, args: d.Args, started: true}
		return nil
	}
	switch {
	case c == nil && e.Type == "tool_finished" && (d.Status == "denied" || d.Status == "cancelled"): // it waited for an approval
		c = &call{id: id, task: e.Task}
		l.calls[id] = c
	case c == nil:
		return promise("call %s has not started", id)
	case c.status != "":
		return promise("call %s has two results, %s and %s", id, c.status, d.Status)
	}
	c.status = d.Status
	l.counts["call "+d.Status]++
	return nil
}

// closed looks for what is open at the end of everything.
func (l *ledger) closed() error {
	for _, m := range l.order {
		if m.how == "" {
			return promise("%s (%s) has no resolution", m.id, m.client)
		}
	}
	for _, t := range l.works {
		if !t.ended() {
			return promise("task %s is %s", t.id, t.status)
		}
	}
	for i := range l.moves {
		if err := l.keptOrder(i); err != nil {
			return err
		}
	}
	return nil // what is open of an ended task was found at its end
}

// keptOrder holds a move against the order in which the messages were read. It
// judges the plain case: nothing of either task was moved later, both messages
// were read, and no window of collect held one of them back.
func (l *ledger) keptOrder(i int) error {
	a, b := l.moves[i].message, l.moves[i].before
	if b == nil || a.read == 0 || b.read == 0 || a.mode == "collect" || b.mode == "collect" {
		return nil
	}
	for _, later := range l.moves[i+1:] {
		if t := later.message.task; t == a.task || t == b.task {
			return nil
		}
	}
	if a.read > b.read || a.read == b.read && a.readAs > b.readAs {
		return promise("%s was moved before %s (seq %d) and was read after it", a.id, b.id, l.moves[i].at)
	}
	return nil
}

// busy is true while the session does something by itself.
func (l *ledger) busy() bool {
	return slices.ContainsFunc(l.works, func(t *work) bool { return t.status == "RUNNING" || t.status == "QUEUED" })
}

// ended is true when no task is left that has not ended.
func (l *ledger) ended() bool {
	return !slices.ContainsFunc(l.works, func(t *work) bool { return !t.ended() })
}

// waiting are the messages that may still be edited, withdrawn and moved.
func (l *ledger) waiting() []*said {
	var all []*said
	for _, m := range l.order {
		if m.read == 0 && m.how == "" && !m.withdrawn && m.disposition != "answered" {
			all = append(all, m)
		}
	}
	return all
}

// open are the open questions.
func (l *ledger) open() []*asked {
	var all []*asked
	for _, q := range l.asks {
		if !q.closed {
			all = append(all, q)
		}
	}
	return all
}
