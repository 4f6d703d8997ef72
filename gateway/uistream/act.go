package uistream

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"parley/conversation"
	"parley/conversation/attached"
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
	w, err := a.words(r)
	if err != nil {
		return t, err
	}
	create := conversation.Create{Agent: conversation.AgentName(r.Agent), Policy: r.policy()}
	opened := false
	if r.Answer != nil || slices.ContainsFunc(w.files, file.uploaded) { // neither an answer nor an upload can be there before the chat
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
	v := conversation.View{Key: t.key, Policy: create.Policy}
	if !opened {
		if v, err = a.View(ctx, t.key, who.User); err != nil {
			return t, err
		}
	}
	id := clientID(ours, r.last.ID)
	if r.last.ID == "" {
		id = conversation.ClientMsgID("srv-" + rand.Text())
	}
	if r.Answer != nil {
		return a.answerBySaying(ctx, who, t, v, r, id, w.text)
	}
	said := exchange.Said{Via: conversation.ViaUIStream, ID: id, Text: w.text, Mode: r.mode, TraceParent: c.Get(service.TraceHeader)}
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
	receipt, err := a.give(ctx, who, v, r, said, w.files)
	if err != nil {
		return t, err
	}
	t.task, t.since = receipt.Task, receipt.Seq-1
	if receipt.Duplicate || receipt.Disposition != conversation.Started && receipt.Disposition != conversation.Queued {
		err = a.fromItsBeginning(ctx, who, &t)
	}
	return t, err
}

// words are what a user says with a request.
type words struct {
	text  string
	files []file
}

// words refuses what can be said in no chat, before one is opened or changed for it.
func (a *api) words(r *request) (w words, err error) {
	if bad := a.CheckMode(r.mode); bad != nil {
		return w, bad
	}
	w.text = r.last.text()
	files, bad := r.last.files()
	if bad != nil {
		return w, bad
	}
	switch {
	case r.Answer == nil:
		w.files = files
	case r.Answer.Text != nil:
		w.text = *r.Answer.Text
	}
	if len(w.files) == 0 || w.text != "" {
		if bad := protocol.CheckText("the message", &w.text, a.Limits); bad != nil {
			return w, bad
		}
	}
	if most := a.Limits.AttachmentsPerMessage; most > 0 && len(w.files) > most {
		return w, conversation.Errorf(conversation.TooLarge, "a message may have at most %d attachments", most)
	}
	for _, f := range w.files {
		if f.uploaded() {
			continue
		}
		if err := a.Files.Check(f.upload()); err != nil {
			return w, err
		}
	}
	return w, nil
}

// give gives the session a message, with the files and the tools that it brings: these first, and only
// those of a message that it does not know yet, and may take.
func (a *api) give(ctx context.Context, who *service.Principal, v conversation.View, r *request, said exchange.Said, files []file) (receipt conversation.Receipt, err error) {
	of := make([]attached.File, len(files))
	for i, f := range files {
		if !f.uploaded() {
			f.named.Hash = attached.HashOf(f.body)
		}
		said.Files, of[i].Hash = append(said.Files, f.named), f.named.Hash
	}
	fingerprint := attached.Fingerprint(said.Text, of)
	brings := r.Tools != nil || len(files) > 0
	repeats := false
	if brings || r.changes() {
		repeats, err = a.Repeats(ctx, who, v.Key, said.ID, fingerprint)
	}
	if r.changes() && err != nil && conversation.AsError(err).Code == conversation.Conflict {
		// It is the text of a message that was said already: what was said stays, and this is another one.
		text := sha256.Sum256([]byte(said.Text))
		said.ID = clientID(againOf, string(said.ID)+":"+hex.EncodeToString(text[:16]))
		repeats, err = a.Repeats(ctx, who, v.Key, said.ID, fingerprint)
	}
	if err != nil {
		return receipt, err
	}
	switch {
	case repeats, !brings:
		return a.Say(ctx, who, v.Key, said)
	case v.Closed && len(v.Questions) == 0:
		return receipt, exchange.ErrClosed
	}
	if err := a.upload(ctx, who, v.Key, files); err != nil {
		return receipt, err
	}
	back, err := a.Set(ctx, who, v, exchange.Settings{Policy: r.policy()})
	if err != nil {
		return receipt, err
	}
	if receipt, err = a.Say(ctx, who, v.Key, said); err != nil {
		err = back(err)
	}
	return receipt, err
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

// policy is what the request wants of a session: to offer the client's own tools. A client that
// does not say leaves it as it is.
func (r *request) policy() conversation.Overrides {
	if r.Tools == nil {
		return nil
	}
	return conversation.Overrides{callerTools: r.Tools}
}

// changes is true for a request that changes a message which was said.
func (r *request) changes() bool {
	return r.Trigger != regenerate && r.MessageID != "" && r.MessageID == r.last.ID
}

// upload stores the files that a message brings with it, if those are there that it says were uploaded before.
func (a *api) upload(ctx context.Context, who *service.Principal, key conversation.SessionKey, files []file) error {
	var before []protocol.NamedFile
	for _, f := range files {
		if f.uploaded() {
			before = append(before, f.named)
		}
	}
	if _, err := a.Attached(key, before); err != nil {
		return err
	}
	for _, f := range files {
		if f.uploaded() {
			continue
		}
		if err := a.Uploads(ctx, who, key); err != nil {
			return err
		}
		if _, _, err := a.Files.Upload(ctx, key, f.upload()); err != nil {
			return err
		}
	}
	return nil
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

func (a *api) answerBySaying(ctx context.Context, who *service.Principal, t told, v conversation.View, r *request, id conversation.ClientMsgID, text string) (told, error) {
	said := exchange.Answered{Via: conversation.ViaUIStream, ID: id, Question: conversation.QuestionID(r.Answer.Question), Text: text}
	policy := r.policy()
	if !open(v, said.Question) {
		policy = nil // it repeats an answer, or is none
	}
	back, err := a.Set(ctx, who, v, exchange.Settings{Policy: policy})
	if err != nil {
		return t, err
	}
	receipt, err := a.Answer(ctx, who, t.key, said)
	if err != nil {
		return t, back(err)
	}
	t.task = receipt.Task
	return t, a.fromItsBeginning(ctx, who, &t)
}

func open(v conversation.View, q conversation.QuestionID) bool {
	return slices.ContainsFunc(v.Questions, func(o conversation.QuestionView) bool { return o.Asked.Question == q })
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
	brings, err := a.answerable(v, r)
	if err != nil {
		return t, err
	}
	m := &meant{questions: map[conversation.QuestionID]bool{}, calls: map[conversation.CallID]bool{}}
	answer := func(q conversation.QuestionID, text string) error {
		receipt, err := a.Answer(ctx, who, t.key, exchange.Answered{Via: conversation.ViaUIStream, ID: clientID(answerOf, string(q)), Question: q, Text: text})
		m.say(q, err == nil && !receipt.Duplicate)
		return err
	}
	if r.Answer != nil && !open(v, conversation.QuestionID(r.Answer.Question)) { // it repeats an answer, or is none
		if err := answer(conversation.QuestionID(r.Answer.Question), *r.Answer.Text); err != nil {
			return t, err
		}
	}
	back := func(refusal error) error { return refusal }
	if brings {
		if back, err = a.Set(ctx, who, v, exchange.Settings{Policy: r.policy()}); err != nil {
			return t, err
		}
	}
	if r.Answer != nil && open(v, conversation.QuestionID(r.Answer.Question)) {
		if err := answer(conversation.QuestionID(r.Answer.Question), *r.Answer.Text); err != nil {
			return t, back(err)
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
				return t, back(err)
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

// answerable refuses answers that no session takes, before one of them is given. is = there is one to a
// question that is open; else the request repeats another.
func (a *api) answerable(v conversation.View, r *request) (is bool, err error) {
	if r.Answer != nil {
		if r.Answer.Text == nil {
			return false, protocol.Missing("answer.text")
		}
		if bad := protocol.CheckText("the answer", r.Answer.Text, a.Limits); bad != nil {
			return false, bad
		}
		is = open(v, conversation.QuestionID(r.Answer.Question))
	}
	for i := range r.last.Parts {
		if q, text, given := given(v, &r.last.Parts[i]); given && q != "" {
			if bad := protocol.CheckText("the answer", &text, a.Limits); bad != nil {
				return false, bad
			}
			is = true
		}
	}
	return is, nil
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
