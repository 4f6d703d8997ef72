package checker

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// event is a durable frame, as far as the model reads it.
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

// model is the state of a session as its events say. Applying an event that the
// contract does not allow at its place is a violation. The same model chooses the
// next operations, checks the events as they come, and checks the log.
type model struct {
	seq           int
	at            time.Time
	mode          string // the inbox mode of messages that ask for none
	messages      map[string]*message
	byClientMsgID map[string]*message
	messageOrder  []*message
	tasks         map[string]*task
	taskOrder     []*task
	questions     map[string]*question
	questionOrder []*question
	calls         map[string]*call
	parts         map[string][]part // by source
	step          *openStep
	steps         int
	newest        attempt // the last one that has started
	moves         []move
	counts        map[string]int
}

type message struct {
	id, clientMsgID, text, task, disposition, mode string
	at                                             int // seq
	read                                           int // the step that read it; 0 = none
	readIndex                                      int // its index in that step
	edits                                          []string
	withdrawn                                      bool
	resolution                                     string // "" = not resolved
}

type task struct {
	id, status string
	cancelling bool
	responses  int
}

func (t *task) ended() bool {
	return t.status == "COMPLETE" || t.status == "ERROR" || t.status == "CANCELLED"
}

type question struct {
	id, task string
	event    eventData
	closed   bool
}

type call struct {
	id, task, tool, status, session, objective string
	args                                       json.RawMessage
	started                                    bool
}

type part struct{ message, text string }

// attempt is one of the attempts at a step.
type attempt struct{ step, number int }

type openStep struct {
	task          string
	step, attempt int
	read          []string
}

type move struct {
	message, before *message
	at              int
}

func newModel() *model {
	return &model{
		messages: map[string]*message{}, byClientMsgID: map[string]*message{}, tasks: map[string]*task{},
		questions: map[string]*question{}, calls: map[string]*call{}, parts: map[string][]part{}, counts: map[string]int{},
	}
}

// apply takes the next event of the log.
func (md *model) apply(raw []byte) error {
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		return violationf("an event that cannot be read: %v: %s", err, raw)
	}
	if e.Seq != md.seq+1 {
		return violationf("seq %d comes after %d", e.Seq, md.seq)
	}
	if e.TS.Before(md.at) {
		return violationf("seq %d is of %s, earlier than the one before", e.Seq, e.TS)
	}
	md.seq, md.at = e.Seq, e.TS
	md.counts[e.Type]++
	if err := md.dispatch(&e); err != nil {
		return violationf("%v, says %s", err, raw)
	}
	return nil
}

func (md *model) dispatch(e *event) error {
	switch e.Type {
	case "session_created":
		md.mode, _ = e.Data.Policy["inbox.mode"].(string)
	case "message_accepted", "message_edited", "message_withdrawn", "message_moved", "message_resolved":
		return md.applyMessage(e)
	case "task_status", "task_cancelling":
		return md.applyTask(e)
	case "step_started", "step_finished":
		return md.applyStep(e)
	case "partial_response", "response":
		return md.applyPart(e)
	case "question", "question_answered", "question_closed":
		return md.applyQuestion(e)
	case "tool_started", "tool_finished", "delegation_started", "delegation_finished":
		return md.applyCall(e)
	}
	return nil
}

func (md *model) applyMessage(e *event) error {
	d := &e.Data
	m := md.messages[d.Message]
	if e.Type == "message_accepted" {
		return md.applyAccepted(e, m)
	}
	switch {
	case m == nil:
		return violationf("there is no message %s", d.Message)
	case m.resolution != "":
		return violationf("%s was resolved before (%s)", d.Message, m.resolution)
	case e.Type == "message_resolved":
		m.resolution = d.How
		md.counts["resolved "+d.How]++
		switch {
		case m.withdrawn != (d.How == "withdrawn"):
			return violationf("%s is resolved %s, withdrawn: %v", d.Message, d.How, m.withdrawn)
		case d.How == "answered" && m.read == 0:
			return violationf("%s is answered and was never read", d.Message)
		}
		return nil
	case m.read != 0 || m.withdrawn:
		return violationf("%s was read in step %d or withdrawn", d.Message, m.read)
	}
	switch e.Type {
	case "message_edited":
		m.text, m.edits = d.Text, append(m.edits, d.Text)
	case "message_withdrawn":
		m.withdrawn = true
	case "message_moved":
		md.moves = append(md.moves, move{m, md.messages[d.Before], e.Seq})
	}
	return nil
}

func (md *model) applyAccepted(e *event, twice *message) error {
	d := &e.Data
	if twice != nil {
		return violationf("the message id %s was given before", d.Message)
	}
	if other := md.byClientMsgID[d.ClientMsgID]; other != nil && d.ClientMsgID != "" {
		return violationf("%s was accepted as %s and as %s", d.ClientMsgID, other.id, d.Message)
	}
	m := &message{id: d.Message, clientMsgID: d.ClientMsgID, text: d.Text, task: e.Task, disposition: d.Disposition, mode: d.Mode, at: e.Seq}
	if m.mode == "" {
		m.mode = md.mode
	}
	md.messages[m.id], md.byClientMsgID[m.clientMsgID] = m, m
	md.messageOrder = append(md.messageOrder, m)
	md.counts["mode "+d.Mode]++
	t := md.tasks[e.Task]
	switch d.Disposition {
	case "started", "queued":
		if t != nil {
			return violationf("task %s is made twice", e.Task)
		}
		md.newTask(e.Task)
	case "joined":
		if t == nil || t.ended() || t.cancelling {
			return violationf("%s joins task %s, which it cannot", m.id, e.Task)
		}
	case "answered":
		q := md.questions[d.Question]
		if q == nil || q.closed {
			return violationf("%s answers question %s, which is not open", m.id, d.Question)
		}
	}
	return nil
}

func (md *model) newTask(id string) {
	t := &task{id: id, status: "QUEUED"}
	md.tasks[id] = t
	md.taskOrder = append(md.taskOrder, t)
}

func (md *model) applyTask(e *event) error {
	d := &e.Data
	t := md.tasks[e.Task]
	if e.Type == "task_cancelling" {
		if t == nil || t.ended() { // again is right: a node of a cluster gives every cancel an id, which the log keeps
			return violationf("task %s cannot be cancelled", e.Task)
		}
		t.cancelling = true
		return nil
	}
	if d.OldStatus == "" {
		if t != nil {
			return violationf("task %s is made twice", e.Task)
		}
		md.newTask(e.Task)
		for _, id := range d.Messages {
			m := md.messages[id]
			if m == nil || m.read != 0 {
				return violationf("%s is left over and not waiting", id)
			}
			m.task = e.Task
		}
		return nil
	}
	if t == nil || t.status != d.OldStatus || t.ended() {
		return violationf("task %s is not %s", e.Task, d.OldStatus)
	}
	t.status = d.NewStatus
	md.counts["task "+d.NewStatus]++
	if t.status == "RUNNING" {
		for _, other := range md.taskOrder {
			if other != t && other.status == "RUNNING" {
				return violationf("tasks %s and %s are RUNNING", other.id, t.id)
			}
		}
	}
	if t.ended() {
		return md.checkTaskEnd(t)
	}
	return nil
}

// checkTaskEnd finds steps, calls and questions that an ended task left open.
func (md *model) checkTaskEnd(t *task) error {
	if md.step != nil && md.step.task == t.id {
		return violationf("task %s has ended in step %d", t.id, md.step.step)
	}
	for _, c := range md.calls {
		if c.task == t.id && c.status == "" {
			return violationf("task %s has ended and call %s has not", t.id, c.id)
		}
	}
	for _, q := range md.questions {
		if q.task == t.id && !q.closed {
			return violationf("task %s has ended and question %s is open", t.id, q.id)
		}
	}
	return nil
}

func (md *model) applyStep(e *event) error {
	d := &e.Data
	if e.Type == "step_finished" {
		if md.step == nil || md.step.task != e.Task || md.step.step != d.Step || md.step.attempt != d.Attempt {
			return violationf("step %d.%d is not open", d.Step, d.Attempt)
		}
		md.step = nil
		return nil
	}
	if t := md.tasks[e.Task]; t == nil || t.status != "RUNNING" || t.cancelling {
		return violationf("task %s is not RUNNING", e.Task)
	}
	md.newest = attempt{d.Step, d.Attempt}
	if d.Attempt > 1 {
		md.counts["attempt "+d.Cause]++
		if o := md.step; o == nil || o.task != e.Task || o.step != d.Step || o.attempt != d.Attempt-1 || !slices.Equal(o.read, d.Read) {
			return violationf("attempt %d of step %d does not follow attempt %d of the same", d.Attempt, d.Step, d.Attempt-1)
		}
		md.step.attempt = d.Attempt
		return nil
	}
	if md.step != nil {
		return violationf("step %d is open", md.step.step)
	}
	if md.steps++; d.Step != md.steps {
		return violationf("step %d is the %dth", d.Step, md.steps)
	}
	md.step = &openStep{e.Task, d.Step, d.Attempt, d.Read}
	for i, id := range d.Read {
		m := md.messages[id]
		if m == nil || m.read != 0 || m.withdrawn || m.task != e.Task {
			return violationf("%s is not there to be read", id)
		}
		m.read, m.readIndex = d.Step, i
	}
	return nil
}

func (md *model) applyPart(e *event) error {
	d := &e.Data
	if d.Part == nil {
		return nil
	}
	have := md.parts[d.Source]
	if d.Promoted {
		if *d.Part >= len(have) || have[*d.Part] != (part{d.Message, d.Text}) {
			return violationf("part (%s %d) is promoted and was not shown so", d.Source, *d.Part)
		}
	} else {
		switch {
		case *d.Part < len(have):
			return violationf("part (%s %d) is there twice", d.Source, *d.Part)
		case *d.Part > len(have):
			return violationf("part (%s %d) comes after %d parts", d.Source, *d.Part, len(have))
		}
		md.parts[d.Source] = append(have, part{d.Message, d.Text})
		md.counts["part"]++
	}
	if t := md.tasks[e.Task]; e.Type == "response" && t != nil {
		if t.responses++; t.responses > 1 {
			return violationf("task %s has two responses", t.id)
		}
	}
	return nil
}

func (md *model) applyQuestion(e *event) error {
	d := &e.Data
	q := md.questions[d.Question]
	if e.Type == "question" {
		if t := md.tasks[e.Task]; q != nil || t == nil || t.ended() || t.cancelling {
			return violationf("question %s cannot be asked", d.Question)
		}
		q = &question{id: d.Question, task: e.Task, event: *d}
		md.questions[q.id] = q
		md.questionOrder = append(md.questionOrder, q)
		if d.Approval != nil {
			md.counts["approval"]++
		}
		return nil
	}
	if q == nil || q.closed {
		return violationf("question %s is not open", d.Question)
	}
	q.closed = true
	if d.Message != "" && md.messages[d.Message] == nil {
		return violationf("question %s is answered by %s, which is no message", d.Question, d.Message)
	}
	return nil
}

func (md *model) applyCall(e *event) error {
	d := &e.Data
	id := d.Call
	if strings.HasPrefix(e.Type, "delegation_") {
		id = d.Delegation
	}
	c := md.calls[id]
	switch e.Type {
	case "tool_started", "delegation_started":
		if t := md.tasks[e.Task]; c != nil || t == nil || t.ended() || t.cancelling {
			return violationf("call %s cannot start", id)
		}
		md.calls[id] = &call{id: id, task: e.Task, tool: d.Tool, session: d.Session, objective: d.Objective, args: d.Args, started: true}
		return nil
	}
	switch {
	case c == nil && e.Type == "tool_finished" && (d.Status == "denied" || d.Status == "cancelled"): // it waited for an approval
		c = &call{id: id, task: e.Task}
		md.calls[id] = c
	case c == nil:
		return violationf("call %s has not started", id)
	case c.status != "":
		return violationf("call %s has two results, %s and %s", id, c.status, d.Status)
	}
	c.status = d.Status
	md.counts["call "+d.Status]++
	return nil
}

// checkEnd finds what is open when all work has ended.
func (md *model) checkEnd() error {
	for _, m := range md.messageOrder {
		if m.resolution == "" {
			return violationf("%s (%s) has no resolution", m.id, m.clientMsgID)
		}
	}
	for _, t := range md.taskOrder {
		if !t.ended() {
			return violationf("task %s is %s", t.id, t.status)
		}
	}
	for i := range md.moves {
		if err := md.checkMove(i); err != nil {
			return err
		}
	}
	return nil // checkTaskEnd has found what ended tasks left open
}

// checkMove compares a move with the order in which the messages were read, in the
// plain case: nothing of either task was moved later, both messages were read, and
// no collect window held one of them back.
func (md *model) checkMove(i int) error {
	a, b := md.moves[i].message, md.moves[i].before
	if b == nil || a.read == 0 || b.read == 0 || a.mode == "collect" || b.mode == "collect" {
		return nil
	}
	for _, later := range md.moves[i+1:] {
		if t := later.message.task; t == a.task || t == b.task {
			return nil
		}
	}
	if a.read > b.read || a.read == b.read && a.readIndex > b.readIndex {
		return violationf("%s was moved before %s (seq %d) and was read after it", a.id, b.id, md.moves[i].at)
	}
	return nil
}

// busy is true while a task runs or is queued.
func (md *model) busy() bool {
	return slices.ContainsFunc(md.taskOrder, func(t *task) bool { return t.status == "RUNNING" || t.status == "QUEUED" })
}

// allEnded is true when every task has ended.
func (md *model) allEnded() bool {
	return !slices.ContainsFunc(md.taskOrder, func(t *task) bool { return !t.ended() })
}

// waiting are the messages that may still be edited, withdrawn and moved.
func (md *model) waiting() []*message {
	var all []*message
	for _, m := range md.messageOrder {
		if m.read == 0 && m.resolution == "" && !m.withdrawn && m.disposition != "answered" {
			all = append(all, m)
		}
	}
	return all
}

// openQuestions are those without an answer.
func (md *model) openQuestions() []*question {
	var all []*question
	for _, q := range md.questionOrder {
		if !q.closed {
			all = append(all, q)
		}
	}
	return all
}
