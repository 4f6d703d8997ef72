package acp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"parley/conversation"
	"parley/conversation/access"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
)

// session is a session that a client has open. What is not under mu belongs to its goroutine.
type session struct {
	c    *conn
	name string // what the client calls it
	key  conversation.SessionKey

	mu    sync.Mutex
	queue []any              // what the client wants
	wake  context.CancelFunc // ends a wait for the next note
	gone  bool

	f       *exchange.Follower                 // nil = it is not followed yet
	since   conversation.Seq                   // the beginning of the newest step, behind which a follower must begin to go on
	seen    map[conversation.QuestionID]asking // questions that were asked while the session was followed, and are open
	at      exchange.Number                    // what the client was told last
	replay  bool                               // the client gets what it has said itself, too
	synced  bool
	begins  []attach // that are answered when all that was stored has been told
	prompts []*pending
	rested  conversation.TaskID // of the prompt that was answered last, if its task waits for an answer
	open    []*question
	known   map[conversation.CallID]bool // calls that wait for an approval, as the client knows
	ending  []json.RawMessage            // requests to close, which are answered when no prompt is left
	left    bool                         // they were
	changed bool                         // prompts may have come to rest
	buf     []byte
}

// What a client may want of a session.
type (
	// attach begins to follow.
	attach struct {
		id      json.RawMessage
		made    bool // by session/new
		load    bool // from the first event
		since   conversation.Seq
		after   exchange.Number // 0 = it has nothing
		ignored []string
	}
	// say gives it a prompt.
	say struct {
		id   json.RawMessage
		text string
		meta meta
	}
	// cancel ends the work on its prompts; prompt nil = on all of this connection.
	cancel struct{ prompt json.RawMessage }
	leave  struct{ id json.RawMessage }
)

// pending is a prompt that has no answer yet.
type pending struct {
	id     json.RawMessage
	run    *exchange.Run
	behind conversation.Seq    // it may be answered when all up to there was seen
	upto   conversation.Seq    // the run has all up to there
	ends   conversation.TaskID // that was cancelled, and the log is about to say so
}

// question is one that is open.
type question struct {
	conversation.QuestionView
	callers  bool // the caller of the session answers it, by its own tool
	asking   bool // the client has been asked
	answered bool // it has answered, and the log is about to say so
}

// asking is when a question was asked.
type asking struct {
	before   conversation.Seq // a follower that goes on must begin behind it, so that it knows the question
	approval bool
}

// maxQueue bounds what waits for a session.
const maxQueue = 256

// errLeft says that the session has ended, and is to be opened again.
var errLeft = errors.New("the session has ended")

func newSessionOf(c *conn, name string) *session {
	return &session{c: c, name: name, wake: func() {}, known: map[conversation.CallID]bool{}, seen: map[conversation.QuestionID]asking{}}
}

// push gives it something to do.
func (s *session) push(do any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return errLeft
	}
	if _, ends := do.(cancel); !ends && len(s.queue) >= maxQueue {
		return conversation.Errorf(conversation.RateLimited, "too much waits for the session")
	}
	s.queue = append(s.queue, do)
	s.wake()
	return nil
}

// take is the next thing to do; nil = none, and wait ends when there is one.
func (s *session) take(wait context.Context) (any, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 {
		do := s.queue[0]
		s.queue = slices.Delete(s.queue, 0, 1)
		return do, wait
	}
	if wait == nil || wait.Err() != nil {
		wait, s.wake = context.WithCancel(s.c.socket.Context)
	}
	return nil, wait
}

// run does what the client wants and tells it what happens, until the connection or the session ends.
func (s *session) run() {
	defer s.end()
	var wait context.Context
	for s.c.socket.Context.Err() == nil && !s.left {
		if s.f == nil || !s.f.More() { // between two commits, never within one
			var do any
			if s.changed {
				s.changed = false
				s.check()
			}
			if do, wait = s.take(wait); do != nil {
				if s.do(do); s.f == nil {
					return
				}
				continue
			}
			if s.f == nil {
				<-wait.Done()
				continue
			}
		}
		n, err := s.f.Next(wait)
		switch {
		case err == nil:
			s.tell(n)
		case wait.Err() == nil:
			for _, a := range s.begins {
				s.c.fail(a.id, err)
			}
			for _, p := range s.prompts {
				s.c.fail(p.id, err)
			}
			for _, id := range s.ending {
				s.c.fail(id, err)
			}
			return
		}
	}
}

// end leaves to the next session of this name what nobody has done.
func (s *session) end() {
	if s.f != nil {
		s.f.Close()
	}
	s.mu.Lock()
	s.gone = true
	s.wake()
	rest := s.queue
	s.mu.Unlock()
	s.c.left(s)
	if s.c.socket.Context.Err() != nil {
		return
	}
	for _, do := range rest {
		if bad := s.c.push(s.name, do); bad != nil {
			s.refuse(do, bad)
		}
	}
}

func (s *session) refuse(do any, bad *fault) {
	var id json.RawMessage
	switch d := do.(type) {
	case attach:
		id = d.id
	case say:
		id = d.id
	case leave:
		id = d.id
	}
	if id != nil {
		s.c.refuse(id, bad)
	}
}

// deadline is a context for one command.
func (s *session) deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.c.socket.Context, s.c.x.Times.Request)
}

func (s *session) do(do any) {
	begin, is := do.(attach)
	if s.f == nil || is {
		if err := s.follow(begin); err != nil {
			s.refuse(do, faultOf(s.c.x.Refusal(err)))
			return
		}
	}
	switch d := do.(type) {
	case attach:
		if d.made {
			s.began(d)
		} else {
			s.begins = append(s.begins, d)
		}
	case say:
		s.say(d)
	case cancel:
		s.cancel(d.prompt)
	case verdict:
		s.answer(d)
	case leave:
		s.ending = append(s.ending, d.id)
		s.cancel(nil)
		s.leaves()
	}
}

// follow begins to follow the session, or begins again.
func (s *session) follow(a attach) error {
	ctx, done := s.deadline()
	defer done()
	x, who := s.c.x, s.c.socket.Who
	key, _, err := x.Find(ctx, who, s.name)
	if err != nil {
		return err
	}
	from := exchange.From{Key: key, Since: a.since, After: a.after, Whole: true, FromNow: !a.load && !a.made && a.after == 0}
	f, err := x.Follow(ctx, who, from)
	if err != nil {
		return err
	}
	if s.f != nil {
		for _, p := range s.prompts {
			p.upto = max(p.upto, s.f.Fold().Seq())
		}
		s.f.Close()
	}
	s.f, s.key, s.since, s.synced, s.replay = f, key, f.Fold().Seq(), false, a.load || a.made
	clear(s.seen)
	clear(s.known)
	if s.at = a.after; s.at == 0 {
		s.at = exchange.NumberAfter(s.since)
	}
	was := s.open
	s.open = nil
	for _, v := range f.View.Questions {
		if v.Asked.Approval != nil && who.Redact() {
			approval := *v.Asked.Approval
			approval.Args = protocol.RedactedJSON
			v.Asked.Approval = &approval
		}
		q := &question{QuestionView: v}
		for _, c := range f.View.Calls {
			q.callers = q.callers || c.Caller && c.Call == v.Asked.Call
		}
		if i := slices.IndexFunc(was, func(o *question) bool { return o.Asked.Question == v.Asked.Question }); i >= 0 {
			q.asking, q.answered = was[i].asking, was[i].answered
		}
		s.open = append(s.open, q)
	}
	return nil
}

// began answers the request by which the client has begun.
func (s *session) began(a attach) {
	s.c.reply(a.id, func(o *protocol.Object) {
		if a.made {
			o.Text("sessionId", s.name)
		}
		own := beginOwn(o)
		own.Key("cursor")
		own.Bytes = append(s.cursor(append(own.Bytes, '"')), '"')
		if a.ignored != nil {
			own.Key("ignored")
			own.Bytes = appendList(own.Bytes, a.ignored)
		}
		var asks []string
		for _, q := range s.open {
			if s.asks(q) {
				asks = append(asks, askID(s.name, q.Asked.Question))
			}
		}
		own.Key("asks")
		own.Bytes = appendList(own.Bytes, asks)
		endOwn(o, own)
	})
}

// cursor appends where the client stands.
func (s *session) cursor(dst []byte) []byte {
	since := min(s.since, s.at.Seq())
	for _, q := range s.seen {
		since = min(since, q.before)
	}
	return appendCursor(dst, since, s.at)
}

func appendList(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, text := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = protocol.AppendString(dst, text)
	}
	return append(dst, ']')
}

// say says what the client has prompted, or answers the question that it answers.
func (s *session) say(d say) {
	x, who := s.c.x, s.c.socket.Who
	if most := x.Limits.WaitsPerSession; most > 0 && len(s.prompts) >= most {
		x.Metrics.Refused.WithLabelValues("waits_per_session").Inc()
		s.c.fail(d.id, conversation.Errorf(conversation.RateLimited, "too many prompts wait in the session: limits.waits_per_session"))
		return
	}
	ctx, done := s.deadline()
	defer done()
	own := d.meta.Parley
	id := ownID(s.c.client, own.ID)
	var r conversation.Receipt
	var err error
	closed := false
	q := s.answers(ctx, own)
	if q != "" {
		r, err = x.Answer(ctx, who, s.key, exchange.Answered{Via: conversation.ViaACP, ID: id, Question: q, Text: d.text})
		r.Disposition = conversation.Answered
		closed = own.Question == "" && err != nil && conversation.AsError(err).Code == conversation.QuestionNotOpen
	}
	if q == "" || closed { // the question that it would have answered is not open any more, and the client does not know
		if own.Mode == conversation.ModeDefault {
			own.Mode = conversation.ModeQueue
		}
		r, err = x.Say(ctx, who, s.key, exchange.Said{
			Via: conversation.ViaACP, ID: id, Text: d.text, InReplyTo: own.InReplyTo, Mode: own.Mode, TraceParent: d.meta.TraceParent,
		})
	}
	if err != nil {
		s.c.fail(d.id, err)
		return
	}
	p := &pending{id: d.id, run: exchange.NewRun(r.Message, r.Task).GoesOn(), behind: r.Seq, upto: s.f.Fold().Seq()}
	since := r.Seq - 1
	if r.Disposition == conversation.Answered {
		p.run = exchange.NewRun("", r.Task) // the message was for the question; the task goes on
	}
	if r.Duplicate || r.Disposition == conversation.Answered || r.Disposition == conversation.Joined {
		if row, err := x.TaskRow(ctx, who, s.key, r.Task); err == nil {
			since = min(since, row.First-1)
		}
	}
	if since < p.upto {
		for n, err := range x.Notes(ctx, who, s.key, since, p.upto+1) {
			if err != nil {
				s.c.fail(d.id, err)
				return
			}
			p.run.Add(n)
		}
	}
	s.prompts = append(s.prompts, p)
	s.check()
}

// answers is the question that a prompt answers; "" = none. Where a question could not be put
// to the client in a form, its next prompt is the answer.
func (s *session) answers(ctx context.Context, own ownMeta) conversation.QuestionID {
	if own.Question != "" || own.Mode != conversation.ModeDefault {
		return conversation.QuestionID(own.Question)
	}
	for _, blocking := range []bool{true, false} {
		for _, q := range s.open {
			if q.Asked.Blocking != blocking || q.callers || q.asking || q.answered {
				continue
			}
			if !blocking { // its task may go on without an answer, or wait for nothing else
				row, err := s.c.x.TaskRow(ctx, s.c.socket.Who, s.key, q.Task)
				if err != nil || row.Status != conversation.TaskAwaiting {
					continue
				}
			}
			return q.Asked.Question
		}
	}
	return ""
}

// cancel ends the work on a prompt of this connection, or on all of them.
func (s *session) cancel(prompt json.RawMessage) {
	ctx, done := s.deadline()
	defer done()
	if waits := func(q *question) bool { return q.Task == s.rested }; prompt == nil && s.rested != "" && slices.ContainsFunc(s.open, waits) {
		// The client has dismissed the question first, and the prompt was answered for that.
		_, _ = s.c.x.Cancel(ctx, s.c.socket.Who, s.key, s.rested, "", "cancelled by the client")
	}
	for _, p := range s.prompts {
		if prompt == nil || string(prompt) == string(p.id) {
			// What cannot be cancelled goes on, and the prompt is answered when it rests.
			if _, err := s.c.x.Cancel(ctx, s.c.socket.Who, s.key, p.run.Task, "", "cancelled by the client"); err == nil {
				p.ends = p.run.Task
			}
		}
	}
}

// answer answers a question as the client has, or knows that it does not.
func (s *session) answer(v verdict) {
	var q *question
	if i := slices.IndexFunc(s.open, func(q *question) bool { return q.Asked.Question == v.question }); i >= 0 {
		q = s.open[i]
		q.asking = false
	}
	if v.text != nil {
		ctx, done := s.deadline()
		defer done()
		_, err := s.c.x.Answer(ctx, s.c.socket.Who, s.key, exchange.Answered{
			Via: conversation.ViaACP, ID: ownID(s.c.client, "answer:"+string(v.question)), Question: v.question, Text: *v.text,
		})
		if q != nil {
			q.answered = err == nil
		}
	}
	s.check()
}

// tell tells the client a note, and gives it to the prompts that wait.
func (s *session) tell(n *exchange.Note) {
	if n.Kind == exchange.Synced {
		s.sync()
		return
	}
	if n.Event != nil {
		if _, is := n.Event.Body.(conversation.StepStarted); is {
			s.since = n.Event.Seq - 1
		}
	}
	if n.Kind == exchange.Asked {
		s.seen[n.Question.Asked.Question] = asking{n.Event.Seq - 1, n.Question.Asked.Approval != nil}
	}
	s.show(n)
	switch n.Kind {
	case exchange.Asked:
		if n.Event.Seq > s.f.View.Head { // those before are in the view, if they are open
			q := &question{QuestionView: *n.Question, callers: n.Call != nil && n.Call.Callers}
			s.open = append(s.open, q)
			s.ask(q)
		}
	case exchange.Closed:
		s.closed(n)
	}
	for _, p := range s.prompts {
		if n.Event == nil || n.Event.Seq > p.upto {
			p.run.Add(n)
		}
	}
	s.changed = s.changed || n.Event != nil
}

// sync is for the moment at which the client has all that was stored.
func (s *session) sync() {
	s.synced, s.replay = true, false
	for _, a := range s.begins {
		s.began(a)
	}
	s.begins = nil
	for _, q := range s.open {
		s.ask(q)
	}
	s.check()
}

// closed takes back what the client was asked.
func (s *session) closed(n *exchange.Note) {
	var id conversation.QuestionID
	switch b := n.Event.Body.(type) {
	case conversation.QuestionAnswered:
		id = b.Question
	case conversation.QuestionClosed:
		id = b.Question
	}
	delete(s.seen, id)
	i := slices.IndexFunc(s.open, func(q *question) bool { return q.Asked.Question == id })
	if i < 0 {
		return
	}
	if s.open[i].asking {
		o := appendCall(s.buf[:0], "", "$/cancel_request")
		o.Text("requestId", askID(s.name, id))
		s.flush(append(o.Close(), '}'))
	}
	s.open = slices.Delete(s.open, i, i+1)
}

// check answers the prompts that may be answered now.
func (s *session) check() {
	for i := 0; i < len(s.prompts); {
		p := s.prompts[i]
		if s.f.Fold().Seq() <= p.behind || !s.rests(p) {
			i++
			continue
		}
		s.prompts = slices.Delete(s.prompts, i, i+1)
		s.result(p)
	}
	s.leaves()
}

// leaves ends the session when its client has closed it and nothing of it is left.
func (s *session) leaves() {
	if len(s.ending) == 0 || len(s.prompts) > 0 {
		return
	}
	for _, id := range s.ending {
		s.c.reply(id, func(*protocol.Object) {})
	}
	s.left = true
}

// rests is true when a prompt may be answered: nothing is done for it, and nothing that the
// client was asked holds it up.
func (s *session) rests(p *pending) bool {
	waits := p.run.Waits()
	switch {
	case len(waits) == 0:
		return p.run.Rests()
	case p.ends == p.run.Task: // the client has dismissed what it was asked, too
		return false
	}
	for _, w := range waits {
		i := slices.IndexFunc(s.open, func(q *question) bool { return q.Asked.Question == w.Asked.Question })
		if i >= 0 && (s.open[i].asking || s.open[i].answered || s.open[i].callers) {
			return false
		}
	}
	return s.synced
}

// asks is true for a question that the client is asked in a request.
func (s *session) asks(q *question) bool {
	may := s.f.View.Role(s.c.socket.Who.User).May(access.Approve)
	return may && q.Asked.Blocking && !q.callers && (q.Asked.Approval != nil || s.c.elicit)
}

// ask asks the client.
func (s *session) ask(q *question) {
	if !s.synced || q.asking || q.answered || !s.asks(q) {
		return
	}
	q.asking = true
	if q.Asked.Approval != nil {
		s.flush(appendPermission(s.buf[:0], s.name, q))
	} else {
		s.flush(appendElicitation(s.buf[:0], s.name, q))
	}
}

// flush sends what was made in buf.
func (s *session) flush(b []byte) {
	s.buf = b
	s.c.send(b)
}

// ours is true for a message that came over this client.
func (s *session) ours(b conversation.MessageAccepted) bool {
	return b.Author == s.c.socket.Who.User && strings.HasPrefix(string(b.ClientMsgID), own(s.c.client))
}
