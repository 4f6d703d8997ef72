package machine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/policy"
)

// judge reads the logs of a world that has come to its end.
func (w *world) judge() {
	for _, id := range w.order {
		n := w.nodes[id]
		if n.live != nil && (n.live.Standing().HoldsSlot || n.live.Standing().Busy) {
			w.fatalf("%s: still busy at the end", id)
		}
		w.judgeLog(n)
		w.judgeLeases(n)
	}
	w.judgeSpeaker()
}

// judgeSpeaker: a receipt is true. What a model has never spoken of is not answered;
// only one that repeats itself in ever new words, or that names what it does not speak
// of, can deceive the engine. N-15
func (w *world) judgeSpeaker() {
	if w.speaks == nil || w.speaker == paraphrases || w.speaker == overEager || w.create.Agent == conversation.External {
		return
	}
	if w.nodes["s"].changed("coverage.mode") { // what "seen" has answered is not remembered for "strict"
		return
	}
	a := judgeReceipts(w.nodes["s"].durable)
	delete(a.evidenceFalse, conversation.EvidenceSeen.String()) // which asks for no more than a text
	if a.falseAnswered == 0 {                                   // what coverMessage calls answered already is booked to the last part
		delete(a.evidenceFalse, conversation.EvidenceNamed.String())
	}
	if len(a.evidenceFalse) > 0 {
		w.fatalf("messages are answered by a part that is not about them: %v; the model: %s", a.evidenceFalse, w.speaker)
	}
}

// logJudge reads the log of one session: what each event may follow, and what
// must have ended with its task or at the end.
type logJudge struct {
	*world
	n         *node
	policy    policy.Policy // in force at this event
	own       conversation.Overrides
	agent     conversation.AgentName
	closed    bool
	messages  map[conversation.MessageID]*messageLog
	questions map[conversation.QuestionID]*questionLog
	calls     map[conversation.CallID]conversation.TaskID // open
	tasks     map[conversation.TaskID]*taskLog
	parts     map[conversation.SourceID]conversation.PartIndex
	clients   map[conversation.Key]bool
	waiting   int // accepted, unread and unresolved
	last      time.Time
}

type messageLog struct {
	accepted conversation.MessageAccepted
	read     bool
	how      conversation.Resolution
	nudges   int
	alone    bool // it is asked for alone
	closings int
	readBy   conversation.TaskID

	clarified bool // the model was asked whether it answers a question
}

type questionLog struct {
	conversation.Asked
	task   conversation.TaskID
	closed bool
}

type taskLog struct {
	trigger   conversation.MessageID
	status    conversation.TaskStatus
	responses int
	shown     bool
	openStep  bool
	step      attempts
	steps     int  // from the last one on that read a message or an answer from outside
	answered  bool // a question of its own, since its last step
	news      bool // a result, an answer or a nudge has come since the last step
	silent    bool // the last answer had nothing in it
	retries   int  // steps that such answers led to, since the last message or answer that it read
}

// attempts of a step after its first, by cause.
type attempts map[conversation.Cause]int

func (w *world) judgeLog(n *node) {
	j := logJudge{
		world: w, n: n, policy: w.rules.Policy,
		messages: map[conversation.MessageID]*messageLog{}, questions: map[conversation.QuestionID]*questionLog{},
		calls: map[conversation.CallID]conversation.TaskID{}, tasks: map[conversation.TaskID]*taskLog{},
		parts: map[conversation.SourceID]conversation.PartIndex{}, clients: map[conversation.Key]bool{},
	}
	for i, e := range n.durable {
		if e.Seq != conversation.Seq(i+1) {
			w.fatalf("%s: seq %d at place %d", n.id, e.Seq, i+1)
		}
		j.event(e)
	}
	for m, log := range j.messages {
		if log.how == 0 {
			w.fatalf("%s: %s was never resolved", n.id, m)
		}
	}
	for id, t := range j.tasks {
		if !t.status.Ended() {
			w.fatalf("%s: task %s ended up %s", n.id, id, t.status)
		}
		if row := n.rows[id]; row.Status != t.status || row.Trigger != t.trigger {
			w.fatalf("%s: task %s ended %s, trigger %s, and its row is %+v", n.id, id, t.status, t.trigger, row)
		}
	}
	if n.id.Depth() > 0 && len(j.tasks) > 1 {
		w.fatalf("%s: %d tasks in a sub-session", n.id, len(j.tasks))
	}
	if depth := n.id.Depth(); depth > w.rules.Policy.MaxDepth {
		w.fatalf("%s is %d deep", n.id, depth)
	}
}

func (j *logJudge) failf(e conversation.Event, format string, args ...any) {
	j.t.Helper()
	j.fatalf("%s: event %d: %s", j.n.id, e.Seq, fmt.Sprintf(format, args...))
}

func (j *logJudge) event(e conversation.Event) {
	if e.At.Before(j.last) {
		j.failf(e, "time goes back")
	}
	j.last = e.At
	for _, k := range conversation.Keys([]conversation.Event{e}) {
		if j.clients[k.Key] {
			j.failf(e, "%v twice", k.Key)
		}
		j.clients[k.Key] = true
	}
	j.met.event(j, e)
	t := j.tasks[e.Task]
	if t != nil && t.status.Ended() {
		j.failf(e, "it belongs to a task that has ended")
	}
	switch b := e.Body.(type) {
	case conversation.SessionCreated:
		j.agent, j.own = b.Agent, b.Policy
		j.policies()
	case conversation.SessionUpdated:
		j.updated(b)
	case conversation.SessionClosed:
		j.closed = true
	case conversation.MessageAccepted:
		j.accepted(e, b)
	case conversation.MessageWithdrawn:
		if b.NewTrigger != "" {
			t.trigger = b.NewTrigger
		}
	case conversation.MessageResolved:
		j.resolved(e, b)
	case conversation.TaskStatusChanged:
		j.status(e, t, b)
	case conversation.StepStarted:
		j.stepStarted(e, t, b)
	case conversation.StepFinished:
		t.openStep, t.silent = false, b.Outcome == conversation.StepOK && !slices.ContainsFunc(b.Items, saysSomething)
		if !t.silent {
			t.retries = 0
		}
	case conversation.CoverageNudge:
		j.nudged(e, t, b)
	case conversation.PartialResponse, conversation.Response:
		j.part(e, t)
	case conversation.RuntimeStatus: // no step says that the message was read
		if m := j.messages[b.Message]; m != nil && !m.read && m.how == 0 {
			m.read = true
			j.waiting--
		}
	case conversation.Asked:
		if j.questions[b.Question] != nil {
			j.failf(e, "%s is asked twice", b.Question)
		}
		if b.Call != "" && (j.calls[b.Call] != e.Task || j.asksNow(b.Call)) {
			j.failf(e, "the tool of %s asks, which does not run or asks already", b.Call)
		}
		j.questions[b.Question] = &questionLog{Asked: b, task: e.Task}
	case conversation.QuestionAnswered:
		j.answeredQuestion(e, b)
	case conversation.QuestionClosed:
		j.tasks[j.closeQuestion(e, b.Question).task].news = true
	default:
		j.call(e)
	}
}

func (j *logJudge) updated(b conversation.SessionUpdated) {
	next := conversation.Overrides{}
	for key, value := range j.own {
		next[key] = value
	}
	for key, value := range b.Policy {
		next[key] = value
		if string(value) == "null" {
			delete(next, key)
		}
	}
	j.own, j.agent = next, cmp.Or(b.Agent, j.agent)
	j.policies()
}

func (j *logJudge) policies() {
	p, _, err := j.rules.Policy.With(j.own, false)
	if err != nil {
		j.fatalf("%s: %v", j.n.id, err)
	}
	j.policy = p
}

func (j *logJudge) accepted(e conversation.Event, b conversation.MessageAccepted) {
	j.messages[b.Message] = &messageLog{accepted: b}
	if j.closed && j.n.id.Depth() == 0 && b.Disposition != conversation.Answered {
		j.failf(e, "the session is closed")
	}
	if b.Disposition == conversation.Answered {
		return
	}
	if j.n.id.Depth() == 0 && j.policy.MaxQueued > 0 && j.waiting >= j.policy.MaxQueued {
		j.failf(e, "%d messages wait already", j.waiting)
	}
	j.waiting++
	if b.Disposition != conversation.Joined {
		j.tasks[e.Task] = &taskLog{trigger: b.Message, status: conversation.TaskQueued}
	}
}

func (j *logJudge) resolved(e conversation.Event, b conversation.MessageResolved) {
	m := j.messages[b.Message]
	if m == nil {
		j.failf(e, "%s is resolved before it was accepted", b.Message)
	}
	if m.how != 0 {
		j.failf(e, "%s is resolved twice: %s and %s", b.Message, m.how, b.How)
	}
	m.how = b.How
	if answered := b.How == conversation.ResolvedAnswered; answered != (b.Evidence != 0) || answered != (b.Part != nil) {
		j.failf(e, "%s is %s by %q, part %v", b.Message, b.How, b.Evidence, b.Part)
	}
	direct := m.accepted.Disposition == conversation.Answered
	if !m.read && !direct {
		j.waiting--
	}
	switch b.How {
	case conversation.ResolvedAnswered, conversation.ResolvedUnanswered, conversation.ResolvedDismissed:
		silent := j.agent.Outside() && b.How == conversation.ResolvedDismissed // its runtime said no more than that this is all
		if !m.read && !silent && j.n.id.Depth() == 0 {
			j.failf(e, "%s is %s unread", b.Message, b.How)
		}
	case conversation.ResolvedWithdrawn:
		if m.read {
			j.failf(e, "%s is withdrawn after it was read", b.Message)
		}
	case conversation.ResolvedMerged:
		if !m.read && !direct && !m.accepted.Deferred {
			j.failf(e, "%s is merged unread", b.Message)
		}
	}
	if b.Question == "" {
		return
	}
	q := j.questions[b.Question]
	if q == nil || !q.closed {
		j.failf(e, "%s is merged with %s, which is open", b.Message, b.Question)
	}
	if q.Approval != nil && !direct {
		j.failf(e, "%s, which nobody gave as an answer, decides about a call", b.Message)
	}
}

func (j *logJudge) status(e conversation.Event, t *taskLog, b conversation.TaskStatusChanged) {
	if b.Old == 0 {
		j.tasks[e.Task] = &taskLog{trigger: b.Trigger, status: conversation.TaskQueued}
		for _, m := range b.Messages {
			if j.messages[m].read || j.messages[m].how != 0 {
				j.failf(e, "%s is a leftover and was read, or has ended", m)
			}
		}
		return
	}
	if t.status != b.Old {
		j.failf(e, "task %s goes from %s, but is %s", e.Task, b.Old, t.status)
	}
	t.status = b.New
	if b.New.Ended() {
		j.ended(e, t, b)
	}
}

func (j *logJudge) ended(e conversation.Event, t *taskLog, b conversation.TaskStatusChanged) {
	for id, q := range j.questions {
		if q.task == e.Task && !q.closed {
			j.failf(e, "task %s ended with question %s open", e.Task, id)
		}
	}
	for c, owner := range j.calls {
		if owner == e.Task {
			j.failf(e, "task %s ended with call %s open", e.Task, c)
		}
	}
	want := 0
	if b.New == conversation.TaskError || b.New == conversation.TaskComplete && t.shown {
		want = 1
	}
	if t.responses != want {
		j.failf(e, "task %s ended %s with %d responses instead of %d", e.Task, b.New, t.responses, want)
	}
	if t.openStep {
		j.failf(e, "task %s ended with an open step", e.Task)
	}
}

// saysSomething is true for a call, and for a text that is not blank.
func saysSomething(i conversation.Item) bool {
	return i.Kind == conversation.ItemCall || !conversation.IsBlank(i.Text)
}

// maxSteps is the limit that holds for this session's agent now.
func (j *logJudge) maxSteps() int {
	if p := j.rules.Agents[j.agent]; p.MaxSteps > 0 {
		return p.MaxSteps
	}
	return j.policy.MaxSteps
}

func (j *logJudge) stepStarted(e conversation.Event, t *taskLog, b conversation.StepStarted) {
	if b.Attempt == 1 {
		j.stepOpens(e, t, b)
		return
	}
	if !t.openStep {
		j.failf(e, "attempt %d of a step that is not open", b.Attempt)
	}
	t.step[b.Cause]++
	if n := t.step[conversation.CauseError]; n >= max(1, j.policy.MaxAttempts) && b.Cause == conversation.CauseError {
		j.failf(e, "%d attempts after failures", n)
	}
	if n := t.step[conversation.CauseInterrupted]; n > j.policy.MaxInterrupts {
		j.failf(e, "%d attempts after interrupts", n)
	}
}

func (j *logJudge) stepOpens(e conversation.Event, t *taskLog, b conversation.StepStarted) {
	if t.openStep {
		j.failf(e, "two open steps")
	}
	t.openStep, t.step = true, attempts{}
	if m := j.aloneEnds(e.Task); m != nil && len(b.Read) > 0 {
		m.nudges-- // what it says is about the new message, too
	} else if m != nil {
		m.alone = true
	}
	if t.steps++; len(b.Read) > 0 || t.answered {
		t.steps, t.retries = 1, 0
	}
	t.answered = false
	limit := j.maxSteps()
	if b.WrapUp {
		limit++
		if len(b.Read) > 0 {
			j.failf(e, "a wrap-up reads %v", b.Read)
		}
	}
	if t.steps > limit && !j.n.changed("task.max_steps") {
		j.failf(e, "%d steps, the limit is %d", t.steps, j.maxSteps())
	}
	if t.silent && !t.news && !b.WrapUp && len(b.Read) == 0 {
		if t.retries++; t.retries > 3 || j.policy.EmptyAnswer != policy.EmptyRetry {
			j.failf(e, "asked again, for the %d. time, after an empty answer", t.retries)
		}
	}
	t.news = false
	for _, id := range b.Read {
		m := j.messages[id]
		if m.read || m.how != 0 {
			j.failf(e, "%s is read again, or after its end", id)
		}
		m.read, m.readBy = true, e.Task
		j.waiting--
	}
}

// changed is true when the session itself has said a policy of its own, or another
// agent, at any time: what counts across events is judged by one value alone.
func (n *node) changed(key string) bool {
	for _, e := range n.durable {
		if b, ok := e.Body.(conversation.SessionUpdated); ok && (b.Policy[key] != nil || b.Agent != "") {
			return true
		}
	}
	return false
}

func (j *logJudge) nudged(e conversation.Event, t *taskLog, b conversation.CoverageNudge) {
	t.news = true
	if j.n.id.Depth() > 0 {
		j.failf(e, "a delegate is nudged")
	}
	if alone := b.Form == conversation.NudgeAlone; alone != (len(b.Messages) == 1) && len(b.Questions) == 0 {
		j.failf(e, "a nudge %s for %v", b.Form, b.Messages)
	}
	for _, id := range b.Questions {
		if q := j.questions[id]; q == nil || q.closed || q.task != e.Task || q.Blocking || q.Delegation != "" {
			j.failf(e, "the nudge names the question %s: %+v", id, q)
		}
	}
	for _, id := range b.Messages {
		m := j.messages[id]
		if !m.read || m.how != 0 {
			j.failf(e, "the nudge names %s, which is not open", id)
		}
		if len(b.Questions) > 0 {
			if m.clarified {
				j.failf(e, "it is asked twice whether %s is an answer", id)
			}
			m.clarified = true
			continue
		}
		if b.Form == conversation.NudgeClosing || b.Form == conversation.NudgeJudged {
			m.closings++
			continue
		}
		j.aloneEnds(e.Task)
		m.alone = b.Form == conversation.NudgeAlone
		if m.nudges++; m.nudges > j.policy.MaxNudges && !j.n.changed("coverage.max_nudges") {
			j.failf(e, "nudge %d for %s of at most %d", m.nudges, id, j.policy.MaxNudges)
		}
	}
}

// aloneEnds finds the message that a task's model is asked for alone; nil = there is none.
func (j *logJudge) aloneEnds(task conversation.TaskID) (asked *messageLog) {
	for _, m := range j.messages {
		if m.alone && m.readBy == task && m.how == 0 {
			asked, m.alone = m, false
		}
	}
	return asked
}

func partOf(b conversation.EventBody) (p conversation.Part, ok bool) {
	switch b := b.(type) {
	case conversation.PartialResponse:
		return b.Part, true
	case conversation.Response:
		return b.Part, !b.Promoted
	}
	return p, false
}

func (j *logJudge) part(e conversation.Event, t *taskLog) {
	if t != nil {
		t.shown = true
		if _, response := e.Body.(conversation.Response); response {
			t.responses++
		}
	}
	p, once := partOf(e.Body)
	if !once || p.Source == "" {
		return
	}
	if p.Index != j.parts[p.Source] {
		j.failf(e, "part %d of %s comes after %d parts", p.Index, p.Source, j.parts[p.Source])
	}
	j.parts[p.Source]++
	if m := j.messages[conversation.MessageID(p.Source)]; m != nil && j.agent.Outside() && !m.read && m.how == 0 {
		m.read = true // no step says so: its runtime has begun to answer it
		j.waiting--
	}
	if m := j.messages[p.InReplyTo]; p.InReplyTo != "" && (m == nil || !m.read) {
		j.failf(e, "a part answers %s, which nothing has read", p.InReplyTo)
	}
}

func (j *logJudge) answeredQuestion(e conversation.Event, b conversation.QuestionAnswered) {
	q := j.closeQuestion(e, b.Question)
	t, from := j.tasks[q.task], j.messages[b.Message]
	t.news = true
	t.answered = t.answered || from != nil && from.readBy != q.task && q.Delegation == "" // another task's is from outside, too
	switch m := j.messages[b.Message]; {
	case b.Message == "":
		if q.Default == nil || b.Text != *q.Default {
			j.failf(e, "%s is answered by nobody", b.Question)
		}
	case q.Approval != nil && m.accepted.Disposition != conversation.Answered:
		j.failf(e, "the call of %s is allowed by %s, which is no answer", b.Question, b.Message)
	case !m.read && m.accepted.Disposition != conversation.Answered && !m.accepted.Deferred:
		j.failf(e, "%s is answered by %s, which nothing has read", b.Question, b.Message)
	}
}

// asksNow is true while a question of the tool call is open.
func (j *logJudge) asksNow(call conversation.CallID) bool {
	for _, q := range j.questions {
		if q.Call == call && !q.closed {
			return true
		}
	}
	return false
}

func (j *logJudge) closeQuestion(e conversation.Event, id conversation.QuestionID) *questionLog {
	q := j.questions[id]
	if q == nil || q.closed {
		j.failf(e, "%s is not open", id)
	}
	q.closed = true
	return q
}

// call reads the events of tools and delegations.
func (j *logJudge) call(e conversation.Event) {
	end := func(id conversation.CallID) {
		if _, open := j.calls[id]; !open {
			j.failf(e, "the call %s is not open", id)
		}
		j.tasks[e.Task].news = true
		delete(j.calls, id)
	}
	switch b := e.Body.(type) {
	case conversation.ToolStarted:
		j.calls[b.Call] = e.Task
	case conversation.ToolFinished:
		if j.asksNow(b.Call) {
			j.failf(e, "%s ends, and its question does not", b.Call)
		}
		if b.Status == conversation.CallDenied || b.Status == conversation.CallCancelled {
			delete(j.calls, b.Call) // it may have waited for its approval
			j.tasks[e.Task].news = true
			return
		}
		end(b.Call)
	case conversation.DelegationStarted:
		j.calls[b.Delegation] = e.Task
		n := 0
		for id, owner := range j.calls {
			if id[0] == 'd' && owner == e.Task {
				n++
			}
		}
		if n > j.policy.MaxParallel {
			j.failf(e, "%d delegations of %s at once", n, e.Task)
		}
		if j.n.id.Depth()+1 > j.policy.MaxDepth {
			j.failf(e, "a delegation at depth %d", j.n.id.Depth()+1)
		}
	case conversation.DelegationFinished:
		end(b.Delegation)
	}
}
