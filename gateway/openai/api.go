package openai

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"

	"parley/conversation"
	"parley/gateway/attach"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/openai/internal/request"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// api is the API over the sessions of a server.
type api struct{ *exchange.Exchange }

// The policies of a session that hold what a request brings.
const (
	policyTools        = "tools.caller"
	policyInstructions = "instructions"
)

// begun is a response that has begun: what was said is stored.
type begun struct {
	key   conversation.SessionKey
	ref   reference
	row   conversation.TaskRow
	model string
	whole bool // no steer ends it
}

// clientID is the client's own id of a request; random if there is none.
func clientID(c *fiber.Ctx, route string) (id conversation.ClientMsgID, repeatable bool, err error) {
	id, err = door.ClientMsgID(c, "", "openai:"+route)
	return id, c.Get("Idempotency-Key") != "", err
}

// accept begins a response for a request. A stream has its place then, which free gives back.
func (a *api) accept(c *fiber.Ctx, w *request.Intent, route string, stream bool) (b begun, free func(), err error) {
	id, repeatable, err := clientID(c, route)
	if err != nil {
		return b, nil, err
	}
	who := door.Principal(c)
	if stream {
		if free, err = a.StreamSlot(c, who); err != nil {
			return b, nil, err
		}
	}
	ctx, cancel := a.Deadline()
	defer cancel()
	if b, err = a.begin(ctx, who, w, id, repeatable); err != nil && free != nil {
		free()
	}
	return b, free, err
}

// begin says in a session what a request wants, once all of it is known to be possible.
func (a *api) begin(ctx context.Context, who *service.Principal, w *request.Intent, id conversation.ClientMsgID, repeatable bool) (b begun, err error) {
	agent, err := a.agent(w.Model)
	if err != nil {
		return b, err
	}
	if err := a.fits(w); err != nil {
		return b, err
	}
	b.key, err = a.find(ctx, who, w)
	opened, own := false, false
	if errors.Is(err, errNewSession) {
		opened = true
		b.key, own, err = a.open(who, w, agent, id, repeatable)
		own = own && !repeatable && w.Where == (request.Where{})
	}
	if err != nil {
		return b, err
	}
	r, err := a.give(ctx, who, w, b.key, agent, id, repeatable, opened)
	if err != nil {
		if conversation.AsError(err).Code == conversation.Conflict { // its words are of ids that the client does not know
			err = usedBefore(w)
		}
		if own && exchange.StoresNothing(err) {
			err = errors.Join(err, a.Sessions.Erase(ctx, b.key, who.User)) // nothing was said in it, and nobody knows of it
		}
		return b, err
	}
	b, err = a.begunBy(ctx, who, b.key, r)
	return b, keeps(err)
}

// begunBy is the response that a receipt is for.
func (a *api) begunBy(ctx context.Context, who *service.Principal, key conversation.SessionKey, r conversation.Receipt) (begun, error) {
	ref := reference{task: r.Task}
	if r.Disposition != conversation.Started && r.Disposition != conversation.Queued {
		ref.from = r.Seq // it goes on with a task that is there already
	}
	return a.begun(ctx, who, key, ref)
}

// begun is a response of a session. The error is exchange.ErrNoTask where there is no such task.
func (a *api) begun(ctx context.Context, who *service.Principal, key conversation.SessionKey, ref reference) (begun, error) {
	row, err := a.TaskRow(ctx, who, key, ref.task)
	return begun{key: key, ref: ref, row: row, model: string(row.Agent)}, err
}

// usedBefore refuses what comes under the id of something else.
func usedBefore(w *request.Intent) error {
	r := &request.Refusal{Status: fiber.StatusConflict, Code: "conflict", Message: "The Idempotency-Key was used for another text."}
	if len(w.Answers) > 0 {
		r.Param, r.Message = "input", "The call or the approval was answered before, with something else."
	}
	return r
}

// give gives a session what a request has for it.
func (a *api) give(ctx context.Context, who *service.Principal, w *request.Intent, key conversation.SessionKey, agent conversation.AgentName,
	id conversation.ClientMsgID, repeatable, opened bool,
) (r conversation.Receipt, err error) {
	if bad := service.Writable(key); bad != nil {
		return r, bad
	}
	view, err := a.View(ctx, key, who.User)
	if err != nil {
		return r, err
	}
	if len(w.Answers) > 0 {
		return a.answer(ctx, who, view, w)
	}
	if repeatable {
		if r, err = a.before(ctx, who, key, w, id); err != nil || r.Task != "" {
			return r, err
		}
	}
	if err := waits(view); err != nil {
		return r, err
	}
	files, err := a.upload(ctx, who, key, w.Files)
	if err != nil {
		return r, err
	}
	if opened || view.Closed { // a closed session takes answers at most, and keeps what it is set to
		return a.say(ctx, who, view, w, files, id)
	}
	back, err := a.Set(ctx, who, view, settings(view, who, w, agent))
	if err != nil {
		return r, err
	}
	r, err = a.say(ctx, who, view, w, files, id)
	if r.Duplicate || err != nil { // only the session knows whether it takes the message
		err = back(err)
	}
	return r, err
}

// fits refuses what is too long, or blank, before anything is done for the request.
func (a *api) fits(w *request.Intent) error {
	if most := a.Limits.AttachmentsPerMessage; most > 0 && len(w.Files) > most {
		return conversation.Errorf(conversation.TooLarge, "a message may have at most %d attachments", most)
	}
	if len(w.Answers) == 0 && len(w.Files) == 0 || w.Said != "" {
		if bad := protocol.CheckText("the message", &w.Said, a.Limits); bad != nil {
			return bad
		}
	}
	for _, answer := range w.Answers {
		if bad := protocol.CheckText("the answer", &answer.Text, a.Limits); bad != nil {
			return bad
		}
	}
	return nil
}

// agent is the agent that a model's name stands for; "" = the session's.
func (a *api) agent(model string) (conversation.AgentName, error) {
	if model == "" || model == anyModel {
		return "", nil
	}
	for _, offered := range a.Offer.Agents {
		if offered.Name == model {
			return conversation.AgentName(model), nil
		}
	}
	return "", &request.Refusal{Status: fiber.StatusNotFound, Code: "model_not_found", Param: "model",
		Message: "The model '" + request.Excerpt(model) + "' does not exist. GET /v1/models lists those that do; '" + anyModel + "' is the agent that a session has."}
}

// errNewSession says that a request names no session.
var errNewSession = errors.New("a new session")

// find is the session that a request is about.
func (a *api) find(ctx context.Context, who *service.Principal, w *request.Intent) (conversation.SessionKey, error) {
	if len(w.Answers) > 0 {
		task, err := answered(w)
		if err != nil {
			return conversation.SessionKey{}, err
		}
		key, err := exchange.TaskKey(who, task)
		if err == nil {
			_, err = a.TaskRow(ctx, who, key, task)
		}
		if errors.Is(err, exchange.ErrNoTask) {
			err = notAsked(w.Answers[0])
		}
		return key, err
	}
	switch {
	case w.Where.Conversation != "":
		key, err := sessionOf(who, w.Where.Conversation)
		if err == nil {
			_, err = a.Visible(ctx, who, key)
		}
		if err != nil {
			return key, notFound("conversation", "Conversation with id '"+request.Excerpt(w.Where.Conversation)+"' not found.", err)
		}
		return key, nil
	case w.Where.Previous != "":
		missing := request.Refuse("previous_response_id", "previous_response_not_found", "Previous response with id '"+request.Excerpt(w.Where.Previous)+"' not found.")
		ref, ok := readReference(w.Where.Previous)
		if !ok {
			return conversation.SessionKey{}, missing
		}
		key, err := exchange.TaskKey(who, ref.task)
		if err == nil {
			_, err = a.TaskRow(ctx, who, key, ref.task)
		}
		if errors.Is(err, exchange.ErrNoTask) {
			err = missing
		}
		return key, err
	case w.Where.Name != "":
		return a.named(ctx, who, "metadata.session", w.Where.Name)
	case w.Where.User != "":
		return a.named(ctx, who, "user", "user:"+w.Where.User)
	}
	return conversation.SessionKey{}, errNewSession
}

// named is the session of a name. There may be none yet.
func (a *api) named(ctx context.Context, who *service.Principal, param, name string) (conversation.SessionKey, error) {
	key, _, err := a.Find(ctx, who, name)
	if errors.Is(err, service.ErrNoSession) {
		if len(name) > protocol.MaxClientMsgID {
			return key, request.Refuse(param, "invalid_value", param+" is too long to be the name of a session.")
		}
		err = errNewSession
	}
	return key, err
}

// notFound is an error's own status, and for what is not there the API's.
func notFound(param, message string, err error) error {
	if !errors.Is(err, conversation.ErrNotFound) && conversation.AsError(err).Code != conversation.NotFound {
		return err
	}
	return &request.Refusal{Status: fiber.StatusNotFound, Param: param, Message: message}
}

// open makes the session for a request that names none, or one that there is not yet. created is
// false when another request has just made it.
func (a *api) open(who *service.Principal, w *request.Intent, agent conversation.AgentName, id conversation.ClientMsgID, repeatable bool) (key conversation.SessionKey, created bool, err error) {
	create := protocol.Create{Create: conversation.Create{Agent: agent, Policy: conversation.Overrides{}}}
	switch {
	case w.Where.Name != "":
		create.ClientID = w.Where.Name
	case w.Where.User != "":
		create.ClientID = "user:" + w.Where.User
	case repeatable:
		create.ClientID = "openai:" + string(id)
	}
	if len(w.Tools) > 0 {
		create.Create.Policy[policyTools] = callersTools(w.Tools)
	}
	// How much a session may be told (session.max_instructions) is the engine's to know: the
	// history gives way.
	for most := request.MaxHistory; ; most /= 2 {
		if most < request.LeastHistory {
			most = 0
		}
		if text := w.Told(most); text != "" {
			create.Create.Policy[policyInstructions] = encode(text)
		} else {
			delete(create.Create.Policy, policyInstructions)
		}
		key, created, err = a.Open(who, create)
		if most == 0 || w.History == "" || err == nil || conversation.AsError(err).Code != conversation.BadRequest {
			return key, created, err
		}
	}
}

func callersTools(specs []conversation.ToolSpec) json.RawMessage {
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	}
	list := []function{}
	for _, t := range specs {
		if len(t.Schema) == 0 || string(t.Schema) == "null" {
			t.Schema = nil
		}
		list = append(list, function{t.Name, t.Description, t.Schema})
	}
	b, err := json.Marshal(list)
	if err != nil {
		return json.RawMessage("0") // the policy says what is wrong with it
	}
	return b
}

// settings are what a request wants a session to be set to. Instructions that it does not name stay;
// tools do not, but those of others are left to their owner.
func settings(v conversation.View, who *service.Principal, w *request.Intent, agent conversation.AgentName) exchange.Settings {
	s := exchange.Settings{Agent: agent, Policy: conversation.Overrides{}}
	if w.Instructions != nil {
		s.Policy[policyInstructions] = nil
		if *w.Instructions != "" {
			s.Policy[policyInstructions] = encode(*w.Instructions)
		}
	}
	switch {
	case len(w.Tools) > 0:
		s.Policy[policyTools] = callersTools(w.Tools)
	case v.Owner == who.User:
		s.Policy[policyTools] = nil
	}
	return s
}

// say gives the session the message of a request. Where the session waits for an answer, it is that.
func (a *api) say(ctx context.Context, who *service.Principal, v conversation.View, w *request.Intent, files []protocol.NamedFile, id conversation.ClientMsgID) (conversation.Receipt, error) {
	mode := w.Mode
	for _, q := range v.Questions {
		switch {
		case q.Asked.Approval != nil:
			mode = conversation.ModeDefault // a yes or a no is taken as the answer
		case q.Asked.Blocking && len(files) == 0 && mode == conversation.ModeQueue:
			r, err := a.Answer(ctx, who, v.Key, exchange.Answered{Via: conversation.ViaOpenAI, ID: id, Question: q.Asked.Question, Text: w.Said})
			if code := conversation.AsError(err); err == nil || code.Code != conversation.BadRequest && code.Code != conversation.QuestionNotOpen {
				if r.Disposition = conversation.Answered; r.Duplicate { // perhaps it was no answer when it came first
					r.Disposition = 0
					err = a.Complete(ctx, v.Key, &r)
				}
				return r, err
			}
			// It is none of the answers that the question takes.
		}
	}
	return a.Say(ctx, who, v.Key, exchange.Said{Via: conversation.ViaOpenAI, ID: id, Text: w.Said, Files: files, Mode: mode})
}

// before is the receipt of a request that comes again, whatever its session does by now; without
// a task it was not said before. An answer to no question finds that out: the session knows its
// id, or refuses it and stores nothing.
func (a *api) before(ctx context.Context, who *service.Principal, key conversation.SessionKey, w *request.Intent, id conversation.ClientMsgID) (r conversation.Receipt, err error) {
	if len(w.Files) > 0 {
		return r, nil // the session compares them, too: say does
	}
	r, err = a.Tell(ctx, key, who.User, conversation.Answer{Author: who.User, Via: conversation.ViaOpenAI, ClientMsgID: id, Text: w.Said})
	if err == nil && r.Duplicate {
		return r, a.Complete(ctx, key, &r)
	}
	switch code := conversation.AsError(err); {
	case err == nil, code.Code == conversation.NotFound, code.Code == conversation.Forbidden, code.Code == conversation.SessionIsClosed:
		return conversation.Receipt{}, nil
	}
	return conversation.Receipt{}, err
}

// waits refuses what is said while a call of the caller's own tool waits for its result.
func waits(v conversation.View) error {
	for _, q := range v.Questions {
		if callers(v, q.Asked.Call) {
			return missingOutput(q)
		}
	}
	return nil
}

func missingOutput(q conversation.QuestionView) error {
	return request.Refuse("input", "missing_tool_output", "No tool output found for function call "+callID(q.Task, q.Asked.Call)+".")
}

func callers(v conversation.View, call conversation.CallID) bool {
	for _, c := range v.Calls {
		if c.Call == call {
			return c.Caller
		}
	}
	return false
}

func (a *api) upload(ctx context.Context, who *service.Principal, key conversation.SessionKey, uploads []attach.Upload) (files []protocol.NamedFile, err error) {
	if len(uploads) == 0 {
		return nil, nil
	}
	if err := a.Uploads(ctx, who, key); err != nil {
		return nil, err
	}
	for _, u := range uploads {
		f, _, err := a.Files.Upload(ctx, key, u)
		if err != nil {
			return nil, err
		}
		files = append(files, protocol.NamedFile{Hash: f.Hash, Name: u.Name})
	}
	return files, nil
}

// answered is the task whose questions a request answers. All are of one task.
func answered(w *request.Intent) (task conversation.TaskID, err error) {
	for i, answer := range w.Answers {
		of, _, ok := readAnswered(answer)
		if !ok || i > 0 && of != task {
			return "", notAsked(answer)
		}
		task = of
	}
	return task, nil
}

// answer answers the questions that a request has answers for, and says what else it says to
// the same task. The receipt is that of the newest answer: with that one the task goes on. Every
// open call of the task must have its result. One answer that cannot be taken refuses all.
func (a *api) answer(ctx context.Context, who *service.Principal, v conversation.View, w *request.Intent) (last conversation.Receipt, err error) {
	of, err := answered(w)
	if err != nil {
		return last, err
	}
	for _, q := range v.Questions {
		has := func(an request.Given) bool { return an.ID == callID(q.Task, q.Asked.Call) }
		if q.Task == of && callers(v, q.Asked.Call) && !slices.ContainsFunc(w.Answers, has) {
			return last, missingOutput(q)
		}
	}
	answers, err := a.answersTo(ctx, v, w)
	if err != nil {
		return last, err
	}
	says := w.Said != "" || len(w.Files) > 0
	if says && v.Closed {
		return last, errClosed
	}
	files, err := a.upload(ctx, who, v.Key, w.Files)
	if err != nil {
		return last, err
	}
	for _, answer := range answers {
		r, err := a.Answer(ctx, who, v.Key, answer)
		if err != nil {
			return last, err
		}
		if r.Seq >= last.Seq {
			last = r
		}
		last.Task, last.Disposition = of, conversation.Answered
	}
	if says {
		beside, err := a.Say(ctx, who, v.Key, exchange.Said{
			Via: conversation.ViaOpenAI, ID: besideID(w), Text: w.Said, Files: files, Mode: conversation.ModeSteer,
		})
		if err != nil {
			return last, err
		}
		if beside.Task != last.Task { // the results were known, and their task has ended: what is new is answered
			return beside, nil
		}
	}
	return last, nil
}

// errClosed refuses what is said beside answers in a session that takes no more messages.
var errClosed = &conversation.Error{Code: conversation.SessionIsClosed, Message: "the session is closed: it takes the answers alone"}

// answersTo finds the questions that a request answers, before one of them is answered. Those that
// are not open any more come first: an answer to one is a repetition or is refused, and stores
// nothing. The others are in the order in which they were asked, whichever the client has: so of two
// requests that answer the same ones at once, the one that is too late for the first answers none.
func (a *api) answersTo(ctx context.Context, v conversation.View, w *request.Intent) (known []exchange.Answered, err error) {
	place := func(q conversation.QuestionID) int {
		return slices.IndexFunc(v.Questions, func(o conversation.QuestionView) bool { return o.Asked.Question == q })
	}
	var open []exchange.Answered
	texts := map[string]string{}
	for _, answer := range w.Answers {
		task, what, _ := readAnswered(answer)
		if text, twice := texts[answer.ID]; twice {
			if text != answer.Text {
				return nil, request.Refuse("input", "invalid_value", "The input has two answers to "+request.Excerpt(answer.ID)+".")
			}
			continue
		}
		texts[answer.ID] = answer.Text
		question := conversation.QuestionID(what)
		if !answer.Approval {
			if question, err = a.asking(ctx, v, task, conversation.CallID(what)); err != nil {
				return nil, err
			}
		}
		to := exchange.Answered{Via: conversation.ViaOpenAI, ID: door.OwnID("openai:answer:" + answer.ID), Question: question, Text: answer.Text}
		at := place(question)
		switch {
		case at < 0:
			known = append(known, to)
		case v.Questions[at].Task != task || answer.Approval != (v.Questions[at].Asked.Approval != nil):
			return nil, notAsked(answer)
		default:
			open = append(open, to)
		}
	}
	slices.SortFunc(open, func(a, b exchange.Answered) int { return place(a.Question) - place(b.Question) })
	return append(known, open...), nil
}

// notAsked refuses an answer to what nobody asks.
func notAsked(answer request.Given) error {
	return request.Refuse("input", "invalid_value", "No call or approval is open that the input answers: "+request.Excerpt(answer.ID))
}

// besideID is the id of what is said beside answers. A client that sends its whole history each
// time may say several things behind the same results.
func besideID(w *request.Intent) conversation.ClientMsgID {
	sum := sha256.New()
	sum.Write([]byte(w.Said))
	for _, f := range w.Files {
		sum.Write([]byte{0})
		sum.Write(f.Body)
	}
	return door.OwnID("openai:beside:" + w.Answers[0].ID + ":" + hex.EncodeToString(sum.Sum(nil)))
}

// asking is the question by which a call of the caller's own tool waits. One that was answered
// already is found in the log: the answer may be a repetition.
func (a *api) asking(ctx context.Context, v conversation.View, task conversation.TaskID, call conversation.CallID) (conversation.QuestionID, error) {
	for _, q := range v.Questions {
		if q.Task == task && q.Asked.Call == call {
			return q.Asked.Question, nil
		}
	}
	row, err := a.Sessions.Task(ctx, v.Key, task)
	if err != nil {
		return "", err
	}
	for e, err := range a.Events(ctx, v.Key, max(row.First, 1)-1, 0) {
		if err != nil {
			return "", err
		}
		if b, is := e.Body.(conversation.Asked); is && b.Call == call && e.Task == task {
			return b.Question, nil
		}
	}
	return "", request.Refuse("input", "invalid_value", "No tool call found for function call output with call_id "+callID(task, call)+".")
}
