package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"parley/conversation"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// follower follows a run for a host that waits for it. What it says of it is a function of the
// session's notes and of where the host stands, so a host that was cut off goes on anywhere.
type follower struct {
	*way
	who     *service.Principal
	key     conversation.SessionKey
	run     *exchange.Run
	stream  *stream // nil = the host does not wait: only what is stored is read
	wait    *wait
	form    bool                             // the host can show its user forms, beside the stream
	left    map[conversation.QuestionID]bool // that the user has seen, and has not answered
	primes  bool                             // events have ids, and the first may have nothing else
	at      cursor
	since   conversation.Seq // of the message, while it has no task
	begun   exchange.Number  // where progress begins
	told    float64          // the last progress
	gathers []byte           // text that was not told yet
	grown   exchange.Number  // up to where
	item    string           // and of what
}

// follow follows a run until it rests, and asks the host's user what it waits for. The wait is
// bounded; the work is not. left are questions that the user has just seen; true = he has not
// answered.
func (m *way) follow(ctx context.Context, req *sdk.CallToolRequest, key conversation.SessionKey, run *exchange.Run, at conversation.Seq, seconds *int, left map[conversation.QuestionID]bool) (*sdk.CallToolResult, outcome, error) {
	k := callOf(ctx)
	f := &follower{way: m, who: k.who, key: key, run: run, since: at, stream: k.stream, left: left}
	newest := req.ProtocolVersion() >= versionNoState
	until := m.Now()
	if f.stream != nil {
		until = k.deadline
		if seconds != nil {
			if most := m.Now().Add(time.Duration(min(*seconds, 1<<20)) * time.Second); most.Before(until) {
				until = most
			}
		}
	}
	f.at = cursor{Message: run.Message, Task: run.Task, Until: until.Unix() + 1, Forms: rand.Text()}
	if id := rawID(k.id); len(id) <= maxID && !newest && run.Task != "" {
		f.at.Request = id
	}
	if token := req.Params.GetProgressToken(); token != nil {
		f.at.Token, _ = json.Marshal(token) // it came as JSON
	}
	f.primes = k.host.Version >= versionPrimes && k.host.Nonce != ""
	f.form = !newest && k.host.Form && k.host.Nonce != ""
	end := f.listen(callID{k.host.Nonce, k.id})
	defer end()
	questions, note, err := f.follow(ctx, until, 0)
	if err != nil {
		return m.refuse(err)
	}
	capabilities := req.ClientCapabilities()
	if newest && len(questions) > 0 && capabilities != nil && asksByForm(capabilities.Elicitation) {
		var asked []*conversation.QuestionView
		for _, q := range questions {
			if !left[q.Asked.Question] {
				asked = append(asked, q)
			}
		}
		if len(asked) > 0 {
			return f.ask(asked)
		}
		note = noteUnanswered
	}
	r, o := result(key, run, note)
	return r, o, nil
}

// listen lets others tell the call something: that the host waits no more, or what its user has done.
func (f *follower) listen(id callID) (end func()) {
	w, endCall := f.calls.begin(id)
	f.wait = w
	forms := callID{f.at.Forms, jsonrpc.ID{}}
	f.calls.mu.Lock()
	f.calls.all[forms] = w
	f.calls.mu.Unlock()
	return func() {
		endCall()
		f.calls.mu.Lock()
		delete(f.calls.all, forms)
		f.calls.mu.Unlock()
	}
}

// What a result says besides.
const (
	noteGoesOn     = "The work goes on: read_session shows what comes of it, and the same call with the same client_id waits again."
	noteUnanswered = "The user has not answered: the question stays open, and the tool answer answers it."
)

// resume goes on with an answer that was cut off, and ends with the response to its request.
func (m *way) resume(s *stream, who *service.Principal, h host, from cursor) {
	id, err := from.id()
	if err != nil {
		return
	}
	key, err := exchange.TaskKey(who, from.Task)
	f := &follower{
		way: m, who: who, key: key, run: exchange.NewRun(from.Message, from.Task).GoesOn(), stream: s, at: from,
		form: h.Form && h.Nonce != "", primes: h.Version >= versionPrimes && h.Nonce != "",
	}
	if f.at.Forms == "" {
		f.at.Forms = rand.Text()
	}
	end := f.listen(callID{h.Nonce, id})
	defer end()
	note := ""
	if err == nil {
		now := m.Now()
		left := min(max(from.Until-now.Unix(), 0), int64(m.Times.WaitMax/time.Second))
		_, note, err = f.follow(s.ctx, now.Add(time.Duration(left)*time.Second), from.At)
	}
	if s.ctx.Err() != nil {
		return
	}
	r := &sdk.CallToolResult{}
	if err != nil {
		r.SetError(m.told(err))
	} else {
		var o outcome
		r, o = result(f.key, f.run, note)
		r.StructuredContent = o
	}
	b, err := json.Marshal(r)
	if err != nil {
		return
	}
	if b, err = jsonrpc.EncodeMessage(&jsonrpc.Response{ID: id, Result: b}); err == nil {
		s.say("", b)
	}
}

// follow tells the host what comes of the run until it rests, or until the time is over. open is
// what the run waits for then, and note what is to be said of that.
func (f *follower) follow(ctx context.Context, until time.Time, after exchange.Number) (open []*conversation.QuestionView, note string, err error) {
	asking, answered := context.WithTimeout(ctx, f.Times.Request)
	defer answered()
	since := max(f.since, 1) - 1
	if f.at.Task != "" {
		row, err := f.TaskRow(asking, f.who, f.key, f.at.Task)
		if err != nil {
			return nil, "", err
		}
		since = max(row.First, 1) - 1
	}
	f.begun = exchange.NumberAfter(since)
	n, err := f.Follow(asking, f.who, exchange.From{Key: f.key, Since: since, After: after, Whole: true})
	if err != nil {
		return nil, "", err
	}
	defer n.Close()
	if f.at.At = after; after == 0 {
		f.at.At = f.begun
	}
	if f.stream != nil && f.primes && f.id() != "" {
		f.stream.prime(f.id())
	}
	waiting, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if f.stream != nil {
		// A drain ends the wait, and the stream ends with an answer.
		defer context.AfterFunc(f.Serving, cancel)()
		defer context.AfterFunc(f.stream.leaving, cancel)()
	}
	for synced := false; ; {
		if synced && f.run.Rests() {
			open = f.run.Waits()
			if f.run.Ended() || len(open) == 0 {
				return nil, "", nil
			}
			if done, note := f.asks(open); done {
				return open, note, nil
			}
		}
		if synced && f.stream == nil {
			return f.run.Waits(), noteGoesOn, nil
		}
		if stopped, _, _ := f.wait.told(""); stopped {
			// The host ignores what is said now. It is said all the same: hosts that are cut off
			// without a response come back for it.
			return nil, noteGoesOn, nil
		}
		reading := waiting
		if !synced { // what is stored is read, however short the wait
			reading = ctx
		}
		next, err := f.next(reading, n)
		switch {
		case err == nil:
		case ctx.Err() != nil: // the host has gone; the task goes on
			return nil, "", ctx.Err()
		case waiting.Err() != nil && synced:
			return nil, noteGoesOn, nil
		case errors.Is(err, errWoken):
			continue
		default:
			return nil, "", err
		}
		synced = synced || next.Kind == exchange.Synced
		if f.run.Add(next) {
			f.tell(next)
		}
	}
}

// errWoken says that somebody has told the call something.
var errWoken = errors.New("woken")

func (f *follower) next(ctx context.Context, n *exchange.Follower) (*exchange.Note, error) {
	if n.More() {
		return n.Next(ctx)
	}
	once, cancel := f.wait.until(ctx)
	defer cancel()
	next, err := n.Next(once)
	if err != nil && once.Err() != nil && ctx.Err() == nil {
		return nil, errWoken
	}
	return next, err
}

// id is that of an event which says where the host stands; "" where it could not come back to it.
func (f *follower) id() string {
	if f.at.Request == nil {
		return ""
	}
	c := f.at
	if len(c.Token) > maxID {
		c.Token = nil
	}
	c.Asked = c.Asked[:min(len(c.Asked), maxAsked)]
	return c.String()
}

// asks shows the host's user what the run waits for, as forms. done = nothing comes of it: the
// host has none, or the user has seen them all.
func (f *follower) asks(open []*conversation.QuestionView) (done bool, note string) {
	if !f.form || f.stream == nil {
		return true, ""
	}
	shown := false
	for _, q := range open {
		id := f.formID(q.Asked.Question)
		_, decided, answered := f.wait.told(id)
		switch {
		case decided && !answered:
			return true, noteUnanswered
		case f.run.CallOf(q) != nil: // not for a person
		case slices.Contains(f.at.Asked, q.Asked.Question):
			shown = true
		default:
			form, err := json.Marshal(elicitation(q))
			if err != nil {
				continue
			}
			request, err := jsonrpc.MakeID(id)
			if err != nil {
				continue
			}
			b, err := jsonrpc.EncodeMessage(&jsonrpc.Request{ID: request, Method: "elicitation/create", Params: form})
			if err != nil {
				continue
			}
			f.at.Asked, shown = append(f.at.Asked, q.Asked.Question), true
			f.stream.say(f.id(), b)
		}
	}
	return !shown, ""
}

// formID is the id of the request that shows a form. It says which question the answer is for, to
// any node that gets it.
func (f *follower) formID(q conversation.QuestionID) string {
	return formMark + f.at.Forms + ":" + string(q) + ":" + string(f.key.Session)
}

// tell tells the host how far the run is.
func (f *follower) tell(n *exchange.Note) {
	if n.Kind == exchange.Closed && n.Question != nil {
		f.closed(n.Question.Asked.Question)
	}
	if f.stream == nil || f.at.Token == nil || n.Seen >= exchange.MaxNumbers || n.Seen > 0 && n.Kind != exchange.TextGrew {
		return
	}
	switch n.Kind {
	case exchange.TextGrew:
		f.gathers, f.grown, f.item = append(f.gathers, n.Delta...), n.At, n.Item.ID
		if utf8.RuneCount(f.gathers) >= progressEvery {
			f.text()
		}
		return
	case exchange.TextDropped:
		f.gathers = f.gathers[:0]
	}
	f.text() // a host that goes on behind what comes now has all before it
	switch n.Kind {
	case exchange.TextDropped:
		f.progress(n.At, n.Own, "dropped", n.Item.ID, "what was written counts no more")
	case exchange.CallBegan:
		text := "calling " + n.Call.Tool
		if n.Call.Tool == "" {
			text = "delegating to " + string(n.Call.Agent)
		}
		f.progress(n.At, n.Own, "call", string(n.Call.ID), text)
	case exchange.CallProgress:
		f.progress(n.At, n.Own, "call", string(n.Call.ID), n.Call.Note)
	case exchange.Asked:
		f.progress(n.At, n.Own, "question", string(n.Question.Asked.Question), "asking: "+n.Question.Asked.Text)
	case exchange.Status:
		f.progress(n.At, n.Own, "status", "", n.Event.Body.(conversation.TaskStatusChanged).New.String())
	}
}

// closed takes a form away from the user, when somebody else was first.
func (f *follower) closed(q conversation.QuestionID) {
	i := slices.Index(f.at.Asked, q)
	if i < 0 {
		return
	}
	f.at.Asked = slices.Delete(f.at.Asked, i, i+1)
	if _, decided, _ := f.wait.told(f.formID(q)); decided || f.stream == nil {
		return
	}
	o := protocol.NewObject(nil)
	o.Raw("jsonrpc", `"2.0"`)
	o.Text("method", "notifications/cancelled")
	o.Key("params")
	in := protocol.NewObject(o.Bytes)
	in.Text("requestId", f.formID(q))
	in.Text("reason", "it was answered elsewhere, or is not asked any more")
	o.Bytes = in.Close()
	f.stream.say("", o.Close())
}

// progressEvery is how many code points of a text are told at once, at least.
const progressEvery = 40

// text tells the text that has come since the last time: together the messages of an item's
// progress are its text.
func (f *follower) text() {
	if len(f.gathers) > 0 {
		f.progress(f.grown, true, "text", f.item, string(f.gathers))
		f.gathers = f.gathers[:0]
	}
}

// anEvent is how far the numbers of two events are apart.
var anEvent = float64(exchange.NumberAfter(1) - exchange.NumberAfter(0))

// progress tells a step. How far the run is, is counted in events of the session.
func (f *follower) progress(at exchange.Number, own bool, kind, about, text string) {
	const step = 1e-8 // less than from one number to the next
	f.told = max(f.told+step, float64(at-f.begun)/anEvent)
	id := ""
	if own {
		f.at.At = at
		id = f.id()
	}
	f.stream.say(id, appendProgress(nil, f.at.Token, f.told, kind, about, text))
}

func appendProgress(dst []byte, token json.RawMessage, at float64, kind, about, text string) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`...)
	dst = append(dst, token...)
	dst = append(dst, `,"progress":`...)
	dst = strconv.AppendFloat(dst, at, 'f', 8, 64)
	dst = append(dst, `,"message":`...)
	dst = protocol.AppendString(dst, text)
	dst = append(dst, `,"_meta":{"parley/kind":`...)
	dst = protocol.AppendString(dst, kind)
	if about != "" {
		dst = append(dst, `,"parley/id":`...)
		dst = protocol.AppendString(dst, about)
	}
	return append(dst, "}}}"...)
}

// ask asks the host's user by the result of the call; the host calls again with what he says.
func (f *follower) ask(questions []*conversation.QuestionView) (*sdk.CallToolResult, outcome, error) {
	st, err := json.Marshal(state{f.run.Message, f.run.Task})
	if err != nil {
		return f.refuse(err)
	}
	asks := sdk.InputRequestMap{}
	for _, q := range questions {
		asks[string(q.Asked.Question)] = elicitation(q)
	}
	return &sdk.CallToolResult{InputRequests: asks, RequestState: string(st)}, outcome{}, nil
}
