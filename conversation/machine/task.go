package machine

import (
	"time"

	"parley/conversation"
)

// The life of a task: how it is queued, runs, waits and ends. The lines are
// those of the settle rule, machine.md section 2.

// runnable is the QUEUED task that starts next, if its time has come.
func (s *Session) runnable() *task {
	return s.runnableAt(s.now)
}

// Within the same order the list's own order counts: born, or as moved.
func (s *Session) runnableAt(now time.Time) *task {
	var next *task
	for _, t := range s.state.Tasks {
		if t.Status == conversation.TaskQueued && t.Cancelling == nil && !t.NotBefore.After(now) &&
			(next == nil || t.Order > next.Order) {
			next = t
		}
	}
	return next
}

// advance applies the settle rule to a RUNNING task; false = nothing to do now.
func (s *Session) advance(t *task) bool {
	if t.Step != nil { // line 1
		return false
	}
	if t.blocked() { // line 2
		s.showPending(t)
		s.setStatus(t, conversation.TaskAwaiting, "", nil)
		return true
	}
	if t.toolOpen() { // line 3
		return s.showPending(t)
	}
	limited := t.Steps >= s.maxSteps()
	news := t.News || t.unread() && !limited
	if t.delegating(t.LastStep) && !news { // line 4
		return s.waitForDelegations(t)
	}
	if t.Round || news { // line 5
		s.showPending(t)
		if limited {
			return s.wrapUp(t)
		}
		s.startStep(t, false)
		return true
	}
	if t.delegating(0) { // line 6
		return s.waitForDelegations(t)
	}
	if t.asking() && limited && t.unread() {
		s.closeQuestions(t, conversation.QuestionSuperseded) // what waits starts the next task
	}
	if t.asking() { // line 7
		if !s.supersede(t) {
			s.showPending(t)
			s.setStatus(t, conversation.TaskAwaiting, "", nil)
		}
		return true
	}
	if !limited && s.nudge(t) { // line 8
		return true
	}
	return s.complete(t, limited) // line 9
}

// awaits is true while a line of the settle rule still keeps an AWAITING task waiting.
func (s *Session) awaits(t *task) bool {
	if t.blocked() {
		return true
	}
	if t.toolOpen() || t.Round && !t.delegating(t.LastStep) || t.News || t.unread() && t.Steps < s.maxSteps() {
		return false
	}
	if t.delegating(0) {
		return t.delegationsAsk()
	}
	return t.asking()
}

func (s *Session) waitForDelegations(t *task) bool {
	shown := s.showPending(t)
	if t.delegationsAsk() {
		s.setStatus(t, conversation.TaskAwaiting, "", nil)
		return true
	}
	return shown
}

// blocked: line 2, a blocking question of the task's own steps is open.
func (t *task) blocked() bool {
	for _, q := range t.Questions {
		if q.own() && q.Asked.Blocking {
			return true
		}
	}
	return false
}

// asking: line 7, a non-blocking question of the task's own steps is open.
func (t *task) asking() bool {
	for _, q := range t.Questions {
		if q.own() && !q.Asked.Blocking {
			return true
		}
	}
	return false
}

// toolOpen: line 3. A call that waits for an approval is line 2's business.
func (t *task) toolOpen() bool {
	for _, c := range t.Calls {
		if !c.delegation() && !c.Held {
			return true
		}
	}
	return false
}

// delegating is true while a delegation of that step runs; step 0 = of any.
func (t *task) delegating(of conversation.StepNumber) bool {
	for _, c := range t.Calls {
		if c.delegation() && (of == 0 || c.Step == of) {
			return true
		}
	}
	return false
}

// delegationsAsk: every running delegation has an open question.
func (t *task) delegationsAsk() bool {
	for _, c := range t.Calls {
		if !c.delegation() {
			continue
		}
		asks := false
		for _, q := range t.Questions {
			asks = asks || q.Asked.Delegation == c.ID
		}
		if !asks {
			return false
		}
	}
	return true
}

// wrapUp is the way out at the step limit: delegations end, questions close,
// then one last step with tools off. False while delegations are awaited.
func (s *Session) wrapUp(t *task) bool {
	waiting := false
	for _, c := range t.Calls {
		s.do(conversation.StopCall{Call: c.ID})
		waiting = true
	}
	if waiting {
		return false
	}
	s.closeQuestions(t, conversation.QuestionCancelled)
	s.startStep(t, true)
	return true
}

// wrapping is true while wrapUp waits for the delegations that it has stopped.
func (s *Session) wrapping(t *task) bool {
	return t.Status == conversation.TaskRunning && t.Step == nil && t.Steps >= s.maxSteps() && !t.blocked() && !t.toolOpen() &&
		(t.News || t.Round && !t.delegating(t.LastStep))
}

// maxSteps is the agent's own limit, or the policy's.
func (s *Session) maxSteps() int {
	if p, ok := s.rules.Agents[s.state.Agent]; ok && p.MaxSteps > 0 {
		return p.MaxSteps
	}
	return s.policy.MaxSteps
}

// setStatus moves a task on, and notes its row for the list of tasks.
func (s *Session) setStatus(t *task, next conversation.TaskStatus, reason string, failure *conversation.Failure) {
	s.emit(t, conversation.TaskStatusChanged{Trigger: t.Trigger, Old: t.Status, New: next, Reason: reason, Error: failure})
	s.noteRow(t, failure)
}

func (s *Session) noteRow(t *task, failure *conversation.Failure) {
	row := conversation.TaskRow{
		Key: s.key, Task: s.taskID(t.N), Status: t.Status, Agent: s.state.Agent, Owner: s.state.Owner,
		Trigger: t.Trigger, CreatedAt: t.Created, UpdatedAt: t.Updated, First: t.First, Last: t.Last, Error: failure,
	}
	for i := range s.out.Rows {
		if s.out.Rows[i].Task == row.Task {
			s.out.Rows[i] = row
			return
		}
	}
	s.out.Rows = append(s.out.Rows, row)
}

func (s *Session) applyStatus(e conversation.Event, t *task, b conversation.TaskStatusChanged) {
	st := &s.state
	if b.Old == 0 { // leftovers of another task
		t = s.newTask(e, b.Trigger)
		t.Order = orderLeftover
		for _, id := range b.Messages {
			if from, m := s.message(id); m != nil {
				from.drop(id)
				m.Kept = false
				t.Messages = append(t.Messages, m)
				t.Since = t.since()
			}
		}
		return
	}
	if t == nil {
		return
	}
	if b.Old == conversation.TaskRunning {
		st.FreeSince = e.At
	}
	if b.Old == conversation.TaskAwaiting && b.New == conversation.TaskQueued {
		t.Order = orderReplied
	}
	t.Status, t.Updated, t.Last = b.New, e.At, e.Seq
	if !b.New.Ended() {
		return
	}
	for i := range st.Tasks {
		if st.Tasks[i] == t {
			st.Tasks = without(st.Tasks, i)
			break
		}
	}
	if len(st.Tasks) == 0 {
		st.Tasks = nil
	}
	if s.key.Session.Depth() > 0 {
		if st.Final == nil {
			st.Final = &final{}
		}
		st.Final.Status = map[conversation.TaskStatus]conversation.CallStatus{conversation.TaskComplete: conversation.CallOK, conversation.TaskError: conversation.CallFailed, conversation.TaskCancelled: conversation.CallCancelled}[b.New]
	}
}

// newTask puts a QUEUED task at the end of the list. The event names it.
func (s *Session) newTask(e conversation.Event, trigger conversation.MessageID) *task {
	t := &task{
		N: conversation.Ordinal(string(e.Task), 't'), Status: conversation.TaskQueued, Trigger: trigger,
		Created: e.At, Updated: e.At, First: e.Seq, Last: e.Seq,
	}
	s.state.TaskCount = max(s.state.TaskCount, t.N)
	s.state.Tasks = append(s.state.Tasks, t)
	return t
}

// decideCancel ends a task early on somebody's word.
func (s *Session) decideCancel(c conversation.Cancel) *conversation.Error {
	if s.key.Session.Depth() > 0 && c.By != conversation.ByParent {
		return conversation.Errorf(conversation.Forbidden, "a delegation's session can only be read")
	}
	if done, err := s.cancelledBefore(c); done || err != nil {
		return err
	}
	var t *task
	switch {
	case c.Task != "":
		t = s.task(c.Task)
	case c.By == conversation.ByParent && len(s.state.Tasks) > 0:
		t = s.state.Tasks[0]
	default:
		t = s.running()
	}
	if t == nil {
		if c.By == conversation.ByParent && s.state.Final != nil {
			s.report() // the parent asks again: it has not heard
			return nil
		}
		return conversation.Errorf(conversation.NotFound, "there is no task to cancel")
	}
	s.out.Receipt.Task, s.out.Receipt.OldStatus = s.taskID(t.N), t.Status
	before := s.state.Head
	said := conversation.TaskCancelling{By: c.By, Reason: c.Reason, Drop: c.Drop, Author: c.Author, ClientMsgID: c.ClientMsgID}
	if t.Cancelling == nil {
		s.beginCancel(t, said)
	} else {
		if said.ClientMsgID != "" {
			said.Until = t.Cancelling.Until
			s.emit(t, said)
		}
		if c.Drop { // it was not said with the first one
			for _, m := range append([]*message(nil), t.Messages...) {
				if m.Read == 0 {
					s.resolve(t, m.ID, conversation.ResolvedCancelled, nil, "")
				}
			}
		}
	}
	if c.Drop {
		for _, other := range append([]*task(nil), s.state.Tasks...) {
			if other != t && other.Status == conversation.TaskQueued && !other.ran() && other.First <= before && other.Cancelling == nil {
				s.cancelTask(other, c.By, c.Reason, nil, false)
			}
		}
	}
	return nil
}

// cancelledBefore answers a cancel that a client repeats as the first time,
// whatever runs by now.
func (s *Session) cancelledBefore(c conversation.Cancel) (bool, *conversation.Error) {
	if c.ClientMsgID == "" {
		return false, nil
	}
	d := c.Duplicate
	if d == nil {
		r, ok := s.state.recall(c.Author, c.ClientMsgID)
		if !ok {
			return false, nil
		}
		d = &conversation.Duplicate{Seq: conversation.Seq(r.Seq), Task: s.taskID(r.Message), SameText: r.Text == textKey(c.Said())}
	}
	if !d.SameText || c.Task != "" && c.Task != d.Task {
		return false, conversation.Errorf(conversation.Conflict, "the id %q was used for another command", c.ClientMsgID)
	}
	s.out.Receipt = conversation.Receipt{Task: d.Task, Seq: d.Seq, Duplicate: true}
	return true, nil
}

func (s *Session) applyCancelling(e conversation.Event, t *task, b conversation.TaskCancelling) {
	if b.ClientMsgID != "" {
		s.state.remember(recent{
			Key: clientKey(b.Author, b.ClientMsgID), Text: textKey(b.Said()), Message: conversation.Ordinal(string(e.Task), 't'), Seq: uint32(e.Seq),
		})
	}
	if t != nil && t.Cancelling == nil {
		t.Cancelling = &cancelling{By: b.By, Until: b.Until, Error: b.Error, Drop: b.Drop, Seq: e.Seq}
	}
}

// cancelTask is the first phase of an early end: nothing new is started, and
// everything open is told to stop. settle does the second when all has stopped.
func (s *Session) cancelTask(t *task, by conversation.CancelBy, reason string, failure *conversation.Failure, drop bool) {
	s.beginCancel(t, conversation.TaskCancelling{By: by, Reason: reason, Error: failure, Drop: drop})
}

func (s *Session) beginCancel(t *task, said conversation.TaskCancelling) {
	said.Until = s.now.Add(s.policy.CancelGrace)
	s.emit(t, said)
	if st := t.Step; st != nil {
		s.do(conversation.StopModel{Step: st.N})
		s.emit(t, conversation.StepFinished{Step: st.N, Attempt: st.Attempt, Outcome: conversation.StepCancelled})
	}
	s.closeQuestions(t, conversation.QuestionCancelled)
	s.stopCalls(t)
}

// end is the second phase: CANCELLED or ERROR.
func (s *Session) end(t *task) {
	c := t.Cancelling
	status, how := conversation.TaskCancelled, conversation.ResolvedCancelled
	if c.By == conversation.ByError {
		status, how = conversation.TaskError, conversation.ResolvedFailed
		text := s.policy.Texts.Failed
		if c.Error != nil && (c.Error.Code == conversation.Overloaded || c.Error.Code == conversation.Timeout) {
			text = c.Error.Message // these two are sentences for the user
		}
		s.emit(t, conversation.Response{Part: s.nextPart(t, text, "", ""), ResponseKind: conversation.ResponseError})
	}
	for _, m := range append([]*message(nil), t.Messages...) {
		if m.Read != 0 || !t.ran() && !m.Kept || c.Drop && m.Seq < c.Seq || s.key.Session.Depth() > 0 {
			s.resolve(t, m.ID, how, nil, "")
		}
	}
	s.requeue(t)
	s.setStatus(t, status, "", c.Error)
	if s.key.Session.Depth() > 0 {
		s.report()
	}
}

// requeue makes one task of the messages that an ending task never read. It is
// born before the old one ends, so that no message is ever without a task.
func (s *Session) requeue(t *task) {
	if len(t.Messages) == 0 {
		return
	}
	ids := make([]conversation.MessageID, len(t.Messages))
	for i, m := range t.Messages {
		ids[i] = m.ID
	}
	id := s.taskID(s.state.TaskCount + 1)
	s.emitOf(id, conversation.TaskStatusChanged{Trigger: ids[0], New: conversation.TaskQueued, Messages: ids})
	s.noteRow(s.task(id), nil)
}

// complete is line 9: the task has nothing more to do. False is impossible; the
// result keeps settle's shape.
func (s *Session) complete(t *task, limited bool) bool {
	texts, silent := s.out.pending.take(t)
	open := t.readUnresolved()
	empty := len(texts) == 0 && !silent && t.LastPart == nil && open
	if empty && s.policy.EmptyAnswer == conversation.EmptyRetry && t.Empties <= maxEmptyRetries && !limited {
		s.startStep(t, false)
		return true
	}
	switch {
	case len(texts) > 0:
		for _, p := range texts[:len(texts)-1] {
			s.showText(t, p)
		}
		last := texts[len(texts)-1]
		part := s.nextPart(t, last.text, t.replyTarget(), last.draft)
		s.emit(t, conversation.Response{Part: part})
		s.answered(t, part.InReplyTo, part.Index)
		s.answered(t, t.Trigger, part.Index)
		s.answeredByWords(t, texts, part.Index)
	case t.LastPart != nil:
		part := *t.LastPart
		s.emit(t, conversation.Response{Part: part, Promoted: true})
		if part.InReplyTo == "" || part.InReplyTo == t.Trigger {
			s.answered(t, t.Trigger, part.Index)
		}
	case empty && s.policy.EmptyAnswer != conversation.EmptySilent:
		s.emit(t, conversation.Response{Part: s.nextPart(t, s.policy.Texts.Empty, "", ""), ResponseKind: conversation.ResponseEmpty})
	}
	rest := conversation.ResolvedUnanswered
	if silent {
		rest = conversation.ResolvedDismissed
	}
	s.finish(t, rest)
	return true
}

// maxEmptyRetries is how often empty_answer=retry asks again (requirements, section 5).
const maxEmptyRetries = 3

// completeLimited ends a task at its step limit, after the wrap-up.
func (s *Session) completeLimited(t *task, texts []pendingText) {
	if len(texts) == 0 {
		texts = []pendingText{{text: s.policy.Texts.Limit}}
	}
	for _, p := range texts[:len(texts)-1] {
		s.emit(t, conversation.PartialResponse{Part: s.nextPart(t, p.text, "", p.draft)})
	}
	last := texts[len(texts)-1]
	s.emit(t, conversation.Response{Part: s.nextPart(t, last.text, "", last.draft), ResponseKind: conversation.ResponseLimit})
	s.finish(t, conversation.ResolvedUnanswered)
}

// finish ends a task COMPLETE: what it has read ends with it, what it has not
// read starts the next one.
func (s *Session) finish(t *task, rest conversation.Resolution) {
	sub := s.key.Session.Depth() > 0
	for _, m := range append([]*message(nil), t.Messages...) {
		if m.Read != 0 || sub {
			s.resolve(t, m.ID, rest, nil, "")
		}
	}
	s.requeue(t)
	s.setStatus(t, conversation.TaskComplete, "", nil)
	if sub {
		s.report()
	}
}

// report tells the parent how the sub-session's task ended.
func (s *Session) report() {
	f := s.state.Final
	r := conversation.Report{Status: f.Status, Seq: f.Response}
	for _, e := range s.out.Events {
		if b, ok := e.Body.(conversation.Response); ok && e.Seq == f.Response {
			r.Summary = b.Text
		}
	}
	s.do(r)
}

func (t *task) readUnresolved() bool { return len(t.Messages) > 0 && t.Messages[0].Read != 0 }

// resolve says what became of a message, once: the first word counts.
func (s *Session) resolve(t *task, id conversation.MessageID, how conversation.Resolution, part *conversation.PartIndex, q conversation.QuestionID) {
	if t.message(id) == nil {
		return
	}
	s.emit(t, conversation.MessageResolved{Message: id, How: how, Part: part, Question: q})
}
