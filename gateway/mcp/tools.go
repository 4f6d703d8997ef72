package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
	"parley/gateway/service"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// tools are the tools of the server, for one user.
type tools struct {
	*way
	who *service.Principal
}

func (t tools) add(s *sdk.Server) {
	no, yes := false, true
	sdk.AddTool(s, &sdk.Tool{
		Name: "send_message", Title: "Say something in a session",
		Description: "Says something in a session of parley and waits for the agent's answer. Without session a new one is opened. The message is stored before anything is answered; " +
			"if the answer takes long, the work goes on, and read_session shows it later.",
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &yes},
	}, t.send)
	sdk.AddTool(s, &sdk.Tool{
		Name: "read_session", Title: "Read a session",
		Description: "Shows what was said in a session, by whom, what became of each message, what is asked and what runs.",
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no},
	}, t.read)
	sdk.AddTool(s, &sdk.Tool{
		Name: "answer", Title: "Answer a question",
		Description: "Answers what an agent asks: a question by text, the approval of a call by approve. Then waits as send_message does.",
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &yes},
	}, t.answer)
	sdk.AddTool(s, &sdk.Tool{
		Name: "cancel", Title: "Stop the work",
		Description: "Stops a task of a session: the one that is named, else the one that runs.",
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no},
	}, t.cancel)
}

// outcome is what send_message and answer tell.
type outcome struct {
	Session   string     `json:"session" jsonschema:"the session"`
	Message   string     `json:"message,omitempty" jsonschema:"the message that was said"`
	Task      string     `json:"task" jsonschema:"the task that works on it"`
	Status    string     `json:"status" jsonschema:"QUEUED, RUNNING, AWAITING_RESPONSE, COMPLETE, ERROR or CANCELLED"`
	Texts     []said     `json:"texts" jsonschema:"what the agent has said, in order"`
	Questions []question `json:"questions,omitempty" jsonschema:"what the agent asks: use the tool answer"`
	Receipt   *receipt   `json:"receipt,omitempty" jsonschema:"what became of the message; absent while it is worked on"`
	Error     string     `json:"error,omitempty" jsonschema:"why the task has failed"`
	Note      string     `json:"note,omitempty"`
}

type said struct {
	Message string `json:"message"`
	Text    string `json:"text"`
	ReplyTo string `json:"in_reply_to,omitempty" jsonschema:"the message that it answers"`
	Cut     bool   `json:"cut,omitempty" jsonschema:"it ended before its end"`
}

type receipt struct {
	How      string `json:"how"`
	Evidence string `json:"evidence,omitempty" jsonschema:"how it is known"`
}

type question struct {
	Question string   `json:"question" jsonschema:"its id"`
	Text     string   `json:"text"`
	Blocking bool     `json:"blocking" jsonschema:"the task waits for the answer"`
	Choices  []string `json:"choices,omitempty"`
	Approval string   `json:"approval,omitempty" jsonschema:"the tool that may be called if it is approved"`
	Args     string   `json:"args,omitempty"`
}

func questionFrom(q *conversation.QuestionView) question {
	asked := question{Question: string(q.Asked.Question), Text: q.Asked.Text, Blocking: q.Asked.Blocking, Choices: q.Asked.Choices}
	if q.Asked.Approval != nil {
		asked.Approval, asked.Args = q.Asked.Approval.Tool, q.Asked.Approval.Args
	}
	return asked
}

type sendInput struct {
	Session  string `json:"session,omitempty" jsonschema:"the id of a session, or a name of your own for one; without it a new one is opened"`
	Text     string `json:"text" jsonschema:"what to say"`
	Mode     string `json:"mode,omitempty" jsonschema:"what it does while a task runs: queue (the default) waits for its turn, steer joins the running task, interrupt ends it"`
	ClientID string `json:"client_id,omitempty" jsonschema:"a name of your own for this message: said again under it, it takes effect once"`
	Wait     *int   `json:"wait_seconds,omitempty" jsonschema:"how long to wait for the answer; 0 does not wait. The server may wait less"`
}

// state is what a host brings back with the answers to what was asked of its user. It names what
// the host may know; whether it may do something with it is asked as always.
type state struct {
	Session conversation.SessionID `json:"s"`
	Message conversation.MessageID `json:"m"`
	Task    conversation.TaskID    `json:"t"`
}

func (t tools) send(ctx context.Context, req *sdk.CallToolRequest, in sendInput) (*sdk.CallToolResult, outcome, error) {
	var st state
	if req.Params.RequestState != "" {
		if json.Unmarshal([]byte(req.Params.RequestState), &st) != nil {
			return t.refuse(conversation.Errorf(conversation.BadRequest, "requestState is not one of this server's"))
		}
		key, err := exchange.TaskKey(t.who, st.Task)
		if err != nil {
			return t.refuse(err)
		}
		if err := t.respond(ctx, key, req.Params.InputResponses); err != nil {
			return t.refuse(err)
		}
		return t.follow(ctx, req, key, exchange.NewRun(st.Message, st.Task), in.Wait)
	}
	mode := conversation.ModeQueue
	if in.Mode != "" {
		ok := false
		if mode, ok = conversation.ParseMode(in.Mode); !ok {
			return t.refuse(conversation.Errorf(conversation.BadRequest, "mode must be queue, steer, collect, interrupt or reject"))
		}
	}
	if bad := protocol.CheckText("text", &in.Text, t.Limits); bad != nil { // before a session is opened for it
		return t.refuse(bad)
	}
	asking, cancel := context.WithTimeout(ctx, t.Times.Request)
	defer cancel()
	key, _, err := t.FindOrOpen(asking, t.who, in.Session, conversation.Create{})
	if err != nil {
		return t.refuse(err)
	}
	r, err := t.Say(asking, t.who, key, exchange.Said{Via: conversation.ViaMCP, ID: clientID("say:" + in.ClientID), Text: in.Text, Mode: mode})
	if err != nil {
		return t.refuse(err)
	}
	return t.follow(ctx, req, key, exchange.NewRun(r.Message, r.Task), in.Wait)
}

// clientID is a client id of a host's own, apart from those of other protocols; random without one.
func clientID(text string) conversation.ClientMsgID {
	if strings.HasSuffix(text, ":") {
		return door.RandomID()
	}
	return door.OwnID("mcp:" + text)
}

// refuse is the result of a tool that could not do what it should: the model that has called it
// may read why.
func (t tools) refuse(err error) (*sdk.CallToolResult, outcome, error) {
	return nil, outcome{}, t.told(err)
}

func (t tools) told(err error) error {
	e := t.Refusal(err)
	text := string(e.Code) + ": " + e.Message
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(" (again in %s)", e.RetryAfter.Round(time.Second))
	}
	return errors.New(text)
}

// elicits is true for a host that can ask its user.
func elicits(req *sdk.CallToolRequest) bool {
	c := req.ClientCapabilities()
	return c != nil && c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

// roundTrips is the protocol's version from which on the server asks a host's user by a result.
const roundTrips = "2026-07-28"

// follow follows a run until it rests, and asks the host's user what it waits for. The wait is
// bounded; the work is not.
func (t tools) follow(ctx context.Context, req *sdk.CallToolRequest, key conversation.SessionKey, run *exchange.Run, seconds *int) (*sdk.CallToolResult, outcome, error) {
	row, err := t.TaskRow(ctx, t.who, key, run.Task)
	if err != nil {
		return t.refuse(err)
	}
	wait := t.Times.WaitMax
	if seconds != nil {
		wait = min(wait, time.Duration(max(*seconds, 0))*time.Second)
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	stop := context.AfterFunc(t.Serving, cancel)
	defer stop()
	f, err := t.Follow(ctx, t.who, exchange.From{Key: key, Since: max(row.First, 1) - 1})
	if err != nil {
		return t.refuse(err)
	}
	defer f.Close()
	progress := newProgress(req)
	asked := map[conversation.QuestionID]bool{} // and answered, by the host's user
	synced := false
	for {
		if synced && run.Rests() && !answered(run.Waits(), asked) {
			questions := newly(run.Waits(), asked)
			if run.Ended() || len(questions) == 0 || !elicits(req) {
				return t.result(key, run, "")
			}
			if req.ProtocolVersion() >= roundTrips {
				return t.ask(key, run, questions)
			}
			for _, q := range questions {
				answer, err := req.Session.Elicit(waiting, elicitation(q))
				if err == nil {
					asked[q.Asked.Question], err = t.take(ctx, key, q.Asked, answer)
				}
				switch {
				case waiting.Err() != nil:
				case err != nil:
					return t.result(key, run, "The host could not ask its user: use the tool answer.")
				case !asked[q.Asked.Question]:
					return t.result(key, run, "The user has not answered.")
				}
			}
		}
		n, err := f.Next(waiting)
		switch {
		case waiting.Err() != nil && ctx.Err() == nil:
			return t.result(key, run, "The work goes on: read_session shows what comes of it.")
		case ctx.Err() != nil: // the host waits no more; the task goes on
			return nil, outcome{}, ctx.Err()
		case err != nil:
			return t.refuse(err)
		}
		synced = synced || n.Kind == exchange.Synced
		if run.Add(n) {
			progress.note(ctx, n)
		}
	}
}

// answered is true when the answers to all that is waited for are on their way through the log.
func answered(open []*conversation.QuestionView, asked map[conversation.QuestionID]bool) bool {
	for _, q := range open {
		if !asked[q.Asked.Question] {
			return false
		}
	}
	return len(open) > 0
}

// newly are the questions that were not asked yet.
func newly(open []*conversation.QuestionView, asked map[conversation.QuestionID]bool) (questions []*conversation.QuestionView) {
	for _, q := range open {
		if !asked[q.Asked.Question] && q.Asked.Call == "" {
			questions = append(questions, q)
		}
	}
	return questions
}

// progress tells a host that asks for it how far a run is.
type progress struct {
	req   *sdk.CallToolRequest
	token any
	steps float64
	runes int
}

func newProgress(req *sdk.CallToolRequest) *progress {
	return &progress{req: req, token: req.Params.GetProgressToken()}
}

// progressEvery is how many code points of a text are one step of progress.
const progressEvery = 200

func (p *progress) note(ctx context.Context, n *exchange.Note) {
	if p.token == nil {
		return
	}
	text := ""
	switch n.Kind {
	case exchange.TextGrew:
		if p.runes += len(n.Delta); p.runes < progressEvery {
			return
		}
		p.runes, text = 0, "writing"
	case exchange.TextEnded:
		text = conversation.Excerpt(n.Item.Text, 200)
	case exchange.CallBegan:
		if text = "calling " + n.Call.Tool; n.Call.Tool == "" {
			text = "delegating to " + string(n.Call.Agent)
		}
	case exchange.CallProgress:
		text = n.Call.Note
	case exchange.Asked:
		text = "asking: " + n.Question.Asked.Text
	case exchange.Status:
		text = n.Event.Body.(conversation.TaskStatusChanged).New.String()
	default:
		return
	}
	p.steps++
	// A host that has gone is noticed by the call itself.
	_ = p.req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: p.token, Progress: p.steps, Message: text})
}

// result is what a run has come to.
func (t tools) result(key conversation.SessionKey, run *exchange.Run, note string) (*sdk.CallToolResult, outcome, error) {
	o := outcome{Session: string(key.Session), Message: string(run.Message), Task: string(run.Task), Status: run.Status.String(), Texts: []said{}, Note: note}
	if run.Status == 0 {
		o.Status = conversation.TaskQueued.String()
	}
	var words []string
	for _, item := range run.Texts {
		o.Texts = append(o.Texts, said{string(item.Part.Message), item.Text, string(item.Part.InReplyTo), item.Part.Cut})
		words = append(words, item.Text)
	}
	for _, q := range run.Questions {
		o.Questions = append(o.Questions, questionFrom(q))
		words = append(words, "[question "+string(q.Asked.Question)+"] "+q.Asked.Text)
	}
	if run.How != 0 {
		o.Receipt = &receipt{How: run.How.String()}
		if run.Evidence != 0 {
			o.Receipt.Evidence = run.Evidence.String()
		}
	}
	if run.Failure != nil {
		o.Error = string(run.Failure.Code) + ": " + run.Failure.Message
		words = append(words, "[the task has failed] "+o.Error)
	}
	if note != "" {
		words = append(words, "["+note+"]")
	}
	if len(words) == 0 {
		words = append(words, "["+o.Status+"]")
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Join(words, "\n\n")}}, IsError: run.Status == conversation.TaskError}, o, nil
}

// ask asks the host's user by the result of the call; the host calls again with what he says.
func (t tools) ask(key conversation.SessionKey, run *exchange.Run, questions []*conversation.QuestionView) (*sdk.CallToolResult, outcome, error) {
	st, err := json.Marshal(state{key.Session, run.Message, run.Task})
	if err != nil {
		return t.refuse(err)
	}
	asks := sdk.InputRequestMap{}
	for _, q := range questions {
		asks[string(q.Asked.Question)] = elicitation(q)
	}
	return &sdk.CallToolResult{InputRequests: asks, RequestState: string(st)}, outcome{}, nil
}

// elicitation is a question as a form for the host's user.
func elicitation(q *conversation.QuestionView) *sdk.ElicitParams {
	text, field := q.Asked.Text, map[string]any{"type": "string", "title": "Answer", "minLength": 1}
	name := "answer"
	switch {
	case q.Asked.Approval != nil:
		name, field = "approve", map[string]any{"type": "boolean", "title": "Approve"}
		text += "\n\n" + q.Asked.Approval.Args
	case len(q.Asked.Choices) > 0:
		field = map[string]any{"type": "string", "title": "Answer", "enum": q.Asked.Choices}
	}
	return &sdk.ElicitParams{Mode: "form", Message: text, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{name: field}, "required": []string{name},
	}}
}

// take gives a session what the host's user has answered. A user who does not want to answer
// leaves the question open: ok is false then. Who declines an approval declines the call.
func (t tools) take(ctx context.Context, key conversation.SessionKey, q conversation.Asked, r *sdk.ElicitResult) (ok bool, err error) {
	text := ""
	switch {
	case q.Approval != nil && r.Action == "accept":
		approve, _ := r.Content["approve"].(bool)
		text = `{"approve":` + strconv.FormatBool(approve) + `}`
	case q.Approval != nil && r.Action == "decline":
		text = `{"approve":false}`
	case r.Action == "accept":
		text, _ = r.Content["answer"].(string)
	}
	if text == "" {
		return false, nil
	}
	_, err = t.Answer(ctx, t.who, key, exchange.Answered{Via: conversation.ViaMCP, ID: clientID("elicited:" + string(key.Session) + ":" + string(q.Question)), Question: q.Question, Text: text})
	if err != nil && conversation.AsError(err).Code == conversation.QuestionNotOpen {
		return true, nil // another client was first
	}
	return err == nil, err
}

// respond takes the answers that a host has brought back.
func (t tools) respond(ctx context.Context, key conversation.SessionKey, responses sdk.InputResponseMap) error {
	view, err := t.View(ctx, key, t.who.User)
	if err != nil {
		return err
	}
	for _, q := range view.Questions {
		if r, is := responses[string(q.Asked.Question)].(*sdk.ElicitResult); is && r != nil {
			if _, err := t.take(ctx, key, q.Asked, r); err != nil {
				return err
			}
		}
	}
	return nil
}

type answerInput struct {
	Session  string `json:"session" jsonschema:"the id of the session, or your own name for it"`
	Question string `json:"question" jsonschema:"the id of the question"`
	Text     string `json:"text,omitempty" jsonschema:"the answer"`
	Approve  *bool  `json:"approve,omitempty" jsonschema:"of an approval: whether the call may be made"`
	ClientID string `json:"client_id,omitempty" jsonschema:"a name of your own for this answer: given again under it, it takes effect once"`
	Wait     *int   `json:"wait_seconds,omitempty" jsonschema:"how long to wait for what comes of it; 0 does not wait"`
}

func (t tools) answer(ctx context.Context, req *sdk.CallToolRequest, in answerInput) (*sdk.CallToolResult, outcome, error) {
	if (in.Text == "") == (in.Approve == nil) {
		return t.refuse(conversation.Errorf(conversation.BadRequest, "either text or approve must be given"))
	}
	if in.Approve != nil {
		in.Text = `{"approve":` + strconv.FormatBool(*in.Approve) + `}`
	}
	asking, cancel := context.WithTimeout(ctx, t.Times.Request)
	defer cancel()
	key, _, err := t.Find(asking, t.who, in.Session)
	if err != nil {
		return t.refuse(err)
	}
	r, err := t.Answer(asking, t.who, key, exchange.Answered{Via: conversation.ViaMCP, ID: clientID("answer:" + in.ClientID), Question: conversation.QuestionID(in.Question), Text: in.Text})
	if err != nil {
		return t.refuse(err)
	}
	return t.follow(ctx, req, key, exchange.NewRun(r.Message, r.Task), in.Wait)
}

type cancelInput struct {
	Session string `json:"session" jsonschema:"the id of the session, or your own name for it"`
	Task    string `json:"task,omitempty" jsonschema:"the task; without it the one that runs, else the newest that waits"`
	Reason  string `json:"reason,omitempty"`
}

type cancelled struct {
	Task   string `json:"task"`
	Status string `json:"status" jsonschema:"what the task was before"`
}

func (t tools) cancel(ctx context.Context, _ *sdk.CallToolRequest, in cancelInput) (*sdk.CallToolResult, cancelled, error) {
	ctx, cancel := context.WithTimeout(ctx, t.Times.Request)
	defer cancel()
	key, _, err := t.Find(ctx, t.who, in.Session)
	if err == nil {
		task := conversation.TaskID(in.Task)
		if session, named := task.Session(); task != "" && (!named || session != key.Session) {
			return nil, cancelled{}, t.told(exchange.ErrNoTask)
		}
		r, failed := t.Cancel(ctx, t.who, key, task, "", in.Reason)
		if failed == nil {
			return nil, cancelled{string(r.Task), r.OldStatus.String()}, nil
		}
		err = failed
	}
	return nil, cancelled{}, t.told(err)
}
