package machine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"parley/conversation"
)

// Calls: what an answer asks for besides text. The engine's own tools are
// executed here; other tools and delegations are journaled and run by the
// shell. machine.md, section 5.

// planned is a call of an answer, checked before anything of it is decided.
type planned struct {
	item     conversation.Item
	at       int // its place among the answer's items
	decision conversation.Decision
	result   string // known at once; "" = it comes later
	covers   bool   // a coverMessage that holds: it changes nothing that a step would have to see
	run      func()
}

// plan checks the calls of an answer in order. A bad call is not the task's
// end: it comes back to the model as an error result.
func (s *Session) plan(t *task, items []conversation.Item) []planned {
	p := planner{s: s, t: t}
	for _, m := range t.Messages {
		if m.Read != 0 {
			p.open = append(p.open, m)
		}
	}
	for _, c := range t.Calls {
		if c.delegation() {
			p.delegations++
		}
	}
	for i, item := range items {
		if item.Kind != conversation.ItemCall {
			continue
		}
		call, err := p.plan(item)
		if err != nil {
			call = s.failedCall(t, item, err)
		}
		call.item, call.at = item, i
		p.calls = append(p.calls, call)
	}
	return p.calls
}

// planner remembers what earlier calls of the same answer have used up.
type planner struct {
	s           *Session
	t           *task
	open        []*message // as numbered in the "open messages" entry that the model was shown
	taken       []conversation.MessageID
	answered    []conversation.QuestionID
	delegations int
	calls       []planned
}

func (p *planner) plan(item conversation.Item) (planned, error) {
	s := p.s
	profile := s.rules.Agents[s.state.Agent]
	if agent, ok := s.delegateAlias(item.Tool); ok {
		return p.delegateTo(item, agent)
	}
	switch item.Tool {
	case conversation.ToolRespond:
		return p.respond(item)
	case conversation.ToolCover:
		return p.cover(item)
	case conversation.ToolAsk:
		if !profile.MayAsk {
			return planned{}, fmt.Errorf("this agent may not ask the user")
		}
		return p.ask(item)
	case conversation.ToolDelegate:
		return p.delegateTo(item, "")
	case conversation.ToolDelegateParallel:
		return p.delegateParallel(item)
	case conversation.ToolAmend:
		return p.amend(item)
	default:
		return p.tool(item, profile)
	}
}

// failedCall shows a call that was refused, with the reason as its result.
func (s *Session) failedCall(t *task, item conversation.Item, reason error) planned {
	decision := conversation.DecisionTool
	switch {
	case item.Tool == conversation.ToolAsk:
		decision = conversation.DecisionAsk
	case strings.HasPrefix(item.Tool, conversation.ToolDelegate):
		decision = conversation.DecisionDelegate
	}
	return planned{decision: decision, run: func() {
		id := s.nextCall()
		s.emit(t, conversation.ToolStarted{Call: id, Tool: item.Tool, Args: item.Args, Deadline: s.now, ModelCall: item.ID})
		s.emit(t, conversation.ToolFinished{Call: id, Status: conversation.CallError, Summary: "error: " + reason.Error()})
	}}
}

func (s *Session) nextCall() conversation.CallID {
	return conversation.CallID(fmt.Sprintf("c%d", s.state.Calls+1))
}

// arguments decodes a call's arguments; unknown fields are the model's whim, a
// wrong type or a missing object is an error.
func arguments(item conversation.Item, into any) error {
	raw := item.Args
	if strings.TrimSpace(raw) == "" {
		raw = "{}"
	}
	if err := json.Unmarshal([]byte(raw), into); err != nil {
		return fmt.Errorf("the arguments are not what %s takes: %w", item.Tool, err)
	}
	return nil
}

// ref is how a model names a message or a question: by ordinal, id or quote.
type ref string

func (r *ref) UnmarshalJSON(raw []byte) error {
	var n json.Number
	if err := json.Unmarshal(raw, &n); err == nil && len(raw) > 0 && raw[0] != '"' {
		*r = ref(n.String())
		return nil
	}
	return json.Unmarshal(raw, (*string)(r))
}

// message finds an open message that the model means.
func (p *planner) message(r ref) (conversation.MessageID, bool) {
	want := strings.TrimSpace(string(r))
	want = strings.TrimSuffix(strings.TrimPrefix(want, "["), "]")
	if want == "" {
		return "", false
	}
	var found *message
	for i, m := range p.open {
		quote := strings.ToLower(strings.TrimSuffix(strings.Trim(want, `"'`), "…"))
		switch {
		case want == fmt.Sprint(i+1), want == string(m.ID):
			found = m
		case found == nil && len(quote) >= 4 && strings.HasPrefix(strings.ToLower(m.Text), quote):
			found = m
		}
	}
	if found == nil || slices.Contains(p.taken, found.ID) {
		return "", false
	}
	return found.ID, true
}

func (p *planner) respond(item conversation.Item) (planned, error) {
	s, t := p.s, p.t
	var args struct {
		Message   string `json:"message"`
		InReplyTo ref    `json:"inReplyTo"`
	}
	if err := arguments(item, &args); err != nil {
		return planned{}, err
	}
	if conversation.IsBlank(args.Message) {
		return planned{}, fmt.Errorf("message must not be blank")
	}
	call := planned{decision: conversation.DecisionTool, result: resultDelivered}
	if s.policy.IsSentinel(args.Message) {
		call.run = func() {}
		return call, nil
	}
	target, known := p.message(args.InReplyTo)
	if args.InReplyTo != "" && !known {
		call.result = resultDelivered + "; inReplyTo names no open message, so it was shown without"
	}
	if known {
		p.taken = append(p.taken, target)
	}
	call.run = func() {
		part := s.nextPart(t, args.Message, target, "")
		s.emit(t, conversation.PartialResponse{Part: part})
		s.answered(t, target, part.Index)
	}
	return call, nil
}

// The results that the requirements fix (D-09, D-15).
const (
	resultDelivered = "delivered"
	resultAsked     = "question sent, continuing"
)

func (p *planner) cover(item conversation.Item) (planned, error) {
	s, t := p.s, p.t
	var args struct {
		MessageID ref    `json:"messageId"`
		As        string `json:"as"`
		Question  ref    `json:"question"`
	}
	if err := arguments(item, &args); err != nil {
		return planned{}, err
	}
	target, known := p.message(args.MessageID)
	if !known {
		return planned{}, fmt.Errorf("messageId %q names no open message", args.MessageID)
	}
	call := planned{decision: conversation.DecisionTool, covers: true, result: "covered"}
	switch args.As {
	case "amendment", "duplicate":
		call.run = func() { s.resolve(t, target, conversation.ResolvedMerged, nil, "") }
	case "dismissed":
		call.run = func() { s.resolve(t, target, conversation.ResolvedDismissed, nil, "") }
	case "answer":
		q := p.question(args.Question)
		if q == nil {
			return planned{}, fmt.Errorf("no question of this task is open that the message could answer")
		}
		p.answered = append(p.answered, q.Asked.Question)
		m := t.message(target)
		call.run = func() {
			s.emit(t, conversation.QuestionAnswered{Question: q.Asked.Question, Message: target, Text: m.Text, By: string(m.Author)})
			s.resolve(t, target, conversation.ResolvedMerged, nil, q.Asked.Question)
		}
	default:
		return planned{}, fmt.Errorf(`as must be "amendment", "duplicate", "dismissed" or "answer"`)
	}
	p.taken = append(p.taken, target)
	return call, nil
}

// question finds the open non-blocking question that the model means; without a
// name the newest.
func (p *planner) question(r ref) *question {
	for i := len(p.t.Questions) - 1; i >= 0; i-- {
		q := p.t.Questions[i]
		if !q.own() || q.Asked.Blocking || slices.Contains(p.answered, q.Asked.Question) {
			continue
		}
		quote := strings.ToLower(strings.Trim(string(r), `"' `))
		if r == "" || string(r) == string(q.Asked.Question) || len(quote) >= 4 && strings.HasPrefix(strings.ToLower(q.Asked.Text), quote) {
			return q
		}
	}
	return nil
}

func (p *planner) ask(item conversation.Item) (planned, error) {
	s, t := p.s, p.t
	var args struct {
		Question  string   `json:"question"`
		Blocking  *bool    `json:"blocking"`
		Choices   []string `json:"choices"`
		ExpiresIn string   `json:"expiresIn"`
		Default   *string  `json:"default"`
	}
	if err := arguments(item, &args); err != nil {
		return planned{}, err
	}
	if conversation.IsBlank(args.Question) {
		return planned{}, fmt.Errorf("question must not be blank")
	}
	b := conversation.Asked{Text: args.Question, Blocking: args.Blocking == nil || *args.Blocking, Default: args.Default, ModelCall: item.ID}
	if len(args.Choices) > 0 {
		b.Choices = args.Choices
	}
	if s.key.Session.Depth() > 0 {
		b.Blocking = true // the parent's user answers; nothing else could wake this session
	}
	if args.ExpiresIn != "" {
		at, ok := s.deadline(args.ExpiresIn)
		if !ok {
			return planned{}, fmt.Errorf(`expiresIn must be a duration such as "10m", of %d days at most`, maxDeadline/(24*time.Hour))
		}
		b.ExpiresAt = at
	}
	call := planned{decision: conversation.DecisionAsk, run: func() { s.ask(t, b) }}
	if !b.Blocking {
		call.result = resultAsked
	}
	return call, nil
}

// delegateAlias is the agent of a tool name such as delegateToResearcher.
func (s *Session) delegateAlias(tool string) (conversation.AgentName, bool) {
	if !strings.HasPrefix(tool, conversation.DelegatePrefix) {
		return "", false
	}
	for _, name := range slices.Sorted(maps.Keys(s.rules.Agents)) { // of two with one alias always the same one
		if conversation.DelegateAlias(name) == tool {
			return name, true
		}
	}
	return "", false
}

type job struct {
	Agent     conversation.AgentName `json:"agent"`
	Objective string                 `json:"objective"`
	Context   string                 `json:"context"`
	Deadline  string                 `json:"deadline"`
	deadline  time.Time
}

func (p *planner) delegateTo(item conversation.Item, agent conversation.AgentName) (planned, error) {
	var j job
	if err := arguments(item, &j); err != nil {
		return planned{}, err
	}
	if agent != "" {
		j.Agent = agent
	}
	return p.delegate(item, []job{j})
}

func (p *planner) delegateParallel(item conversation.Item) (planned, error) {
	var args struct {
		Jobs []job `json:"jobs"`
	}
	if err := arguments(item, &args); err != nil {
		return planned{}, err
	}
	if len(args.Jobs) == 0 {
		return planned{}, fmt.Errorf("jobs must not be empty")
	}
	return p.delegate(item, args.Jobs)
}

// delegate checks all jobs before any of them is started: all or none.
func (p *planner) delegate(item conversation.Item, jobs []job) (planned, error) {
	s, t := p.s, p.t
	profile := s.rules.Agents[s.state.Agent]
	switch {
	case !profile.Delegates:
		return planned{}, fmt.Errorf("this agent may not delegate")
	case s.key.Session.Depth()+1 > s.policy.MaxDepth:
		return planned{}, fmt.Errorf("delegations may be %d deep at most", s.policy.MaxDepth)
	case p.delegations+len(jobs) > s.policy.MaxParallel:
		return planned{}, fmt.Errorf("at most %d delegations may run at once in a task, and %d do", s.policy.MaxParallel, p.delegations)
	}
	for i := range jobs {
		j := &jobs[i]
		if to, ok := s.rules.Agents[j.Agent]; !ok || !to.Delegable {
			return planned{}, fmt.Errorf("there is no agent %q to delegate to", j.Agent)
		}
		if conversation.IsBlank(j.Objective) {
			return planned{}, fmt.Errorf("objective must not be blank")
		}
		j.deadline = conversation.Stamp(s.now.Add(s.policy.DelegateTime))
		if j.Deadline != "" {
			at, ok := s.deadline(j.Deadline)
			if !ok {
				return planned{}, fmt.Errorf(`deadline must be a duration such as "10m", or a time to come, %d days ahead at most`, maxDeadline/(24*time.Hour))
			}
			j.deadline = at
		}
		if !conversation.IsBlank(j.Context) {
			j.Objective += "\n\nContext: " + j.Context
		}
	}
	p.delegations += len(jobs)
	return planned{decision: conversation.DecisionDelegate, run: func() {
		for _, j := range jobs {
			id := conversation.CallID(fmt.Sprintf("d%d", s.state.Delegations+1))
			b := conversation.DelegationStarted{
				Delegation: id, Agent: j.Agent, Objective: j.Objective, Session: s.key.Session + "/" + conversation.SessionID(id),
				Deadline: j.deadline, ModelCall: item.ID,
			}
			e := s.emit(t, b)
			s.do(conversation.StartDelegation{
				Task: e.Task, Call: id, Agent: j.Agent, Session: b.Session, Objective: j.Objective, Seq: e.Seq, Deadline: j.deadline,
			})
		}
	}}, nil
}

func (p *planner) amend(item conversation.Item) (planned, error) {
	s, t := p.s, p.t
	var args struct {
		Delegation ref    `json:"delegation"`
		Text       string `json:"text"`
	}
	if err := arguments(item, &args); err != nil {
		return planned{}, err
	}
	if conversation.IsBlank(args.Text) {
		return planned{}, fmt.Errorf("text must not be blank")
	}
	d := t.call(conversation.CallID(args.Delegation))
	if d == nil || !d.delegation() {
		return planned{}, fmt.Errorf("delegation %q does not run", args.Delegation)
	}
	deadline := conversation.Stamp(s.now.Add(s.policy.ToolTimeout))
	return planned{decision: conversation.DecisionTool, run: func() {
		id := s.nextCall()
		e := s.emit(t, conversation.ToolStarted{
			Call: id, Tool: conversation.ToolAmend, Args: item.Args, Deadline: deadline, Delegation: d.ID, ModelCall: item.ID, Idempotent: true,
		})
		s.do(conversation.AmendDelegation{Call: id, Delegation: d.ID, Text: args.Text, Seq: e.Seq})
	}}, nil
}

func (p *planner) tool(item conversation.Item, profile conversation.Profile) (planned, error) {
	s, t := p.s, p.t
	rule, ok := s.rules.Tools[item.Tool]
	if !ok || !profile.Allows(item.Tool) {
		return planned{}, fmt.Errorf("there is no tool %q", item.Tool)
	}
	args := item.Args
	if conversation.IsBlank(args) {
		args = "{}"
	}
	if !isObject(args) {
		return planned{}, fmt.Errorf("the arguments must be a JSON object")
	}
	if rule.Check != nil {
		if err := rule.Check(json.RawMessage(args)); err != nil {
			return planned{}, err
		}
	}
	if rule.Spec.Approval {
		return planned{decision: conversation.DecisionTool, run: func() {
			s.ask(t, conversation.Asked{
				Text: fmt.Sprintf("May I call %s?", item.Tool), Blocking: true, Choices: []string{"approve", "decline"},
				Approval: &conversation.Approval{Call: s.nextCall(), Tool: item.Tool, Args: args}, ModelCall: item.ID,
			})
		}}, nil
	}
	return planned{decision: conversation.DecisionTool, run: func() {
		s.startTool(t, s.nextCall(), item.Tool, args, item.ID)
	}}, nil
}

// startTool journals a call; it runs when that is durable.
func (s *Session) startTool(t *task, id conversation.CallID, tool, args, modelCall string) {
	spec := s.rules.Tools[tool].Spec
	timeout := spec.Timeout
	if timeout <= 0 {
		timeout = s.policy.ToolTimeout
	}
	b := conversation.ToolStarted{
		Call: id, Tool: tool, Args: args, Deadline: conversation.Stamp(s.now.Add(timeout)), ModelCall: modelCall, Idempotent: spec.Idempotent,
	}
	e := s.emit(t, b)
	s.do(conversation.RunTool{Task: e.Task, Call: id, Tool: tool, Seq: e.Seq, Args: args, Deadline: b.Deadline})
}

// decideApproval starts or refuses the call that waited.
func (s *Session) decideApproval(t *task, a *conversation.Approval, approved bool, args string) {
	c := t.call(a.Call)
	if c == nil {
		return
	}
	if !approved {
		s.finishTool(t, c, conversation.CallDenied, "denied: the user declined this call", 0)
		return
	}
	s.startTool(t, a.Call, a.Tool, args, "")
}

func (s *Session) applyToolStarted(e conversation.Event, t *task, b conversation.ToolStarted) {
	s.state.Calls = max(s.state.Calls, conversation.Ordinal(string(b.Call), 'c'))
	if t == nil {
		return
	}
	c := t.call(b.Call)
	if c == nil {
		c = &call{ID: b.Call, Step: t.LastStep, Tool: b.Tool, Target: b.Delegation}
		t.Calls = append(t.Calls, c)
	}
	c.Held, c.Idempotent, c.Seq, c.At, c.Deadline = false, b.Idempotent, e.Seq, e.At, b.Deadline
}

func (s *Session) applyDelegationStarted(e conversation.Event, t *task, b conversation.DelegationStarted) {
	s.state.Delegations = max(s.state.Delegations, conversation.Ordinal(string(b.Delegation), 'd'))
	if t != nil {
		t.Calls = append(t.Calls, &call{
			ID: b.Delegation, Step: t.LastStep, Agent: b.Agent, Idempotent: true, Seq: e.Seq, At: e.At, Deadline: b.Deadline,
		})
	}
}

// applyCallEnded: the result belongs to the last round, or comes from outside it.
func (s *Session) applyCallEnded(t *task, id conversation.CallID) {
	if t == nil {
		return
	}
	for i, c := range t.Calls {
		if c.ID == id {
			if c.Step == t.LastStep {
				t.Round = true
			} else {
				t.News = true
			}
			t.Calls = append(t.Calls[:i:i], t.Calls[i+1:]...)
			return
		}
	}
}

func (s *Session) finishTool(t *task, c *call, status conversation.CallStatus, summary string, took time.Duration) {
	s.emit(t, conversation.ToolFinished{Call: c.ID, Status: status, Summary: summary, Took: took})
}

func (s *Session) toolDone(c conversation.ToolDone) {
	if t, open := s.call(c.Call); open != nil && !open.delegation() && !open.Held {
		s.finishTool(t, open, c.Status, c.Result, c.Took)
	}
}

// delegationDone ends a delegation; its open questions end with it.
func (s *Session) delegationDone(c conversation.DelegationDone) {
	if t, open := s.call(c.Delegation); open != nil && open.delegation() {
		s.finishDelegation(t, open, c.Status, c.Summary, c.Took)
	}
}

func (s *Session) finishDelegation(t *task, c *call, status conversation.CallStatus, summary string, took time.Duration) {
	for _, q := range append([]*question(nil), t.Questions...) {
		if q.Asked.Delegation == c.ID {
			s.emit(t, conversation.QuestionClosed{Question: q.Asked.Question, Reason: conversation.QuestionCancelled})
		}
	}
	s.emit(t, conversation.DelegationFinished{Delegation: c.ID, Status: status, Summary: summary, Took: took})
}

// delegationAsked records a delegation's question here too: its user is this
// session's user. Asked again, an answered question is answered again.
func (s *Session) delegationAsked(c conversation.DelegationAsked) {
	t, d := s.awaited(c.Delegation)
	if d == nil {
		return
	}
	if a, done := d.Answers[c.Question]; done {
		s.do(conversation.RouteAnswer{Delegation: c.Delegation, Question: c.Question, Text: a.Text, By: a.By})
		return
	}
	id := outer(c.Delegation, c.Question)
	if t.question(id) != nil {
		return
	}
	b := conversation.Asked{
		Question: id, Text: c.Text, Blocking: true, Choices: c.Choices, ExpiresAt: c.ExpiresAt, Default: c.Default,
		Delegation: c.Delegation, Approval: c.Approval,
	}
	s.emit(t, b)
	if s.key.Session.Depth() > 0 {
		s.do(conversation.ReportQuestion{Asked: b})
	}
}

// awaited finds a running delegation, and its task. One that this session does
// not wait for, or not any more, is told to cancel itself.
func (s *Session) awaited(id conversation.CallID) (*task, *call) {
	t, d := s.call(id)
	if d == nil || !d.delegation() || s.stops(t) {
		s.do(conversation.RefuseDelegation{Delegation: id})
		return nil, nil
	}
	return t, d
}

// stops is true while the delegations of a task are told to end.
func (s *Session) stops(t *task) bool { return t.Cancelling != nil || s.wrapping(t) }

// delegationQuestions closes what a delegation has not open any more: it has
// said so before, but a crash came before this session had stored it.
func (s *Session) delegationQuestions(c conversation.DelegationQuestions) {
	t, d := s.awaited(c.Delegation)
	if d == nil {
		return
	}
	for _, q := range slices.Clone(t.Questions) {
		id := inner(q.Asked.Question)
		if q.Asked.Delegation != c.Delegation || slices.Contains(c.Open, id) {
			continue
		}
		closed := conversation.DelegationQuestionClosed{Delegation: c.Delegation, Question: id, Reason: conversation.QuestionCancelled}
		if !q.Asked.ExpiresAt.IsZero() {
			closed.Reason, closed.Default = conversation.QuestionExpired, q.Asked.Default
		}
		s.delegationQuestionClosed(closed)
	}
}

func (s *Session) delegationQuestionClosed(c conversation.DelegationQuestionClosed) {
	id := outer(c.Delegation, c.Question)
	t, q := s.question(id)
	if q == nil {
		return
	}
	if s.key.Session.Depth() > 0 {
		s.do(conversation.ReportQuestionClosed{Question: id, Reason: c.Reason, Default: c.Default})
	}
	if c.Reason == conversation.QuestionExpired && c.Default != nil {
		s.emit(t, conversation.QuestionAnswered{Question: id, Text: *c.Default, By: byDefault})
		return
	}
	s.emit(t, conversation.QuestionClosed{Question: id, Reason: c.Reason})
}

// callEffects are the acquiring effects that an open call needs after a load.
func (s *Session) callEffects(t *task, c *call) []conversation.Effect {
	id := s.taskID(t.N)
	switch {
	case c.Held:
		return nil
	case c.delegation():
		return []conversation.Effect{conversation.StartDelegation{
			Task: id, Call: c.ID, Agent: c.Agent, Session: s.key.Session + "/" + conversation.SessionID(c.ID), Seq: c.Seq, Deadline: c.Deadline,
			Stop: s.stops(t),
		}}
	case t.Cancelling != nil:
		return nil
	case c.Tool == conversation.ToolAmend:
		return []conversation.Effect{conversation.AmendDelegation{Call: c.ID, Delegation: c.Target, Seq: c.Seq}}
	default:
		return []conversation.Effect{conversation.RunTool{Task: id, Call: c.ID, Tool: c.Tool, Seq: c.Seq, Deadline: c.Deadline}}
	}
}

// stopCalls tells every open call of a task to stop. One that waits for an
// approval has not started and ends at once.
func (s *Session) stopCalls(t *task) {
	for _, c := range append([]*call(nil), t.Calls...) {
		if c.Held {
			s.finishTool(t, c, conversation.CallCancelled, "cancelled", 0)
			continue
		}
		s.do(conversation.StopCall{Call: c.ID})
	}
}

// callDue is when a call is over whatever the shell says: a tool gets the
// cancel grace on top of its own deadline, which its child enforces.
func (s *Session) callDue(c *call) time.Time {
	switch {
	case c.Held || c.Deadline.IsZero():
		return time.Time{}
	case c.delegation():
		return c.Deadline
	default:
		return c.Deadline.Add(s.policy.CancelGrace)
	}
}

// tickCalls ends calls whose time is over.
func (s *Session) tickCalls(t *task) {
	for _, c := range append([]*call(nil), t.Calls...) {
		if t.Cancelling != nil {
			switch {
			case t.Cancelling.Until.After(s.now):
			case c.delegation():
				s.finishDelegation(t, c, conversation.CallCancelled, "cancelled", s.at().Sub(c.At))
			default:
				s.finishTool(t, c, conversation.CallUnknown, "outcome unknown: the call did not stop in time", s.at().Sub(c.At))
			}
			continue
		}
		due := s.callDue(c)
		if due.IsZero() || due.After(s.now) {
			continue
		}
		s.do(conversation.StopCall{Call: c.ID})
		if c.delegation() {
			s.finishDelegation(t, c, conversation.CallTimeout, "the delegation did not finish in time", s.at().Sub(c.At))
		} else {
			s.finishTool(t, c, conversation.CallTimeout, "the call did not finish in time", s.at().Sub(c.At))
		}
	}
}

// decideTell is a sub-session's first message; told again, it answers with the
// result, or with every open question.
func (s *Session) decideTell(c conversation.Tell) *conversation.Error {
	if s.Exists() {
		s.out.Receipt.Duplicate = true
		if s.state.Final != nil && s.state.Final.Status != 0 {
			s.report()
			return nil
		}
		for _, t := range s.state.Tasks {
			s.reportQuestions(t)
		}
		return nil
	}
	if s.key.Session.Depth() == 0 {
		return conversation.Errorf(conversation.BadRequest, "only a delegation's session is told an objective")
	}
	if _, ok := s.rules.Agents[c.Agent]; !ok {
		return conversation.Errorf(conversation.NotFound, "there is no agent %q", c.Agent)
	}
	s.emit(nil, conversation.SessionCreated{Title: conversation.Excerpt(c.Objective, excerptLength), Agent: c.Agent, Owner: c.Owner, Access: c.Access})
	say := conversation.Say{Author: c.Owner, Via: conversation.ViaDelegation, ClientMsgID: "tell", Text: c.Objective}
	id := s.taskID(1)
	s.accept(say, id, conversation.MessageAccepted{Disposition: conversation.Started})
	s.noteRow(s.task(id), nil)
	return nil
}

// reportQuestions tells the parent of a sub-session what is open, and that
// nothing else is.
func (s *Session) reportQuestions(t *task) {
	var open []conversation.QuestionID
	for _, q := range t.Questions {
		s.do(conversation.ReportQuestion{Asked: q.Asked})
		open = append(open, q.Asked.Question)
	}
	s.do(conversation.ReportQuestions{Open: open})
}

// acceptAmendment joins a text of the parent to the sub-session's only task.
func (s *Session) acceptAmendment(c conversation.Say) *conversation.Error {
	for _, t := range s.state.Tasks {
		if t.Cancelling == nil && t.Steps < s.maxSteps() {
			return s.join(c, t)
		}
	}
	return conversation.Errorf(conversation.Conflict, "the delegation has ended and cannot be amended")
}
