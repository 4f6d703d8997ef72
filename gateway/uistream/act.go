package uistream

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"

	"parley/conversation"
	"parley/gateway/attach"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// told is what a stream tells.
type told struct {
	key    conversation.SessionKey
	task   conversation.TaskID
	since  conversation.Seq // the task's first event is behind it
	after  exchange.Number  // up to there the client has been told
	goesOn bool             // the stream goes on with what the client has
	begins bool             // with goesOn: it is another stream, which begins
	has    map[string]bool  // with begins: the questions and calls that the client has of the message; true = whole
}

// say gives the session what the user has said, and opens the session if there is none.
func (a *api) say(ctx context.Context, c *fiber.Ctx, who *service.Principal, r *request) (t told, err error) {
	text := r.last.text()
	files, bad := r.last.files()
	if bad != nil {
		return t, bad
	}
	if r.Answer != nil && r.Answer.Text != nil {
		text, files = *r.Answer.Text, nil
	}
	if len(files) == 0 || text != "" {
		if bad := protocol.CheckText("the message", &text, a.Limits); bad != nil {
			return t, bad
		}
	}
	create := conversation.Create{Agent: conversation.AgentName(r.Agent)}
	if r.Tools != nil {
		create.Policy = conversation.Overrides{callerTools: r.Tools}
	}
	opened := false
	if err := a.fewEnough(files); err != nil {
		return t, err
	}
	if r.Answer != nil || slices.ContainsFunc(files, file.uploaded) { // neither an answer nor an upload can be there before the chat
		t.key, _, err = a.Find(ctx, who, r.ID)
	} else {
		t.key, opened, err = a.FindOrOpen(ctx, who, r.ID, create)
	}
	if err != nil {
		return t, err
	}
	if bad := service.Writable(t.key); bad != nil {
		return t, bad
	}
	var v conversation.View
	if !opened {
		if v, err = a.View(ctx, t.key, who.User); err != nil {
			return t, err
		}
		if err := a.bring(ctx, who, v, r.Tools); err != nil {
			return t, err
		}
	}
	id := clientID(ours, r.last.ID)
	if r.last.ID == "" {
		id = conversation.ClientMsgID("srv-" + rand.Text())
	}
	if r.Answer != nil {
		return a.answerBySaying(ctx, who, t, id, conversation.QuestionID(r.Answer.Question), text)
	}
	said := exchange.Said{Via: conversation.ViaUIStream, ID: id, Text: text, Mode: r.mode, TraceParent: c.Get(service.TraceHeader)}
	switch {
	case r.Trigger == regenerate:
		again, err := a.lastAnswer(ctx, r, t.key)
		if err != nil {
			return t, err
		}
		said.ID, said.Mode = clientID(againOf, again), conversation.ModeQueue
	case r.mode == conversation.ModeDefault && !waits(v):
		said.Mode = conversation.ModeQueue // each message has an answer of its own
	}
	if said.Files, err = a.upload(ctx, t.key, files); err != nil {
		return t, err
	}
	receipt, err := a.Say(ctx, who, t.key, said)
	if r.MessageID != "" && r.MessageID == r.last.ID && r.Trigger != regenerate && err != nil && conversation.AsError(err).Code == conversation.Conflict {
		// It is the text of a message that was said already: what was said stays, and this is another one.
		sum := sha256.Sum256([]byte(text))
		said.ID = clientID(againOf, string(id)+":"+hex.EncodeToString(sum[:16]))
		receipt, err = a.Say(ctx, who, t.key, said)
	}
	if err != nil {
		return t, err
	}
	t.task, t.since = receipt.Task, receipt.Seq-1
	if receipt.Duplicate || receipt.Disposition != conversation.Started && receipt.Disposition != conversation.Queued {
		err = a.fromItsBeginning(ctx, who, &t)
	}
	return t, err
}

// waits is true when people are asked something that the work waits for: what is said next is
// the answer to it, as in every other client, unless the client says how it is meant.
func waits(v conversation.View) bool {
	for _, q := range v.Questions {
		if q.Asked.Blocking && !callers(v, q.Asked.Call) {
			return true
		}
	}
	return false
}

// callers is true for a call of a tool that the client runs.
func callers(v conversation.View, call conversation.CallID) bool {
	for _, c := range v.Calls {
		if call != "" && c.Call == call && c.Caller {
			return true
		}
	}
	return false
}

// callerTools is the policy of a session that lists the tools which its caller runs.
const callerTools = "tools.caller"

// bring has a session offer the client's own tools, if they are not those that it offers. nil = the
// client does not say.
func (a *api) bring(ctx context.Context, who *service.Principal, v conversation.View, tools json.RawMessage) error {
	var now, want any
	if tools == nil || json.Unmarshal(tools, &want) == nil && json.Unmarshal(v.Policy[callerTools], &now) == nil && reflect.DeepEqual(now, want) {
		return nil
	}
	_, err := a.Tell(ctx, v.Key, who.User, conversation.Update{By: who.User, Policy: conversation.Overrides{callerTools: tools}})
	return err
}

// fewEnough refuses a message with too many files.
func (a *api) fewEnough(files []file) error {
	if most := a.Limits.AttachmentsPerMessage; most > 0 && len(files) > most {
		return conversation.Errorf(conversation.TooLarge, "a message may have at most %d attachments", most)
	}
	return nil
}

// upload stores the files that a message brings with it.
func (a *api) upload(ctx context.Context, key conversation.SessionKey, files []file) (named []protocol.NamedFile, err error) {
	for _, f := range files {
		if f.body != nil {
			stored, _, err := a.Files.Upload(ctx, key, attach.Upload{Name: f.named.Name, Type: f.kind, Body: f.body})
			if err != nil {
				return nil, err
			}
			f.named.Hash = stored.Hash
		}
		named = append(named, f.named)
	}
	return named, nil
}

// lastAnswer is the message of the assistant that a client wants instead of another one: which it
// names, or the last one.
func (a *api) lastAnswer(ctx context.Context, r *request, key conversation.SessionKey) (string, error) {
	if task, err := a.taskOf(key, r.MessageID); err == nil {
		return messageID(task), nil
	}
	for row, err := range a.Sessions.Tasks(ctx, conversation.TaskFilter{Tenant: key.Tenant, Session: key.Session, Limit: 1}) {
		if err != nil {
			return "", err
		}
		return messageID(row.Task), nil
	}
	return r.last.ID, nil
}

// fromItsBeginning is a stream of a task that is there already.
func (a *api) fromItsBeginning(ctx context.Context, who *service.Principal, t *told) error {
	row, err := a.TaskRow(ctx, who, t.key, t.task)
	t.since = row.First - 1
	return err
}

func (a *api) answerBySaying(ctx context.Context, who *service.Principal, t told, id conversation.ClientMsgID, q conversation.QuestionID, text string) (told, error) {
	receipt, err := a.Answer(ctx, who, t.key, exchange.Answered{Via: conversation.ViaUIStream, ID: id, Question: q, Text: text})
	if err != nil {
		return t, err
	}
	t.task = receipt.Task
	return t, a.fromItsBeginning(ctx, who, &t)
}

// goOn gives the session what a message of the assistant has asked for, and the client has: the
// results of the client's own tools, what was said to approvals, an answer. The message goes on.
func (a *api) goOn(ctx context.Context, c *fiber.Ctx, who *service.Principal, r *request) (t told, err error) {
	if t.key, _, err = a.Find(ctx, who, r.ID); err != nil {
		return t, err
	}
	if bad := service.Writable(t.key); bad != nil {
		return t, bad
	}
	if t.task, err = a.taskOf(t.key, r.last.ID); err != nil {
		return t, err
	}
	if err := a.fromItsBeginning(ctx, who, &t); err != nil {
		return t, err
	}
	v, err := a.View(ctx, t.key, who.User)
	if err != nil {
		return t, err
	}
	if err := a.bring(ctx, who, v, r.Tools); err != nil {
		return t, err
	}
	m := &meant{questions: map[conversation.QuestionID]bool{}, calls: map[conversation.CallID]bool{}}
	answer := func(q conversation.QuestionID, text string) error {
		receipt, err := a.Answer(ctx, who, t.key, exchange.Answered{Via: conversation.ViaUIStream, ID: clientID(answerOf, string(q)), Question: q, Text: text})
		m.say(q, err == nil && !receipt.Duplicate)
		return err
	}
	if r.Answer != nil {
		if r.Answer.Text == nil {
			return t, protocol.Missing("answer.text")
		}
		if err := answer(conversation.QuestionID(r.Answer.Question), *r.Answer.Text); err != nil {
			return t, err
		}
	}
	t.has = map[string]bool{}
	parts := r.last.Parts
	for len(parts) > 0 && parts[len(parts)-1].Type == stepPart {
		parts = parts[:len(parts)-1]
	}
	for i := range parts {
		p := &parts[i]
		t.has[p.ToolCallID+p.ID] = p.State != inputStreaming
		if p.Type == stepPart {
			m.forget() // what was said of the steps before was told already
			continue
		}
		q, text, is := given(v, p)
		switch {
		case !is:
		case q != "":
			if err := answer(q, text); err != nil {
				return t, err
			}
		case p.Approval != nil && p.State == approvalResponded:
			m.say(conversation.QuestionID(p.Approval.ID), false)
		default:
			m.calls[conversation.CallID(p.ToolCallID)] = true
		}
	}
	last, found, err := a.before(ctx, who, t, m)
	if err == nil && !found {
		err = conversation.Errorf(conversation.BadRequest, "nothing is asked that this message of the assistant answers: say something, or resume its stream")
	}
	t.goesOn, t.begins, t.after = true, true, exchange.NumberAfter(last)
	return t, err
}

// stepPart is the part with which a step of a message begins.
const stepPart = "step-start"

// meant are the questions that a request answers.
type meant struct {
	now       bool // it is the first that answers them; else it is a repetition
	questions map[conversation.QuestionID]bool
	calls     map[conversation.CallID]bool // whose questions
}

// say takes a question that is answered, now or by a request before.
func (m *meant) say(q conversation.QuestionID, now bool) {
	if now && !m.now {
		m.now = true
		clear(m.questions)
		clear(m.calls)
	}
	if now == m.now {
		m.questions[q] = true
	}
}

// forget leaves out what a request before has answered.
func (m *meant) forget() {
	if !m.now {
		clear(m.questions)
		clear(m.calls)
	}
}

// is true for a question that is meant.
func (m *meant) is(q *conversation.QuestionView) bool {
	return q != nil && (m.questions[q.Asked.Question] || !m.now && m.calls[q.Asked.Call])
}

// before is the last event that a client has seen of a task when it answered what is meant: the one
// with which the task began to wait, for then its stream has ended.
func (a *api) before(ctx context.Context, who *service.Principal, t told, m *meant) (last conversation.Seq, found bool, err error) {
	run := exchange.NewRun("", t.task)
	rests := conversation.Seq(0)
	for n, err := range a.Notes(ctx, who, t.key, t.since, 0) {
		if err != nil {
			return 0, false, err
		}
		switch {
		case n.Kind == exchange.Asked && m.is(n.Question):
			found = false // it is of a later time
		case n.Kind == exchange.Closed && m.is(n.Question) && !found:
			if last, found = rests, true; rests == 0 {
				last = n.Event.Seq - 1
			}
		}
		run.Add(n)
		if !run.Rests() {
			rests = 0
		} else if rests == 0 {
			rests = n.Event.Seq
		}
	}
	return last, found, nil
}

// given is what the part of a tool says to a question that is open: q is "" if that was answered.
func given(v conversation.View, p *uiPart) (q conversation.QuestionID, text string, is bool) {
	switch {
	case !p.tool():
		return "", "", false
	case p.Approval != nil && p.Approval.Approved != nil && p.State == approvalResponded:
		for _, open := range v.Questions {
			if open.Asked.Approval != nil && string(open.Asked.Question) == p.Approval.ID {
				q = open.Asked.Question
			}
		}
		if *p.Approval.Approved {
			return q, `{"approve":true}`, true
		}
		return q, `{"approve":false}`, true
	case p.ProviderExecuted || p.State != outputAvailable && p.State != outputError:
		return "", "", false
	}
	for _, open := range v.Questions {
		if string(open.Asked.Call) == p.ToolCallID && callers(v, open.Asked.Call) {
			q = open.Asked.Question
		}
	}
	return q, result(p), true
}

// result is the output of a client's tool as a text: a string as it is, unless it would be read
// as another value.
func result(p *uiPart) string {
	if p.State == outputError {
		return object(func(o *protocol.Object) { o.Text("error", p.ErrorText) })
	}
	if len(p.Output) == 0 {
		return "null"
	}
	var text string
	if json.Unmarshal(p.Output, &text) == nil && text != "" && value(text, true) == quoted(text) && string(p.Output) != "null" {
		return text
	}
	return string(protocol.AppendCompact(nil, p.Output))
}
