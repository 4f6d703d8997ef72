package observe

import (
	"cmp"
	"slices"
	"time"

	"parley/conversation"
)

// tally is made when there is something to remember, and goes when nothing is open.
type tally struct {
	messages []message  // without a receipt, or triggers of open tasks; in the order of acceptance
	tasks    []openTask // few: those that are open
	parts    map[conversation.SourceID]int
	asked    map[conversation.QuestionID]time.Time
	calls    map[conversation.CallID]openCall
	// The last generation that was handed out of a message, for as long as its task runs.
	handed map[conversation.MessageID]uint32

	pulse  pulse
	pulses *Pulses
}

// message is one that was accepted.
type message struct {
	id       conversation.MessageID
	accepted time.Time // by the event
	durable  time.Time // when that was on the disk; zero = before the session was loaded
	unread   bool      // no step has read it, and no runtime has it
	told     bool      // its author has seen something of it,
	late     bool      // and not soon enough
	trigger  bool      // of a task that is open
	parted   bool      // a trigger's first part is there
	resolved bool
}

// openCall is a tool call or a delegation that has not ended.
type openCall struct {
	name       string // the tool's, or the agent's
	delegation bool
	waits      bool // to be allowed: it does not run
}

// openTask is a task that has not ended.
type openTask struct {
	id      conversation.TaskID
	trigger conversation.MessageID
	born    time.Time
	agent   conversation.AgentName // of its last step
	steps   int                    // since the load
	running bool
}

func newTally(pulses *Pulses) *tally {
	t := &tally{
		parts: map[conversation.SourceID]int{}, asked: map[conversation.QuestionID]time.Time{},
		calls: map[conversation.CallID]openCall{}, handed: map[conversation.MessageID]uint32{}, pulses: pulses,
	}
	pulses.add(&t.pulse)
	return t
}

// add notes a message, unless it is known.
func (t *tally) add(m message) {
	if t.message(m.id) == nil {
		t.messages = append(t.messages, m)
	}
}

// message finds one that has not been forgotten; nil if it has.
func (t *tally) message(id conversation.MessageID) *message {
	for i := range t.messages {
		if t.messages[i].id == id {
			return &t.messages[i]
		}
	}
	return nil
}

func (t *tally) forget(id conversation.MessageID) {
	t.messages = slices.DeleteFunc(t.messages, func(m message) bool { return m.id == id })
}

// read notes that a step has read messages.
func (t *tally) read(ids []conversation.MessageID) {
	for _, id := range ids {
		if m := t.message(id); m != nil {
			m.unread = false
		}
	}
}

func (t *tally) task(id conversation.TaskID) *openTask {
	for i := range t.tasks {
		if t.tasks[i].id == id {
			return &t.tasks[i]
		}
	}
	return nil
}

// begin notes a task, unless it is known.
func (t *tally) begin(o openTask) {
	if t.task(o.id) == nil {
		t.tasks = append(t.tasks, o)
	}
}

func (t *tally) agentOf(id conversation.TaskID) conversation.AgentName {
	if open := t.task(id); open != nil && open.agent != "" {
		return open.agent
	}
	return conversation.Coordinator
}

func (t *tally) triggerOf(id conversation.TaskID) conversation.MessageID {
	if open := t.task(id); open != nil {
		return open.trigger
	}
	return ""
}

// callEnded returns the name of a call and forgets it.
func (t *tally) callEnded(id conversation.CallID) string {
	name := cmp.Or(t.calls[id].name, "unknown")
	delete(t.calls, id)
	return name
}

func (t *tally) taskEnded(task conversation.TaskID, trigger conversation.MessageID) {
	t.tasks = slices.DeleteFunc(t.tasks, func(o openTask) bool { return o.id == task })
	delete(t.parts, conversation.SourceID(trigger))
	delete(t.handed, trigger)
	if m := t.message(trigger); m != nil {
		if m.trigger = false; m.resolved {
			t.forget(trigger)
		}
	}
}

// open is true while something must be remembered.
func (t *tally) open() bool {
	return len(t.tasks) > 0 || len(t.asked) > 0 || slices.ContainsFunc(t.messages, func(m message) bool { return !m.resolved })
}

func (t *tally) clear() {
	t.messages = t.messages[:0]
	clear(t.parts)
	clear(t.calls)
	clear(t.handed)
}

// beat tells the scrapes what waits and runs.
func (t *tally) beat(at time.Time) {
	waiting, oldest := int64(0), time.Time{}
	for i := range t.messages {
		if m := &t.messages[i]; m.unread {
			if waiting++; waiting == 1 || m.accepted.Before(oldest) {
				oldest = m.accepted
			}
		}
	}
	running := int64(0)
	for i := range t.tasks {
		if t.tasks[i].running {
			running++
		}
	}
	tools, delegations := int64(0), int64(0)
	for _, c := range t.calls {
		switch {
		case c.delegation:
			delegations++
		case !c.waits:
			tools++
		}
	}
	t.pulse.tools.Store(tools)
	t.pulse.delegations.Store(delegations)
	t.pulse.set(waiting, oldest, running, at)
}

func (t *tally) leave() { t.pulses.remove(&t.pulse) }
