package machine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/policy"
)

// orderModel is the order of tasks and messages as sections 2, 7 and 9 of
// docs/MACHINE.md tell it: lists that events are read into, and nothing of the
// machine's own state. It says which task starts next, which messages a step reads
// and which task a message joins.
type orderModel struct {
	tasks       []*orderedTask // that have not ended, as they were born or moved
	interrupted bool           // the next message has just ended the task that ran when it came
	names       map[conversation.AgentName]bool
}

type orderedTask struct {
	id         conversation.TaskID
	status     conversation.TaskStatus
	rank       rank
	steer      bool // put into the queue by a steer message
	replied    bool // it waited, and has its answer
	collects   bool
	cancelling bool
	notBefore  time.Time
	steps      int
	trigger    conversation.MessageID
	form       conversation.NudgeForm   // of the last nudge, and of the open step
	alone      conversation.MessageID   // asked for alone, and not resolved
	agent      conversation.AgentName   // of the open step
	waiting    []conversation.MessageID // unread
	kept       map[conversation.MessageID]bool
	asks       map[conversation.QuestionID]bool // questions of its own; true = blocking
	passes     map[conversation.QuestionID]bool // those of its delegations
}

// unread is what the next step reads: kept replies wait for a question.
func (t *orderedTask) unread() []conversation.MessageID {
	return slices.DeleteFunc(slices.Clone(t.waiting), func(id conversation.MessageID) bool { return t.kept[id] })
}

// rank is the class of a QUEUED task; within one the list's order counts. A task
// that is moved takes the class of the one before which it is put.
type rank int

const (
	inTurn rank = iota
	leftOver
	answered
	interrupting
)

func newOrderModel(log []conversation.Event) *orderModel {
	m := &orderModel{names: map[conversation.AgentName]bool{}}
	for _, e := range log {
		m.apply(e)
	}
	return m
}

func (m *orderModel) task(id conversation.TaskID) *orderedTask {
	for _, t := range m.tasks {
		if t.id == id {
			return t
		}
	}
	return &orderedTask{} // of events that belong to no task
}

// holder is the task in which a message waits; nil if it does not.
func (m *orderModel) holder(id conversation.MessageID) *orderedTask {
	for _, t := range m.tasks {
		if slices.Contains(t.waiting, id) {
			return t
		}
	}
	return nil
}

// next is the eligible QUEUED task that goes first; nil if there is none.
func (m *orderModel) next(eligible func(*orderedTask) bool) (first *orderedTask) {
	for _, t := range m.tasks {
		if t.status == conversation.TaskQueued && !t.cancelling && eligible(t) && (first == nil || t.rank > first.rank) {
			first = t
		}
	}
	return first
}

// steered is the task that a steer message joins; nil if it is its own.
func (m *orderModel) steered() (target *orderedTask) {
	for _, t := range m.tasks {
		if t.status == conversation.TaskRunning && !t.cancelling {
			return t
		}
	}
	if t := m.next(func(t *orderedTask) bool { return t.steer || t.replied }); t != nil {
		return t
	}
	for _, t := range m.tasks {
		blocked := false
		for _, blocking := range t.asks {
			blocked = blocked || blocking
		}
		later := target == nil || conversation.Ordinal(string(t.id), 't') > conversation.Ordinal(string(target.id), 't')
		if t.status == conversation.TaskAwaiting && !t.cancelling && !blocked && later {
			target = t
		}
	}
	return target
}

// asking is the newest task that waits for answers to non-blocking questions alone,
// while none runs.
func (m *orderModel) asking() (target *orderedTask) {
	for _, t := range m.tasks {
		if t.status == conversation.TaskRunning {
			return nil
		}
		only := len(t.asks) > 0 && len(t.passes) == 0
		for _, blocking := range t.asks {
			only = only && !blocking
		}
		later := target == nil || conversation.Ordinal(string(t.id), 't') > conversation.Ordinal(string(target.id), 't')
		if only && t.status == conversation.TaskAwaiting && !t.cancelling && later {
			target = t
		}
	}
	return target
}

// judge says what is wrong with an event, or "", and takes it.
func (m *orderModel) judge(e conversation.Event, now time.Time, s *Session) (problem string) {
	defer m.apply(e)
	switch b := e.Body.(type) {
	case conversation.TaskStatusChanged:
		if b.New == conversation.TaskRunning {
			if next := m.next(func(t *orderedTask) bool { return !t.notBefore.After(now) }); next == nil || next.id != e.Task {
				return fmt.Sprintf("%s starts, and the next one is %+v", e.Task, next)
			}
		}
		if b.Old == 0 {
			from := m.holder(b.Messages[0]) // a task that parks keeps its kept replies
			if from == nil || !slices.Equal(from.waiting, b.Messages) && !slices.Equal(from.unread(), b.Messages) {
				return fmt.Sprintf("the leftovers are not what waits: %+v", from)
			}
		}
	case conversation.StepStarted:
		if b.Attempt == 1 && !b.WrapUp {
			unread := m.task(e.Task).unread()
			if s.Key().Session.Depth() == 0 && len(unread) > 1 && m.readsOne(s) {
				unread = unread[:max(slices.Index(unread, m.task(e.Task).trigger), 0)+1]
			}
			if !slices.Equal(unread, b.Read) {
				return fmt.Sprintf("the step reads %v, and should read %v", b.Read, unread)
			}
		}
	case conversation.MessageAccepted:
		if s.Key().Session.Depth() == 0 && !b.Deferred && b.Disposition != conversation.Answered {
			return m.judgeAccepted(e.Task, b, s)
		}
	}
	return ""
}

// readsOne is true while a step reads one message.
func (m *orderModel) readsOne(s *Session) bool {
	switch s.rules.ReadOf(s.state.Agent, s.policy.Read) {
	case policy.ReadOne:
		return true
	case policy.ReadAll:
		return false
	default:
		return !m.names[s.state.Agent]
	}
}

// heard learns from an answer whether its model names messages.
func (m *orderModel) heard(t *orderedTask, b conversation.StepFinished) {
	if b.Outcome != conversation.StepOK || t.form != conversation.NudgePlain && t.form != conversation.NudgeClosing {
		return
	}
	held := false
	for _, item := range b.Items {
		for _, r := range b.Results {
			named := r.Text == "covered" || r.Text == "delivered" && strings.Contains(item.Args, `"inReplyTo":`)
			held = held || item.Kind == conversation.ItemCall && r.ID == item.ID && named
		}
	}
	switch {
	case t.form == conversation.NudgePlain && held:
		m.names[t.agent] = true
	case t.form == conversation.NudgeClosing && !held:
		m.names[t.agent] = false
	}
}

// judgeAccepted: the task is the one that the message's mode gives it.
func (m *orderModel) judgeAccepted(task conversation.TaskID, b conversation.MessageAccepted, s *Session) string {
	var target *orderedTask
	mode := s.mode(conversation.Say{Via: b.Via, Mode: b.Mode})
	switch mode {
	case conversation.ModeSteer:
		target = m.steered()
	case conversation.ModeCollect:
		target = m.next(func(t *orderedTask) bool { return t.collects && t.steps == 0 })
	}
	if plain := b.Mode == conversation.ModeDefault && !m.interrupted && mode != conversation.ModeSteer; plain && s.state.Agent != conversation.External {
		if t := m.asking(); t != nil {
			target = t
		}
	}
	joins := b.Disposition == conversation.Joined
	if joins != (target != nil) || joins && target.id != task {
		return fmt.Sprintf("with mode %s it should join %+v", mode, target)
	}
	return ""
}

func (m *orderModel) apply(e conversation.Event) {
	t := m.task(e.Task)
	switch b := e.Body.(type) {
	case conversation.MessageAccepted:
		m.accepted(t, e.Task, b)
	case conversation.MessageMoved:
		if b.Report == "" {
			m.moved(b)
		}
	case conversation.MessageResolved:
		if t.alone == b.Message {
			t.alone = ""
		}
		m.gone(b.Message)
	case conversation.MessageWithdrawn:
		t.trigger = cmp.Or(b.NewTrigger, t.trigger)
	case conversation.PartialResponse:
		m.spoken(t, b.Part)
	case conversation.Response:
		m.spoken(t, b.Part)
	case conversation.StepStarted:
		if b.Attempt == 1 {
			t.steps++
			t.agent = b.Agent
			if len(b.Read) > 0 {
				t.alone = ""
			} else if t.alone != "" {
				t.form = conversation.NudgeAlone
			}
		}
		for _, id := range b.Read {
			m.gone(id)
		}
	case conversation.CoverageNudge:
		if t.form, t.alone = b.Form, ""; b.Form == conversation.NudgeAlone {
			t.alone = b.Messages[0]
		}
	case conversation.StepFinished:
		m.heard(t, b)
		t.form = conversation.NudgePlain
	case conversation.TaskCancelling:
		t.cancelling = true
		m.interrupted = b.By == conversation.ByInterrupt
	case conversation.TaskStatusChanged:
		m.status(t, e.Task, b)
	case conversation.Asked:
		switch {
		case t.asks == nil:
		case b.Delegation == "":
			t.asks[b.Question] = b.Blocking
		default:
			t.passes[b.Question] = true
		}
	case conversation.QuestionAnswered:
		m.closed(b.Question)
	case conversation.QuestionClosed:
		m.closed(b.Question)
	}
}

// spoken: an outside runtime, which has no steps, has read the message.
func (m *orderModel) spoken(t *orderedTask, p conversation.Part) {
	if t.steps == 0 {
		m.gone(conversation.MessageID(p.Source))
	}
}

func (m *orderModel) born(id conversation.TaskID) *orderedTask {
	t := &orderedTask{id: id, status: conversation.TaskQueued, kept: map[conversation.MessageID]bool{}, asks: map[conversation.QuestionID]bool{}, passes: map[conversation.QuestionID]bool{}}
	m.tasks = append(m.tasks, t)
	return t
}

func (m *orderModel) accepted(t *orderedTask, id conversation.TaskID, b conversation.MessageAccepted) {
	m.interrupted = false
	if b.Disposition == conversation.Answered {
		return
	}
	if t.id == "" {
		t = m.born(id)
		t.trigger = b.Message
		t.steer, t.collects, t.notBefore = b.Steer, !b.NotBefore.IsZero(), b.NotBefore
		if b.Preempts {
			t.rank = interrupting
			m.tasks = slices.Insert(m.tasks[:len(m.tasks)-1], 0, t)
		}
	}
	t.waiting = append(t.waiting, b.Message)
	t.kept[b.Message] = b.Deferred
}

func (m *orderModel) status(t *orderedTask, id conversation.TaskID, b conversation.TaskStatusChanged) {
	switch {
	case b.Old == 0:
		t = m.born(id)
		t.rank, t.trigger = leftOver, b.Trigger
		for _, message := range b.Messages {
			m.gone(message)
			t.waiting = append(t.waiting, message)
		}
	case b.New.Ended():
		m.tasks = slices.DeleteFunc(m.tasks, func(other *orderedTask) bool { return other == t })
	case b.Old == conversation.TaskAwaiting && b.New == conversation.TaskQueued:
		t.rank, t.replied = answered, true
	}
	t.status = b.New
	if b.Old == 0 {
		t.status = conversation.TaskQueued
	}
}

func (m *orderModel) moved(b conversation.MessageMoved) {
	t, other := m.holder(b.Message), m.holder(b.Before)
	if t == nil {
		return
	}
	if other == nil || other == t {
		m.gone(b.Message)
		t.waiting = slices.Insert(t.waiting, max(0, slices.Index(t.waiting, b.Before)), b.Message)
	}
	if t.status != conversation.TaskQueued || other == t {
		return
	}
	m.tasks = slices.DeleteFunc(m.tasks, func(o *orderedTask) bool { return o == t })
	if other != nil {
		t.rank = other.rank
		m.tasks = slices.Insert(m.tasks, slices.Index(m.tasks, other), t)
		return
	}
	for _, o := range m.tasks {
		if o.status == conversation.TaskQueued {
			t.rank = max(t.rank, o.rank)
		}
	}
	m.tasks = slices.Insert(m.tasks, 0, t)
}

// gone: a message does not wait any more.
func (m *orderModel) gone(id conversation.MessageID) {
	for _, t := range m.tasks {
		t.waiting = slices.DeleteFunc(t.waiting, func(o conversation.MessageID) bool { return o == id })
	}
}

func (m *orderModel) closed(id conversation.QuestionID) {
	for _, t := range m.tasks {
		delete(t.asks, id)
		delete(t.passes, id)
	}
}
