package agui

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"slices"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/gateway/attach"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// The policies of a session that an input sets.
const (
	callerTools  = "tools.caller"
	instructions = "instructions"
)

// The beginnings of the client ids of answers: an interrupt and a call are answered once.
const (
	markAnswer = "agui.answer:"
	markResult = "agui.result:"
)

// postRun does what an input brings, and follows what comes of it.
func (a *api) postRun(c *fiber.Ctx) error {
	b, err := door.Body(c)
	if err != nil {
		return err
	}
	in, err := readInput(b)
	if err != nil {
		return err
	}
	who := door.Principal(c)
	free, err := a.StreamSlot(c, who) // before anything is done
	if err != nil {
		return err
	}
	p, err := a.prepare(c, who, in)
	if err != nil {
		free()
		return err
	}
	return a.stream(c, who, free, p)
}

// plan is what a stream tells, once it is known.
type plan struct {
	identity
	key       conversation.SessionKey
	session   conversation.SessionID
	message   conversation.MessageID // that is followed
	name      string                 // what its client calls it
	task      conversation.TaskID
	since     conversation.Seq // the event behind which the run's notes begin
	after     exchange.Number  // notes up to there are not told
	resumes   bool             // the client goes on with a stream: it is not begun again
	idle      bool             // there is nothing to follow
	snapshots [][]byte
	ignored   []ignored
}

// prepare gives the session the commands of an input, and says what to follow.
func (a *api) prepare(c *fiber.Ctx, who *service.Principal, in *input) (*plan, error) {
	ctx, cancel := a.Deadline()
	defer cancel()
	r := request{api: a, who: who, in: in, trace: c.Get(service.TraceHeader)}
	if err := r.check(); err != nil {
		return nil, err
	}
	if here, err := r.open(ctx); err != nil || !here {
		return &plan{identity: in.identity(), idle: true}, err
	}
	back := func(refusal error) error { return refusal }
	for _, do := range []func(context.Context) error{r.fits, r.known, func(ctx context.Context) (err error) { back, err = r.settings(ctx); return err }, r.answer, r.say, r.leave} {
		if err := do(ctx); err != nil {
			return nil, back(err)
		}
	}
	return r.plan(ctx)
}

// request is an input on its way to a session.
type request struct {
	*api
	who     *service.Principal
	in      *input
	trace   string
	key     conversation.SessionKey
	opened  bool
	view    conversation.View
	own     map[string]conversation.CallID // calls of the client's tools that wait for their result
	asks    map[string]conversation.QuestionView
	start   *start                       // of the newest of what it brings
	said    map[conversation.TaskID]bool // tasks of messages that were said before
	new     bool                         // it brings something besides interrupts that are given up
	ignored []ignored
}

// begins takes a beginning, if none is newer.
func (r *request) begins(s start) {
	if r.start == nil || s.seq > r.start.seq {
		r.start = &s
	}
}

// open finds the thread's session, or makes it when something is to be said there. false = there
// is none, and nothing to say.
func (r *request) open(ctx context.Context) (here bool, err error) {
	if len(r.in.said()) == 0 {
		var refused *conversation.Error
		if r.key, _, err = r.Find(ctx, r.who, r.in.ThreadID); errors.As(err, &refused) && refused.Code == conversation.NotFound {
			return false, nil
		}
	} else {
		create := conversation.Create{Policy: conversation.Overrides{}}
		r.wanted(func(key string, value json.RawMessage) { create.Policy[key] = value })
		r.key, r.opened, err = r.FindOrOpen(ctx, r.who, r.in.ThreadID, create)
	}
	if err != nil {
		return false, err
	}
	if r.view, err = r.View(ctx, r.key, r.who.User); err != nil {
		return false, err
	}
	r.said = map[conversation.TaskID]bool{}
	r.own, r.asks = map[string]conversation.CallID{}, map[string]conversation.QuestionView{}
	callers := map[conversation.CallID]bool{}
	for _, c := range r.view.Calls {
		callers[c.Call] = c.Caller
	}
	for _, q := range r.view.Questions {
		r.asks[string(q.Asked.Question)] = q
		if callers[q.Asked.Call] {
			r.own[string(q.Asked.Question)] = q.Asked.Call
		}
	}
	return true, nil
}

// fits refuses what cannot be done in the session, before anything is done.
func (r *request) fits(context.Context) error {
	if bad := service.Writable(r.key); bad != nil {
		return bad
	}
	all, err := r.answers()
	if err != nil {
		return err
	}
	for _, g := range all {
		if bad := protocol.CheckText("the answer "+g.name, &g.text, r.Limits); bad != nil {
			return bad
		}
	}
	return nil
}

// known refuses an id that was used for another message, and what a closed thread does not take, before
// the answers are given and the messages before it are said.
func (r *request) known(ctx context.Context) error {
	if r.opened {
		return nil
	}
	for _, m := range r.in.said() {
		if r.shown(&m) {
			continue
		}
		files := make([]attached.File, len(m.Content.Files))
		for i := range files {
			files[i].Hash = m.Content.Files[i].hash()
		}
		repeats, err := r.Repeats(ctx, r.who, r.key, conversation.ClientMsgID(mark+m.ID), attached.Fingerprint(m.Content.Text, files))
		switch {
		case err != nil:
			return otherwise(&m, err)
		case !repeats && r.view.Closed && len(r.view.Questions) == 0:
			return exchange.ErrClosed
		}
	}
	return nil
}

// otherwise says a conflict in the client's words.
func otherwise(m *message, err error) error {
	if conversation.AsError(err).Code == conversation.Conflict {
		err = conversation.Errorf(conversation.Conflict, "the id %q was used for another message", conversation.Excerpt(m.ID, 64))
	}
	return err
}

// shown is true for a message that somebody has said here, and a snapshot has shown.
func (r *request) shown(m *message) bool { return conversation.Ordinal(m.ID, 'm') > 0 && r.ours(m.ID) }

// waits is the question that waits for what a message brings: the result of a client's own tool.
func (r *request) waits(m *message) (conversation.QuestionID, bool) {
	if m.Role != "tool" {
		return "", false
	}
	for question, call := range r.own {
		if string(call) == m.ToolCallID {
			return conversation.QuestionID(question), true
		}
	}
	return "", false
}

// check refuses what can be done nowhere.
func (r *request) check() error {
	if len(r.in.ThreadID) > protocol.MaxClientMsgID {
		return conversation.Errorf(conversation.BadRequest, "threadId must be at most %d bytes", protocol.MaxClientMsgID)
	}
	for _, e := range r.in.Resume {
		if len(markAnswer)+len(e.InterruptID) > protocol.MaxClientMsgID {
			return conversation.Errorf(conversation.BadRequest, "there is no interrupt with so long an id")
		}
	}
	if bad := r.CheckMode(r.in.Forwarded.Mode); bad != nil {
		return bad
	}
	said := r.in.said()
	if len(said) > maxSaid {
		return conversation.Errorf(conversation.BadRequest, "at most %d messages may be said at once", maxSaid)
	}
	for i := range said {
		m := &said[i]
		if len(mark)+len(m.ID) > protocol.MaxClientMsgID {
			return conversation.Errorf(conversation.BadRequest, "the id of a message must be at most %d bytes", protocol.MaxClientMsgID-len(mark))
		}
		if len(m.Content.Files) == 0 || m.Content.Text != "" {
			if bad := protocol.CheckText("content", &m.Content.Text, r.Limits); bad != nil {
				return bad
			}
		}
		if err := r.usable(m); err != nil {
			return err
		}
	}
	return nil
}

// wanted are the policies that the input brings. What it does not bring stays as it is: others
// talk to the session, too.
func (r *request) wanted(set func(key string, value json.RawMessage)) {
	if len(r.in.Tools) > 0 {
		if list, err := json.Marshal(r.in.Tools); err == nil {
			set(callerTools, list)
		}
	}
	if text := r.in.instructions(); text != "" {
		set(instructions, protocol.AppendString(nil, text))
	}
}

// settings brings the session's policies to what the input brings. They are the owner's to set:
// another member's tools are left out, and the client is told.
func (r *request) settings(ctx context.Context) (back func(refusal error) error, err error) {
	wanted := conversation.Overrides{}
	if !r.opened {
		r.wanted(func(key string, value json.RawMessage) { wanted[key] = value })
	}
	change := exchange.Changed(r.view.Policy, wanted)
	back, err = r.Set(ctx, r.who, r.view, exchange.Settings{Policy: change})
	var refused *conversation.Error
	if errors.As(err, &refused) && refused.Code == conversation.Forbidden {
		for key := range change {
			r.ignored = append(r.ignored, ignored{what: key, why: refused})
		}
		err = nil
	}
	return back, err
}

// given is an answer that an input brings.
type given struct {
	what, name string // as it is called when it is passed over
	question   conversation.QuestionID
	id         conversation.ClientMsgID
	text       string
	judged     bool // the session may refuse what it says
}

// answers are those to interrupts, and what the client's tools have returned. Those that the session may
// refuse come first: so it refuses all of them.
func (r *request) answers() (all []given, err error) {
	for i := range r.in.Resume {
		e := &r.in.Resume[i]
		if e.Status != resolved {
			continue
		}
		approval := r.asks[e.InterruptID].Asked.Approval != nil
		text, err := e.answer(approval)
		if err != nil {
			return nil, err
		}
		all = append(all, given{"resume", e.InterruptID, conversation.QuestionID(e.InterruptID), conversation.ClientMsgID(markAnswer + e.InterruptID), text, approval && !plain(text)})
	}
	for i := range r.in.Messages {
		m := &r.in.Messages[i]
		if question, waits := r.waits(m); waits {
			all = append(all, given{"tool", m.ToolCallID, question, conversation.ClientMsgID(markResult + m.ToolCallID), m.result(), false})
		}
	}
	slices.SortStableFunc(all, func(a, b given) int {
		switch {
		case a.judged == b.judged:
			return 0
		case a.judged:
			return -1
		}
		return 1
	})
	return all, nil
}

// plain is true for an answer to an approval that is a yes or no and nothing else.
func plain(text string) bool {
	return text == approvalText(true, nil) || text == approvalText(false, nil)
}

// answer gives the session the answers. One that it refuses refuses the input, unless another one was
// given before it: then it is passed over, its question stays open, and the client is told.
func (r *request) answer(ctx context.Context) error {
	all, err := r.answers()
	if err != nil {
		return err
	}
	for _, g := range all {
		if err := r.tell(ctx, &g); err != nil {
			if !r.new || !exchange.StoresNothing(err) {
				return err
			}
			r.ignored = append(r.ignored, ignored{what: g.what, id: g.name, why: conversation.AsError(err)})
		}
	}
	return nil
}

// tell answers a question. One that is not open is passed over, as the protocol wants it: others
// may have answered it, or this client before with other words.
func (r *request) tell(ctx context.Context, g *given) error {
	receipt, err := r.Answer(ctx, r.who, r.key, exchange.Answered{Via: conversation.ViaAGUI, ID: g.id, Question: g.question, Text: g.text})
	var refused *conversation.Error
	switch {
	case errors.As(err, &refused) && (refused.Code == conversation.QuestionNotOpen || refused.Code == conversation.Conflict || refused.Code == conversation.NotFound):
		if refused.Code == conversation.Conflict {
			refused = conversation.Errorf(conversation.Conflict, "it was answered with another text")
		}
		r.ignored = append(r.ignored, ignored{what: g.what, id: g.name, why: refused})
		return nil
	case err != nil:
		return err
	}
	r.new = true
	r.begins(start{task: receipt.Task, seq: receipt.Seq})
	return nil
}

// say gives the session what the user says.
func (r *request) say(ctx context.Context) error {
	for _, m := range r.in.said() {
		if r.shown(&m) {
			continue
		}
		files, err := r.attach(ctx, &m)
		if err != nil {
			return err
		}
		receipt, err := r.Say(ctx, r.who, r.key, exchange.Said{
			Via: conversation.ViaAGUI, ID: conversation.ClientMsgID(mark + m.ID), Text: m.Content.Text, Files: files,
			Mode: r.in.Forwarded.Mode, TraceParent: r.trace,
		})
		if err != nil {
			return otherwise(&m, err)
		}
		if receipt.Duplicate {
			r.said[receipt.Task] = true
		} else {
			r.new = true
		}
		r.begins(start{message: receipt.Message, task: receipt.Task, seq: receipt.Seq, said: true})
	}
	return nil
}

// usable keeps of a message what can be used. The rest is left out, as the protocol wants it, and
// the client is told.
func (r *request) usable(m *message) error {
	skip := func(why *conversation.Error) {
		r.ignored = append(r.ignored, ignored{what: "content", id: m.ID, why: why})
	}
	if n := m.Content.Skipped; n > 0 {
		skip(conversation.Errorf(conversation.UnsupportedMedia, "%d parts that are neither text, nor bytes, nor files of this server were left out", n))
	}
	if most := r.Limits.AttachmentsPerMessage; most > 0 && len(m.Content.Files) > most {
		return conversation.Errorf(conversation.TooLarge, "a message may have at most %d attachments", most)
	}
	files := m.Content.Files[:0]
	for _, f := range m.Content.Files {
		err := r.readFile(&f)
		var refused *conversation.Error
		switch {
		case err == nil:
			files = append(files, f)
		case errors.As(err, &refused) && (refused.Code == conversation.UnsupportedMedia || refused.Code == conversation.TooLarge || refused.Code == conversation.BadRequest):
			skip(refused)
		default:
			return err
		}
	}
	if m.Content.Files = files; len(files) == 0 && m.Content.Text == "" {
		return conversation.Errorf(conversation.BadRequest, "nothing of the message %s can be used", m.ID)
	}
	return nil
}

// readFile reads the bytes of a file that comes with them.
func (r *request) readFile(f *file) (err error) {
	if f.data == "" {
		return nil
	}
	if f.body, err = base64.StdEncoding.DecodeString(f.data); err != nil {
		return conversation.Errorf(conversation.BadRequest, "a part's bytes are not in base64")
	}
	f.data = ""
	return r.Files.Check(f.upload())
}

// hash is that of a file which was uploaded, or comes with its bytes.
func (f *file) hash() attached.Hash {
	if f.body != nil {
		return attached.HashOf(f.body)
	}
	return f.Hash
}

func (f *file) upload() attach.Upload { return attach.Upload{Name: f.Name, Type: f.kind, Body: f.body} }

// attach stores what a message brings besides its text.
func (r *request) attach(ctx context.Context, m *message) (files []protocol.NamedFile, err error) {
	for i := range m.Content.Files {
		f := &m.Content.Files[i]
		if f.body != nil {
			if err := r.Uploads(ctx, r.who, r.key); err != nil {
				return nil, err
			}
			stored, _, err := r.Files.Upload(ctx, r.key, f.upload())
			if err != nil {
				return nil, err
			}
			f.Hash = stored.Hash
		}
		files = append(files, f.NamedFile)
	}
	return files, nil
}

func (r *request) ours(id string) bool { return newHistory(r.key.Session, r.who.User, false).ours(id) }

// leave ends what the client gives up: it abandons interrupts, answers none, and says nothing
// that is new. Beside something else they stay open: one answer must not end other questions.
func (r *request) leave(ctx context.Context) error {
	if r.new {
		return nil
	}
	left := map[conversation.TaskID]bool{}
	for _, e := range r.in.Resume {
		q, open := r.asks[e.InterruptID]
		if e.Status != abandoned || !open || left[q.Task] {
			continue
		}
		if len(r.said) > 0 && !r.said[q.Task] {
			continue // it is sent again, and something else was said with it then
		}
		left[q.Task] = true
		receipt, err := r.Cancel(ctx, r.who, r.key, q.Task, "", "the client has given up the question "+e.InterruptID)
		if err != nil {
			return err
		}
		r.begins(start{task: q.Task, seq: max(receipt.Seq, 1)})
	}
	return nil
}

// plan says what the run follows, and what the client's list of messages lacks.
func (r *request) plan(ctx context.Context) (*plan, error) {
	p := &plan{identity: r.in.identity(), key: r.key, session: r.key.Session, ignored: r.ignored}
	if err := r.find(ctx); err != nil {
		return nil, err
	}
	if !r.opened && r.in.Forwarded.Snapshot {
		h, err := r.history(ctx, r.start)
		if err != nil {
			return nil, err
		}
		h.bound(historyBytes)
		p.snapshots = h.snapshots(r.in.Messages)
	}
	s := r.start
	if s == nil {
		p.idle = true
		return p, nil
	}
	p.message, p.task, p.since = s.message, s.task, s.seq-1
	if s.said {
		if last := r.in.lastSaid(); last != nil {
			p.name = last.ID
		}
	}
	p.after = exchange.NumberAfter(s.seq - 1)
	if err := r.from(ctx, r.who, p); err != nil {
		return nil, err
	}
	return p, nil
}

// from begins the notes of a plan at the first event of its task.
func (a *api) from(ctx context.Context, who *service.Principal, p *plan) error {
	if p.task == "" {
		return nil
	}
	row, err := a.TaskRow(ctx, who, p.key, p.task)
	if err != nil {
		return err
	}
	if p.message == "" {
		p.message = row.Trigger
	}
	if row.First > 0 {
		p.since = min(p.since, row.First-1)
	}
	if p.name == "" {
		p.name, err = a.called(ctx, who, p)
	}
	return err
}

// called is what its client calls the message of a plan; "" = nothing.
func (a *api) called(ctx context.Context, who *service.Principal, p *plan) (string, error) {
	for e, err := range a.Events(ctx, p.key, p.since, 0) {
		if err != nil {
			return "", err
		}
		if b, is := e.Body.(conversation.MessageAccepted); is && b.Message == p.message {
			name, _ := nameOf(&b, who.User)
			return name, nil
		}
	}
	return "", nil
}

// find looks for what to follow, for an input that brings nothing new: what it brought before,
// or what is going on.
func (r *request) find(ctx context.Context) error {
	if r.opened || r.start != nil && len(r.ignored) == 0 {
		return nil
	}
	h, err := r.history(ctx, nil)
	if err != nil {
		return err
	}
	take := func(id string) {
		if s, known := h.begins[id]; known {
			r.begins(s)
		}
	}
	if m := r.in.lastSaid(); m != nil {
		take(m.ID)
	}
	for _, e := range r.in.Resume {
		take(callMark + e.InterruptID)
	}
	for _, m := range r.in.Messages {
		if m.Role == "tool" {
			take(callMark + m.ToolCallID)
		}
	}
	if r.start != nil || len(r.view.Tasks) == 0 {
		return nil
	}
	r.start = &start{task: r.view.Tasks[0].Task, message: r.view.Tasks[0].Trigger}
	row, err := r.TaskRow(ctx, r.who, r.key, r.start.task)
	if err != nil {
		return err
	}
	r.start.seq, r.start.said = max(row.First, 1), false
	return nil
}

// history reads the session's newest messages, those of the run's beginning as the last. nil =
// up to now.
func (r *request) history(ctx context.Context, until *start) (*history, error) {
	view, err := r.View(ctx, r.key, r.who.User)
	if err != nil {
		return nil, err
	}
	last := view.Head
	if until != nil {
		if last = until.seq; !until.said {
			last--
		}
	}
	since := max(last, historyEvents) - historyEvents
	h := newHistory(r.key.Session, r.who.User, since == 0)
	for n, err := range r.Notes(ctx, r.who, r.key, since, 0) {
		if err != nil {
			return nil, err
		}
		h.add(n, n.At.Seq() <= last)
	}
	return h, nil
}

// link is where a client comes back to a run that it follows.
func (p *plan) link() string {
	if p.task == "" {
		return ""
	}
	q := url.Values{"runId": {p.run}}
	if p.message != "" {
		q.Set("message", string(p.message))
	}
	return "/agui/" + url.PathEscape(p.thread) + "/runs/" + url.PathEscape(string(p.task)) + "?" + q.Encode()
}
