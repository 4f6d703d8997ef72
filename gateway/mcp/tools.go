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

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The names of the tools.
const (
	toolSend   = "send_message"
	toolRead   = "read_session"
	toolList   = "list_sessions"
	toolAnswer = "answer"
	toolCancel = "cancel"
)

func (m *way) addTools() {
	no, yes := false, true
	sdk.AddTool(m.server, &sdk.Tool{
		Name: toolSend, Title: "Say something in a session",
		Description: "Says something in a session of parley and waits for the agent's answer. Without session a new one is opened. The message is stored before anything is answered; " +
			"if the answer takes long, the work goes on: the same call with the same client_id waits again, and read_session shows what has come of it.",
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &yes},
	}, m.send)
	sdk.AddTool(m.server, &sdk.Tool{
		Name: toolRead, Title: "Read a session",
		Description: "Shows what was said in a session, by whom, what became of each message, what is asked and what runs: the newest lines, or those behind since.",
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no},
	}, m.read)
	sdk.AddTool(m.server, &sdk.Tool{
		Name: toolList, Title: "List sessions",
		Description: "Lists the sessions that you may read, the last active ones first.",
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no},
	}, m.listSessions)
	sdk.AddTool(m.server, &sdk.Tool{
		Name: toolAnswer, Title: "Answer a question",
		Description: "Answers what an agent asks: a question by text, the approval of a call by approve. Then waits as send_message does.",
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &yes},
	}, m.answer)
	sdk.AddTool(m.server, &sdk.Tool{
		Name: toolCancel, Title: "Stop the work",
		Description: "Stops a task of a session: the one that is named, else the one that runs.",
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no},
	}, m.cancel)
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
	How      string `json:"how" jsonschema:"answered, merged, dismissed, withdrawn, cancelled, failed or unanswered; unanswered says only that nothing proves which text answers it"`
	Evidence string `json:"evidence,omitempty" jsonschema:"how it is known"`
}

func receiptOf(how conversation.Resolution, evidence conversation.Evidence) *receipt {
	r := &receipt{How: how.String()}
	if evidence != 0 {
		r.Evidence = evidence.String()
	}
	return r
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
	Message conversation.MessageID `json:"m"`
	Task    conversation.TaskID    `json:"t"`
}

func (m *way) send(ctx context.Context, req *sdk.CallToolRequest, in sendInput) (*sdk.CallToolResult, outcome, error) {
	if req.Params.RequestState != "" {
		return m.goOn(ctx, req, in.Wait)
	}
	mode := conversation.ModeQueue
	if in.Mode != "" {
		ok := false
		if mode, ok = conversation.ParseMode(in.Mode); !ok {
			return m.refuse(conversation.Errorf(conversation.BadRequest, "mode must be queue, steer, collect, interrupt or reject"))
		}
	}
	if bad := protocol.CheckText("text", &in.Text, m.Limits); bad != nil { // before a session is opened for it
		return m.refuse(bad)
	}
	k := callOf(ctx)
	asking, cancel := context.WithTimeout(ctx, m.Times.Request)
	defer cancel()
	name := in.Session
	if name == "" && in.ClientID != "" { // the same call finds the session that it has opened
		name = string(door.OwnID("mcp.session:" + in.ClientID))
	}
	key, _, err := m.FindOrOpen(asking, k.who, name, conversation.Create{})
	if err != nil {
		return m.refuse(err)
	}
	r, err := m.Say(asking, k.who, key, exchange.Said{Via: conversation.ViaMCP, ID: clientID("say", in.ClientID), Text: in.Text, Mode: mode, TraceParent: k.trace})
	if err != nil {
		return m.refuse(err)
	}
	return m.follow(ctx, req, key, exchange.NewRun(r.Message, r.Task).GoesOn(), r.Seq, in.Wait, nil)
}

// goOn goes on with a call whose host has asked its user, as it was told to.
func (m *way) goOn(ctx context.Context, req *sdk.CallToolRequest, seconds *int) (*sdk.CallToolResult, outcome, error) {
	k := callOf(ctx)
	var st state
	if json.Unmarshal([]byte(req.Params.RequestState), &st) != nil {
		return m.refuse(conversation.Errorf(conversation.BadRequest, "requestState is not one of this server's"))
	}
	key, err := exchange.TaskKey(k.who, st.Task)
	if err != nil {
		return m.refuse(err)
	}
	asking, cancel := context.WithTimeout(ctx, m.Times.Request)
	defer cancel()
	view, err := m.View(asking, key, k.who.User)
	if err != nil {
		return m.refuse(err)
	}
	left := map[conversation.QuestionID]bool{}
	for i := range view.Questions {
		q := view.Questions[i].Asked
		if r, is := req.Params.InputResponses[string(q.Question)].(*sdk.ElicitResult); is && r != nil {
			ok, err := m.take(asking, k.who, key, q, r)
			if err != nil {
				return m.refuse(err)
			}
			left[q.Question] = !ok
		}
	}
	return m.follow(ctx, req, key, exchange.NewRun(st.Message, st.Task).GoesOn(), 0, seconds, left)
}

// clientID is a client id of a host's own for what it does, apart from those of other protocols;
// random without one.
func clientID(what, name string) conversation.ClientMsgID {
	if name == "" {
		return door.RandomID()
	}
	return door.OwnID("mcp." + what + ":" + name)
}

// refuse is the result of a tool that could not do what it should: the model that has called it
// may read why.
func (m *way) refuse(err error) (*sdk.CallToolResult, outcome, error) {
	return nil, outcome{}, m.told(err)
}

func (m *way) told(err error) error {
	e := m.Refusal(err)
	text := string(e.Code) + ": " + e.Message
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(" (again in %s)", e.RetryAfter.Round(time.Second))
	}
	return errors.New(text)
}

// result is what a run has come to.
func result(key conversation.SessionKey, run *exchange.Run, note string) (*sdk.CallToolResult, outcome) {
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
		o.Receipt = receiptOf(run.How, run.Evidence)
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
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Join(words, "\n\n")}}, IsError: run.Status == conversation.TaskError}, o
}

type answerInput struct {
	Session  string `json:"session" jsonschema:"the id of the session, or your own name for it"`
	Question string `json:"question" jsonschema:"the id of the question"`
	Text     string `json:"text,omitempty" jsonschema:"the answer"`
	Approve  *bool  `json:"approve,omitempty" jsonschema:"of an approval: whether the call may be made"`
	ClientID string `json:"client_id,omitempty" jsonschema:"a name of your own for this answer: given again under it, it takes effect once"`
	Wait     *int   `json:"wait_seconds,omitempty" jsonschema:"how long to wait for what comes of it; 0 does not wait"`
}

func (m *way) answer(ctx context.Context, req *sdk.CallToolRequest, in answerInput) (*sdk.CallToolResult, outcome, error) {
	if req.Params.RequestState != "" {
		return m.goOn(ctx, req, in.Wait)
	}
	if (in.Text == "") == (in.Approve == nil) {
		return m.refuse(conversation.Errorf(conversation.BadRequest, "either text or approve must be given"))
	}
	if in.Approve != nil {
		in.Text = `{"approve":` + strconv.FormatBool(*in.Approve) + `}`
	}
	k := callOf(ctx)
	asking, cancel := context.WithTimeout(ctx, m.Times.Request)
	defer cancel()
	key, _, err := m.Find(asking, k.who, in.Session)
	if err != nil {
		return m.refuse(err)
	}
	r, err := m.Answer(asking, k.who, key, exchange.Answered{Via: conversation.ViaMCP, ID: clientID("answer", in.ClientID), Question: conversation.QuestionID(in.Question), Text: in.Text})
	if err != nil {
		return m.refuse(err)
	}
	return m.follow(ctx, req, key, exchange.NewRun(r.Message, r.Task).GoesOn(), r.Seq, in.Wait, nil)
}

type cancelInput struct {
	Session string `json:"session,omitempty" jsonschema:"the id of the session, or your own name for it"`
	Task    string `json:"task,omitempty" jsonschema:"the task; without it the one of the session that runs, else the newest that waits"`
	Reason  string `json:"reason,omitempty"`
}

type cancelled struct {
	Task   string `json:"task"`
	Status string `json:"status" jsonschema:"what the task was before"`
}

func (m *way) cancel(ctx context.Context, _ *sdk.CallToolRequest, in cancelInput) (*sdk.CallToolResult, cancelled, error) {
	r, err := m.stop(ctx, in)
	if err != nil {
		return nil, cancelled{}, m.told(err)
	}
	return nil, cancelled{string(r.Task), r.OldStatus.String()}, nil
}

func (m *way) stop(ctx context.Context, in cancelInput) (r conversation.Receipt, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.Times.Request)
	defer cancel()
	who := callOf(ctx).who
	task := conversation.TaskID(in.Task)
	var key conversation.SessionKey
	switch {
	case in.Session != "":
		if key, _, err = m.Find(ctx, who, in.Session); err != nil {
			return r, err
		}
		if session, named := task.Session(); task != "" && (!named || session != key.Session) {
			return r, exchange.ErrNoTask
		}
	case task != "":
		if key, err = exchange.TaskKey(who, task); err != nil {
			return r, err
		}
		if _, err = m.TaskRow(ctx, who, key, task); err != nil {
			return r, err
		}
	default:
		return r, conversation.Errorf(conversation.BadRequest, "either session or task must be given")
	}
	return m.Cancel(ctx, who, key, task, "", in.Reason)
}
