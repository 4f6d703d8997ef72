package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/machine/internal/intake"
	"parley/conversation/machine/internal/state"
	"parley/conversation/policy"
)

// Of answers that ended at the model's limit of tokens.
const (
	MaxCuts   = 3                // so many in a row are gone on with
	Truncated = "[...truncated]" // ends a text that is not gone on with
)

// HasCalls is true for an answer that asks for something beside its text.
func HasCalls(items []conversation.Item) bool {
	return slices.ContainsFunc(items, func(i conversation.Item) bool { return i.Kind == conversation.ItemCall })
}

// Withheld is true for an answer without calls of which the provider has withheld the
// rest, or all.
func Withheld(a conversation.ModelAnswer) bool {
	return a.Stop == conversation.StopFiltered && !HasCalls(a.Items)
}

// Situation holds all that the check of an answer needs to know.
type Situation struct {
	Task   *state.Task // the task that the answer belongs to, as the model was shown it
	Agent  conversation.AgentName
	Depth  int // of the session; 0 = a root session
	Rules  *policy.Rules
	Policy *policy.Policy // the session's
	Now    time.Time

	Questions []*state.Question          // open in the session
	Shown     []conversation.OpenMessage // with whole texts, as far as they are known
	Form      conversation.NudgeForm     // of the nudge that opened the step
}

// Call is one call of an answer, checked.
type Call struct {
	Item     conversation.Item
	Decision conversation.Decision
	Result   string // the call's result for the model, if it is known at once; "" = it comes later
	Covers   bool   // a coverMessage that holds: it changes nothing that a step would have to see
	Do       Action // nil: the item is no call, but text
}

// Action is one thing to be done for a call. The checks still hold while the actions
// of an answer are carried out in order: no action takes what a later one needs.
type Action interface{ isAction() }

// The actions.
type (
	// Nothing is asked for: the call said that there is nothing to say.
	Nothing struct{}
	// Refuse answers a bad call: the reason goes back to the model as its result.
	Refuse struct{ Reason error }
	// Show shows a text now. It answers Message; "" = no particular message.
	Show struct {
		Text    string
		Message conversation.MessageID
	}
	// Resolve says what became of a message.
	Resolve struct {
		Message conversation.MessageID
		How     conversation.Resolution
	}
	// Answered says that Message was answered by what is shown already, or by this answer.
	Answered struct {
		Message conversation.MessageID
		Part    conversation.PartIndex // with ByPart: the part that has answered it
		ByPart  bool
	}
	// StaysOpen says that nothing has answered Message yet.
	StaysOpen struct{ Message conversation.MessageID }
	// AnswerQuestion takes a message as the answer to an open question.
	AnswerQuestion struct {
		Message  *state.Message
		Question conversation.QuestionID
		Text     string // the message's, whole
	}
	// Ask opens a question; its id is not given yet.
	Ask struct{ Question conversation.Asked }
	// Delegate starts delegations, all of them.
	Delegate struct{ Jobs []Job }
	// Amend tells a running delegation something new.
	Amend struct {
		Delegation conversation.CallID
		Text       string
		Deadline   time.Time
	}
	// CallTool calls a tool; with Approval a person must allow it first.
	CallTool struct {
		Args     string // JSON, an object
		Approval bool
		Caller   bool // the session's caller runs it
	}
)

// Job is one delegation.
type Job struct {
	Agent     conversation.AgentName
	Objective string
	Deadline  time.Time
}

func (Nothing) isAction()        {}
func (Refuse) isAction()         {}
func (Show) isAction()           {}
func (Resolve) isAction()        {}
func (Answered) isAction()       {}
func (StaysOpen) isAction()      {}
func (AnswerQuestion) isAction() {}
func (Ask) isAction()            {}
func (Delegate) isAction()       {}
func (Amend) isAction()          {}
func (CallTool) isAction()       {}

// Calls checks the calls of an answer and gives each in the place of its item; nil if
// there is no call. A bad call is not the task's end: it comes back to the model
// as an error result.
// Rule 5.1.
func Calls(a Situation, items []conversation.Item) []Call {
	if !slices.ContainsFunc(items, func(i conversation.Item) bool { return i.Kind == conversation.ItemCall }) {
		return nil
	}
	p := planner{Situation: a, says: !Closes(a.Form) && slices.ContainsFunc(items, a.says)}
	for _, m := range a.Task.Messages {
		if m.Read != 0 {
			p.open = append(p.open, m)
		}
	}
	for _, c := range a.Task.Calls {
		if c.Delegation() {
			p.delegations++
		} else {
			p.tools++
		}
	}
	calls := make([]Call, len(items))
	for i, item := range items {
		if item.Kind != conversation.ItemCall {
			continue
		}
		call, err := p.plan(item)
		switch {
		case err != nil && Closes(a.Form): // nothing follows it, and nothing of it is shown
			call = Call{Decision: conversation.DecisionTool, Result: "error: " + err.Error(), Do: Nothing{}}
		case err != nil:
			call = refused(item, err)
		}
		call.Item = item
		calls[i] = call
	}
	return calls
}

// says is true for an item that shows something.
func (a Situation) says(i conversation.Item) bool {
	text := i.Text
	if i.Kind == conversation.ItemCall {
		var args struct{ Message string }
		if i.Tool != conversation.ToolRespond || arguments(i, &args) != nil {
			return false
		}
		text = args.Message
	}
	return !conversation.IsBlank(text) && !a.Policy.IsSentinel(text)
}

// Named are the messages of which an answer itself says what became of them.
func Named(calls []Call) []conversation.MessageID {
	var named []conversation.MessageID
	for _, c := range calls {
		switch a := c.Do.(type) {
		case Show:
			named = append(named, a.Message)
		case Resolve:
			named = append(named, a.Message)
		case Answered:
			named = append(named, a.Message)
		case StaysOpen:
			named = append(named, a.Message)
		case AnswerQuestion:
			named = append(named, a.Message.ID)
		}
	}
	return named
}

// AnsweredBy are the messages of which an answer says that they were answered already,
// or are by its own text, and not by which part.
func AnsweredBy(calls []Call) []conversation.MessageID {
	var messages []conversation.MessageID
	for _, c := range calls {
		if a, is := c.Do.(Answered); is && !a.ByPart {
			messages = append(messages, a.Message)
		}
	}
	return messages
}

// planner remembers what earlier calls of the same answer have used up.
type planner struct {
	Situation
	open        []*state.Message // as numbered in the "open messages" entry that the model was shown
	taken       []conversation.MessageID
	answered    []conversation.QuestionID
	delegations int
	says        bool // the answer shows something
	tools       int
}

// Closes is true for a nudge that asks for calls alone, about messages that were read.
func Closes(form conversation.NudgeForm) bool {
	return form == conversation.NudgeClosing || form == conversation.NudgeJudged
}

func (p *planner) plan(item conversation.Item) (Call, error) {
	if item.Tool != conversation.ToolCover && (p.Form == conversation.NudgeJudged || p.Form == conversation.NudgeClosing && item.Tool != conversation.ToolRespond) {
		return Call{}, fmt.Errorf("%s cannot be called now", item.Tool)
	}
	profile := p.Rules.Agent(p.Agent)
	if agent, ok := AgentOf(p.Rules, item.Tool); ok {
		return p.delegateTo(item, agent)
	}
	switch item.Tool {
	case conversation.ToolRespond:
		return p.respond(item)
	case conversation.ToolCover:
		return p.cover(item)
	case conversation.ToolAsk:
		if !profile.MayAsk {
			return Call{}, fmt.Errorf("this agent may not ask the user")
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

// refused is a call with an error result, of the kind that it was meant to be.
func refused(item conversation.Item, reason error) Call {
	decision := conversation.DecisionTool
	switch {
	case item.Tool == conversation.ToolAsk:
		decision = conversation.DecisionAsk
	case strings.HasPrefix(item.Tool, conversation.ToolDelegate):
		decision = conversation.DecisionDelegate
	}
	return Call{Decision: decision, Do: Refuse{reason}}
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

// ref is a model's name for a message or a question: a number, an id or a quote.
type ref string

// names are the arguments by which models name a message, whatever the tool's description says.
type names struct {
	MessageID ref `json:"messageId"`
	InReplyTo ref `json:"inReplyTo"`
}

// name is the one that was given.
func (n names) name(others ...ref) ref {
	return cmp.Or(append([]ref{n.InReplyTo, n.MessageID}, others...)...)
}

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
	quote := strings.ToLower(strings.Trim(strings.Trim(want, `"'`), "…"))
	var found *state.Message
	several := false
	for _, m := range p.open {
		text := strings.ToLower(m.Text)
		if want == strconv.Itoa(m.Number) || want == string(m.ID) || quote == text {
			found, several = m, false
			break
		}
		if len(quote) >= 4 && (strings.HasPrefix(text, quote) || strings.HasSuffix(text, quote)) {
			several = found != nil
			found = m
		}
	}
	if found == nil || several || slices.Contains(p.taken, found.ID) {
		return "", false
	}
	return found.ID, true
}

// whichOpen lists the messages that can be named, for an error.
func (p *planner) whichOpen() string {
	var list []string
	for _, m := range p.open {
		if !slices.Contains(p.taken, m.ID) {
			list = append(list, fmt.Sprintf("[%d] %q", m.Number, conversation.Excerpt(m.Text, openQuote)))
		}
	}
	if len(list) == 0 {
		return "none is open"
	}
	return "open are " + strings.Join(list, ", ")
}

// openQuote bounds how an error quotes a message, in code points.
const openQuote = 60

func (p *planner) respond(item conversation.Item) (Call, error) {
	var args struct {
		Message string `json:"message"`
		names
	}
	if err := arguments(item, &args); err != nil {
		return Call{}, err
	}
	if conversation.IsBlank(args.Message) {
		return Call{}, fmt.Errorf("message must not be blank")
	}
	call := Call{Decision: conversation.DecisionTool, Result: conversation.ResultDelivered, Do: Nothing{}}
	if p.Policy.IsSentinel(args.Message) {
		call.Result = resultNotShown
		return call, nil
	}
	target, known := p.message(args.name())
	switch {
	case known:
	case Closes(p.Form):
		return Call{}, fmt.Errorf("inReplyTo %q names no open message; %s", args.name(), p.whichOpen())
	case args.name() != "":
		call.Result = conversation.ResultDelivered + "; inReplyTo names no open message, so whom it answers was guessed; " + p.whichOpen()
	}
	if known {
		p.taken = append(p.taken, target)
	}
	call.Do = Show{Text: args.Message, Message: target}
	return call, nil
}

// Rule 4.4.
func (p *planner) cover(item conversation.Item) (Call, error) {
	var args struct {
		As       string `json:"as"`
		Question ref    `json:"question"`
		Message  ref    `json:"message"`
		Part     ref    `json:"part"`
		names
	}
	if err := arguments(item, &args); err != nil {
		return Call{}, err
	}
	name := args.name(args.Message)
	target, known := p.message(name)
	if !known {
		return Call{}, fmt.Errorf("messageId %q names no open message; %s", name, p.whichOpen())
	}
	call := Call{Decision: conversation.DecisionTool, Covers: true, Result: conversation.ResultCovered}
	if p.Form == conversation.NudgeJudged && args.As != "answered" && args.As != "open" {
		return Call{}, fmt.Errorf(`as must be "answered" or "open"`)
	}
	switch args.As {
	case "amendment", "duplicate":
		call.Do = Resolve{target, conversation.ResolvedMerged}
	case "dismissed":
		call.Do = Resolve{target, conversation.ResolvedDismissed}
	case "answered":
		if !p.says && p.Task.LastPart == nil {
			return Call{}, fmt.Errorf("nothing was said yet that could have answered it: answer it with respondToUser and inReplyTo")
		}
		part, err := p.part(args.Part)
		if err != nil {
			return Call{}, err
		}
		call.Do = Answered{target, part, args.Part != ""}
	case "open":
		call.Do = StaysOpen{target}
	case "answer":
		q := p.question(args.Question)
		if q == nil {
			if args.Question != "" {
				return Call{}, fmt.Errorf("question %q names no open question that a message may answer", args.Question)
			}
			return Call{}, fmt.Errorf("no question is open that the message could answer")
		}
		p.answered = append(p.answered, q.Asked.Question)
		m := p.Task.Message(target)
		call.Do = AnswerQuestion{m, q.Asked.Question, p.whole(m)}
	default:
		return Call{}, fmt.Errorf(`as must be "answered", "amendment", "duplicate", "dismissed", "answer" or "open"`)
	}
	p.taken = append(p.taken, target)
	return call, nil
}

// part finds a part of the task by its number, from 1; without a name it is the one that
// the caller chooses.
// Rule 8.11.
func (p *planner) part(r ref) (conversation.PartIndex, error) {
	if r == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(strings.TrimSuffix(strings.Trim(string(r), " []()"), ".0"))
	if err != nil || n < 1 || n > int(p.Task.NextPart) {
		return 0, fmt.Errorf("part %q is none of the %d texts that were shown", r, p.Task.NextPart)
	}
	return conversation.PartIndex(n - 1), nil
}

// question finds the open question of the session that the model means, never an
// approval; without a name the newest non-blocking one of its own task, else the newest.
// Rule 2.18.
func (p *planner) question(r ref) *state.Question {
	name := strings.TrimSpace(string(r))
	quote := strings.ToLower(strings.TrimSuffix(strings.Trim(name, `"'`), "…"))
	var found, own *state.Question
	for _, q := range p.Questions {
		id := q.Asked.Question
		if q.Asked.Approval != nil || slices.Contains(p.answered, id) {
			continue
		}
		switch {
		case name == string(id):
			return q
		case name == "" || len(quote) >= 4 && strings.HasPrefix(strings.ToLower(q.Asked.Text), quote):
			if found == nil || q.Seq > found.Seq {
				found = q
			}
			if mine := p.Task.Question(id) == q && q.Own() && !q.Asked.Blocking; mine && (own == nil || q.Seq > own.Seq) {
				own = q
			}
		}
	}
	return cmp.Or(own, found)
}

// whole is the text of a message that the model was shown.
func (p *planner) whole(m *state.Message) string {
	for _, o := range p.Shown {
		if o.Message == m.ID && conversation.Excerpt(o.Text, state.RememberedText) == m.Text {
			return o.Text
		}
	}
	return m.Text
}

func (p *planner) ask(item conversation.Item) (Call, error) {
	var args struct {
		Question  string   `json:"question"`
		InReplyTo ref      `json:"inReplyTo"`
		Blocking  *bool    `json:"blocking"`
		Choices   []string `json:"choices"`
		ExpiresIn string   `json:"expiresIn"`
		Default   *string  `json:"default"`
	}
	if err := arguments(item, &args); err != nil {
		return Call{}, err
	}
	if conversation.IsBlank(args.Question) {
		return Call{}, fmt.Errorf("question must not be blank")
	}
	b := conversation.Asked{Text: args.Question, Blocking: args.Blocking == nil || *args.Blocking, Default: args.Default, ModelCall: item.ID}
	if len(args.Choices) > 0 {
		b.Choices = args.Choices
	}
	if p.Depth > 0 {
		b.Blocking = true // the parent's user answers; nothing else could wake this session
	}
	if args.ExpiresIn != "" {
		at, ok := p.deadline(args.ExpiresIn)
		if !ok {
			return Call{}, fmt.Errorf(`expiresIn must be a duration such as "10m", of %d days at most`, maxDeadline/(24*time.Hour))
		}
		b.ExpiresAt = at
	}
	about, known := p.message(args.InReplyTo)
	b.About = about
	call := Call{Decision: conversation.DecisionAsk, Do: Ask{b}}
	if !b.Blocking {
		call.Result = resultAsked
		if args.InReplyTo != "" && !known {
			call.Result += "; inReplyTo names no open message, so what the question is about was guessed"
		}
	}
	return call, nil
}

// AgentOf is the agent of a tool name such as delegateToResearcher.
func AgentOf(rules *policy.Rules, tool string) (conversation.AgentName, bool) {
	if !strings.HasPrefix(tool, conversation.DelegatePrefix) {
		return "", false
	}
	for _, name := range slices.Sorted(maps.Keys(rules.Agents)) { // of two with one alias always the same one
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
}

func (p *planner) delegateTo(item conversation.Item, agent conversation.AgentName) (Call, error) {
	var j job
	if err := arguments(item, &j); err != nil {
		return Call{}, err
	}
	if agent != "" {
		j.Agent = agent
	}
	return p.delegate(item, []job{j})
}

func (p *planner) delegateParallel(item conversation.Item) (Call, error) {
	var args struct {
		Jobs []job `json:"jobs"`
	}
	if err := arguments(item, &args); err != nil {
		return Call{}, err
	}
	if len(args.Jobs) == 0 {
		return Call{}, fmt.Errorf("jobs must not be empty")
	}
	return p.delegate(item, args.Jobs)
}

// delegate checks all jobs before any of them is started: all or none.
// Rule 5.10.
func (p *planner) delegate(item conversation.Item, jobs []job) (Call, error) {
	profile := p.Rules.Agent(p.Agent)
	switch {
	case !profile.Delegates:
		return Call{}, fmt.Errorf("this agent may not delegate")
	case p.Depth+1 > p.Policy.MaxDepth:
		return Call{}, fmt.Errorf("delegations may be %d deep at most", p.Policy.MaxDepth)
	case p.delegations+len(jobs) > p.Policy.MaxParallel:
		return Call{}, fmt.Errorf("%s: at most %d may run in a task, and %d do", conversation.TooManyDelegations, p.Policy.MaxParallel, p.delegations)
	}
	planned := make([]Job, len(jobs))
	for i, j := range jobs {
		if to, ok := p.Rules.Agents[j.Agent]; !ok || !to.Delegable {
			return Call{}, fmt.Errorf("there is no agent %q to delegate to", j.Agent)
		}
		if conversation.IsBlank(j.Objective) {
			return Call{}, fmt.Errorf("objective must not be blank")
		}
		deadline := conversation.Stamp(p.Now.Add(p.Policy.DelegateTime))
		if j.Deadline != "" {
			at, ok := p.deadline(j.Deadline)
			if !ok {
				return Call{}, fmt.Errorf(`deadline must be a duration such as "10m", or a time to come, %d days ahead at most`, maxDeadline/(24*time.Hour))
			}
			deadline = at
		}
		if !conversation.IsBlank(j.Context) {
			j.Objective += "\n\nContext: " + j.Context
		}
		planned[i] = Job{Agent: j.Agent, Objective: j.Objective, Deadline: deadline}
	}
	p.delegations += len(jobs)
	return Call{Decision: conversation.DecisionDelegate, Do: Delegate{planned}}, nil
}

func (p *planner) amend(item conversation.Item) (Call, error) {
	var args struct {
		Delegation ref    `json:"delegation"`
		Text       string `json:"text"`
	}
	if err := arguments(item, &args); err != nil {
		return Call{}, err
	}
	if conversation.IsBlank(args.Text) {
		return Call{}, fmt.Errorf("text must not be blank")
	}
	d := p.Task.Call(conversation.CallID(args.Delegation))
	if d == nil || !d.Delegation() {
		return Call{}, fmt.Errorf("delegation %q does not run", args.Delegation)
	}
	deadline := conversation.Stamp(p.Now.Add(p.Policy.ToolTimeout))
	return Call{Decision: conversation.DecisionTool, Do: Amend{d.ID, args.Text, deadline}}, nil
}

// Rules 5.10, 5.13.
func (p *planner) tool(item conversation.Item, profile policy.Profile) (Call, error) {
	rule, caller := p.Policy.Own.Tool(item.Tool)
	caller = caller && profile.EngineTools
	known := caller
	if !caller {
		rule, known = p.Rules.Tool(item.Tool)
		known = known && profile.Allows(item.Tool)
	}
	if !known {
		return Call{}, fmt.Errorf("there is no tool %q", item.Tool)
	}
	args := item.Args
	if conversation.IsBlank(args) {
		args = "{}"
	}
	if !intake.IsObject(args) {
		return Call{}, fmt.Errorf("the arguments must be a JSON object")
	}
	if rule.Check != nil {
		if err := rule.Check(json.RawMessage(args)); err != nil {
			return Call{}, err
		}
	}
	if p.tools >= p.Policy.MaxTools {
		return Call{}, fmt.Errorf("%s: at most %d may run in a task, and %d do", conversation.TooManyTools, p.Policy.MaxTools, p.tools)
	}
	p.tools++
	return Call{Decision: conversation.DecisionTool, Do: CallTool{args, rule.Spec.Approval, caller}}, nil
}

// The results that the requirements fix (D-09, D-15; M-22 for what is not shown).
const (
	resultAsked    = "question sent, continuing"
	resultNotShown = "not shown: it says that there is nothing to say"
)

// maxDeadline bounds how far ahead a time in a model's arguments may lie. It keeps
// every stored time within JSON's range, and keeps out times that are never reached.
const maxDeadline = 365 * 24 * time.Hour

// deadline reads a duration ("10m") or an RFC 3339 time of a model's arguments.
// Rule 4.8.
func (p *planner) deadline(text string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, text)
	if d, notDuration := time.ParseDuration(text); notDuration == nil {
		at, err = p.Now.Add(d), nil
	}
	if ahead := at.Sub(p.Now); err != nil || ahead <= 0 || ahead > maxDeadline {
		return time.Time{}, false
	}
	return conversation.Stamp(at), true
}
