package machine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/machine/internal/state"
)

// The planner: what the calls of an answer ask for, checked before any of it is
// decided.

// planned is a call of an answer, checked before anything of it is decided.
type planned struct {
	decision conversation.Decision
	result   string // known at once; "" = it comes later
	covers   bool   // a coverMessage that holds: it changes nothing that a step would have to see
	run      func() // decides it; what was checked still holds then, for calls before it take nothing that it needs
}

// plan is what an answer's calls ask for, each in the place of its item (text has
// an empty place); any is false if there is no call. A bad call is not the task's
// end: it comes back to the model as an error result.
// Rule 5.1.
func (cs calls) plan(t *state.Task, items []conversation.Item) (plan []planned, any bool) {
	p := planner{d: cs, t: t}
	for _, m := range t.Messages {
		if m.Read != 0 {
			p.open = append(p.open, m)
		}
	}
	for _, c := range t.Calls {
		if c.Delegation() {
			p.delegations++
		}
	}
	for i, item := range items {
		if item.Kind != conversation.ItemCall {
			continue
		}
		call, err := p.plan(item)
		if err != nil {
			call = cs.failedCall(t, item, err)
		}
		if plan == nil {
			plan = make([]planned, len(items))
		}
		plan[i] = call
	}
	return plan, plan != nil
}

// planner remembers what earlier calls of the same answer have used up.
type planner struct {
	d           calls
	t           *state.Task
	open        []*state.Message // as numbered in the "open messages" entry that the model was shown
	taken       []conversation.MessageID
	answered    []conversation.QuestionID
	delegations int
}

func (p *planner) plan(item conversation.Item) (planned, error) {
	cs := p.d
	profile := cs.rules.Agents[cs.state.Agent]
	if agent, ok := cs.delegateAlias(item.Tool); ok {
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
// Rule 5.3.
func (cs calls) failedCall(t *state.Task, item conversation.Item, reason error) planned {
	decision := conversation.DecisionTool
	switch {
	case item.Tool == conversation.ToolAsk:
		decision = conversation.DecisionAsk
	case strings.HasPrefix(item.Tool, conversation.ToolDelegate):
		decision = conversation.DecisionDelegate
	}
	return planned{decision: decision, run: func() {
		id := cs.state.NextCall()
		cs.emit(t, conversation.ToolStarted{Call: id, Tool: item.Tool, Args: item.Args, Deadline: cs.now, ModelCall: item.ID})
		cs.emit(t, conversation.ToolFinished{Call: id, Status: conversation.CallError, Summary: "error: " + reason.Error()})
	}}
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
// Rule 2.18.
func (p *planner) message(r ref) (conversation.MessageID, bool) {
	want := strings.TrimSpace(string(r))
	want = strings.TrimSuffix(strings.TrimPrefix(want, "["), "]")
	if want == "" {
		return "", false
	}
	var found *state.Message
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
	cs, t := p.d, p.t
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
	if cs.policy.IsSentinel(args.Message) {
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
		part := cs.state.NextPart(t, args.Message, target, "")
		cs.emit(t, conversation.PartialResponse{Part: part})
		cs.answered(t, target, part.Index)
	}
	return call, nil
}

// Rule 4.4.
func (p *planner) cover(item conversation.Item) (planned, error) {
	cs, t := p.d, p.t
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
		call.run = func() { cs.resolve(t, target, conversation.ResolvedMerged, nil, "") }
	case "dismissed":
		call.run = func() { cs.resolve(t, target, conversation.ResolvedDismissed, nil, "") }
	case "answer":
		q := p.question(args.Question)
		if q == nil {
			return planned{}, fmt.Errorf("no question of this task is open that the message could answer")
		}
		p.answered = append(p.answered, q.Asked.Question)
		m := t.Message(target)
		call.run = func() {
			cs.emit(t, conversation.QuestionAnswered{Question: q.Asked.Question, Message: target, Text: m.Text, By: string(m.Author)})
			cs.resolve(t, target, conversation.ResolvedMerged, nil, q.Asked.Question)
		}
	default:
		return planned{}, fmt.Errorf(`as must be "amendment", "duplicate", "dismissed" or "answer"`)
	}
	p.taken = append(p.taken, target)
	return call, nil
}

// question finds the open non-blocking question that the model means; without a
// name the newest.
func (p *planner) question(r ref) *state.Question {
	for i := len(p.t.Questions) - 1; i >= 0; i-- {
		q := p.t.Questions[i]
		if !q.Own() || q.Asked.Blocking || slices.Contains(p.answered, q.Asked.Question) {
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
	cs, t := p.d, p.t
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
	if cs.key.Session.Depth() > 0 {
		b.Blocking = true // the parent's user answers; nothing else could wake this session
	}
	if args.ExpiresIn != "" {
		at, ok := cs.questions().deadline(args.ExpiresIn)
		if !ok {
			return planned{}, fmt.Errorf(`expiresIn must be a duration such as "10m", of %d days at most`, maxDeadline/(24*time.Hour))
		}
		b.ExpiresAt = at
	}
	call := planned{decision: conversation.DecisionAsk, run: func() { cs.questions().ask(t, b) }}
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
// Rule 5.10.
func (p *planner) delegate(item conversation.Item, jobs []job) (planned, error) {
	cs, t := p.d, p.t
	profile := cs.rules.Agents[cs.state.Agent]
	switch {
	case !profile.Delegates:
		return planned{}, fmt.Errorf("this agent may not delegate")
	case cs.key.Session.Depth()+1 > cs.policy.MaxDepth:
		return planned{}, fmt.Errorf("delegations may be %d deep at most", cs.policy.MaxDepth)
	case p.delegations+len(jobs) > cs.policy.MaxParallel:
		return planned{}, fmt.Errorf("at most %d delegations may run at once in a task, and %d do", cs.policy.MaxParallel, p.delegations)
	}
	for i := range jobs {
		j := &jobs[i]
		if to, ok := cs.rules.Agents[j.Agent]; !ok || !to.Delegable {
			return planned{}, fmt.Errorf("there is no agent %q to delegate to", j.Agent)
		}
		if conversation.IsBlank(j.Objective) {
			return planned{}, fmt.Errorf("objective must not be blank")
		}
		j.deadline = conversation.Stamp(cs.now.Add(cs.policy.DelegateTime))
		if j.Deadline != "" {
			at, ok := cs.questions().deadline(j.Deadline)
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
			id := conversation.CallID(fmt.Sprintf("d%d", cs.state.Delegations+1))
			b := conversation.DelegationStarted{
				Delegation: id, Agent: j.Agent, Objective: j.Objective, Session: cs.key.Session + "/" + conversation.SessionID(id),
				Deadline: j.deadline, ModelCall: item.ID,
			}
			e := cs.emit(t, b)
			cs.do(conversation.StartDelegation{
				Task: e.Task, Call: id, Agent: j.Agent, Session: b.Session, Objective: j.Objective, Seq: e.Seq, Deadline: j.deadline,
			})
		}
	}}, nil
}

func (p *planner) amend(item conversation.Item) (planned, error) {
	cs, t := p.d, p.t
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
	d := t.Call(conversation.CallID(args.Delegation))
	if d == nil || !d.Delegation() {
		return planned{}, fmt.Errorf("delegation %q does not run", args.Delegation)
	}
	deadline := conversation.Stamp(cs.now.Add(cs.policy.ToolTimeout))
	return planned{decision: conversation.DecisionTool, run: func() {
		id := cs.state.NextCall()
		e := cs.emit(t, conversation.ToolStarted{
			Call: id, Tool: conversation.ToolAmend, Args: item.Args, Deadline: deadline, Delegation: d.ID, ModelCall: item.ID, Idempotent: true,
		})
		cs.do(conversation.AmendDelegation{Call: id, Delegation: d.ID, Text: args.Text, Seq: e.Seq})
	}}, nil
}

func (p *planner) tool(item conversation.Item, profile conversation.Profile) (planned, error) {
	cs, t := p.d, p.t
	rule, ok := cs.rules.Tools[item.Tool]
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
			cs.questions().ask(t, conversation.Asked{
				Text: fmt.Sprintf("May I call %s?", item.Tool), Blocking: true, Choices: []string{"approve", "decline"},
				Approval: &conversation.Approval{Call: cs.state.NextCall(), Tool: item.Tool, Args: args}, ModelCall: item.ID,
			})
		}}, nil
	}
	return planned{decision: conversation.DecisionTool, run: func() {
		cs.startTool(t, cs.state.NextCall(), item.Tool, args, item.ID)
	}}, nil
}

// The results that the requirements fix (D-09, D-15).
const (
	resultDelivered = "delivered"
	resultAsked     = "question sent, continuing"
)
