package acp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	random "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Ends are whom to bring together.
type Ends struct {
	Address string                 // of the server's socket; see Address
	Token   func() (string, error) // read again for each connection; nil = none
	In      io.Reader              // the editor
	Out     io.Writer
	Err     io.Writer // for people
}

// ErrStart says that no connection could be made at the beginning. The editor was told why.
var ErrStart = errors.New("there is no connection to the server")

const (
	maxLine    = 16 << 20 // of the editor
	maxHead    = 64 << 10 // of a longer line, in which its id is looked for
	maxOpen    = 1024     // requests without an answer
	maxAnswers = 256      // answers to questions that are kept in case the server asks again
	leastPause = 100 * time.Millisecond
	mostPause  = 20 * time.Second
)

// The codes of errors that the bridge itself answers with.
const (
	parseError     = -32700
	invalidRequest = -32600
	tooLarge       = -32602
	authRequired   = -32000
	internalError  = -32603
)

// inside is what ids of the bridge's own requests begin with.
const inside = "parley-bridge:"

// bridge belongs to the goroutine of Run.
type bridge struct {
	Ends
	ctx    context.Context
	name   string // under which the server keeps apart what this editor says
	events chan any
	broken error // of Out

	link     *link
	attempts int
	retry    <-chan time.Time

	hello    []byte            // initialize, as it goes to the server
	greeted  bool              // the editor has the answer to it
	calls    []*call           // of the editor, without an answer or an effect, in order
	asks     map[string]bool   // requests of the server that are with the editor, by id
	answers  map[string][]byte // what it has answered
	answered []string          // their ids, the oldest first
	sessions map[string]string // those that are open, and the cursor of the last update
	order    []string
	most     int // bytes of a message that the server takes; 0 = not known
	n        int
}

// call is a request of the editor; or a notification that the server may have to be sent again.
type call struct {
	id      string // as JSON; "" of a notification
	method  string
	session string
	of      string // $/cancel_request: the id of which request
	text    []byte
}

// What happens.
type (
	lineRead struct{ b []byte } // of the editor
	lineCut  struct{ b []byte } // the beginning of one that is too long
	inEnded  struct{ err error }
	dialed   struct {
		link *link
		err  error
	}
	said struct {
		link *link
		b    []byte
	}
	lost struct {
		link *link
		err  error
	}
)

// Run carries messages until the editor ends its input or ctx ends. The error is ErrStart, or
// that of the streams.
func Run(ctx context.Context, o Ends) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &bridge{
		Ends: o, ctx: ctx, name: strings.ToLower(rand.Text()), events: make(chan any, 64),
		asks: map[string]bool{}, answers: map[string][]byte{}, sessions: map[string]string{},
	}
	defer func() {
		if b.link != nil {
			b.link.end()
		}
	}()
	go b.readLines()
	b.dial()
	for b.broken == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-b.retry:
			b.retry = nil
			b.dial()
		case e := <-b.events:
			switch e := e.(type) {
			case lineRead:
				b.fromEditor(e.b)
			case lineCut:
				b.tooLong(e.b, fmt.Sprintf("a line may have %d bytes", maxLine))
			case inEnded:
				return e.err
			case dialed:
				if final := b.dialed(e); final != nil {
					return b.giveUp(final)
				}
			case said:
				if e.link == b.link {
					b.fromServer(e.b)
				}
			case lost:
				if e.link == b.link {
					b.link = nil
					b.say("the connection to the server is lost (%v); trying again", e.err)
					if tooMuch(e.err) {
						b.leaveOut()
					}
					b.pause(0)
				}
			}
		}
	}
	return b.broken
}

// happen gives the loop something to do; false = it has ended.
func (b *bridge) happen(e any) bool {
	select {
	case b.events <- e:
		return true
	case <-b.ctx.Done():
		return false
	}
}

// readLines reads what the editor says. Of a line that is too long the beginning counts; the rest is
// passed over.
func (b *bridge) readLines() {
	in := bufio.NewReaderSize(b.In, maxHead)
	var text []byte
	cut := false
	for {
		piece, err := in.ReadSlice('\n')
		if !cut {
			text = append(text, piece...)
		}
		if !cut && len(text) > maxLine {
			cut, text = true, bytes.Clone(text[:maxHead])
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if !b.line(text, cut) { // one that has no end counts all the same
			return
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			b.happen(inEnded{err})
			return
		}
		text, cut = nil, false
	}
}

func (b *bridge) line(text []byte, cut bool) bool {
	switch {
	case cut:
		return b.happen(lineCut{text})
	case len(bytes.TrimSpace(text)) == 0:
		return true
	default:
		return b.happen(lineRead{bytes.TrimRight(text, "\r\n")})
	}
}

func (b *bridge) say(format string, args ...any) {
	fmt.Fprintf(b.Err, "parley acp: "+format+"\n", args...)
}

// editor tells the editor a message.
func (b *bridge) editor(message []byte) {
	if _, err := b.Out.Write(line(message)); err != nil {
		b.broken = err
	}
}

func (b *bridge) dial() {
	go func() {
		var e dialed
		token := ""
		if b.Token != nil {
			token, e.err = b.Token()
		}
		if e.err == nil {
			e.link, e.err = dial(b.ctx, b.Address, token)
		}
		if !b.happen(e) && e.link != nil {
			e.link.end()
		}
	}()
}

// dialed goes on with a connection, or without one: an error is the end of all attempts.
func (b *bridge) dialed(e dialed) error {
	if e.err == nil {
		b.up(e.link)
		return nil
	}
	var r *refusal
	refused := errors.As(e.err, &r)
	if !b.greeted || refused && r.final {
		return e.err
	}
	if b.attempts == 1 {
		b.say("no connection to %s: %v; trying again", b.Address, e.err)
	}
	if refused {
		b.pause(r.after)
	} else {
		b.pause(0)
	}
	return nil
}

// pause waits before the next attempt.
func (b *bridge) pause(least time.Duration) {
	bound := min(mostPause, 2*leastPause<<min(b.attempts, 10))
	b.attempts++
	b.retry = time.After(max(least, leastPause+random.N(bound-leastPause+1)))
}

// giveUp tells the editor why, in the answers to what it asks.
func (b *bridge) giveUp(why error) error {
	code, text := internalError, fmt.Sprintf("no connection to the parley server at %s: %v", b.Address, why)
	var r *refusal
	if errors.As(why, &r) && r.auth {
		code = authRequired
	}
	b.say("%s", text)
	told := len(b.calls) > 0
	for _, c := range b.calls {
		if c.id != "" {
			b.editor(failure(json.RawMessage(c.id), code, text))
		}
	}
	for !told && b.broken == nil {
		select {
		case <-b.ctx.Done():
			return ErrStart
		case e := <-b.events:
			switch e := e.(type) {
			case inEnded:
				return ErrStart
			case lineRead:
				if m, ok := read(e.b); ok && m.Method != "" && m.ID != nil {
					b.editor(failure(m.ID, code, text))
					told = true
				}
			case lineCut:
				b.tooLong(e.b, text)
				told = true
			}
		}
	}
	return ErrStart
}

// up begins with a connection: with all that the server has to know again.
func (b *bridge) up(l *link) {
	if b.attempts > 0 && b.greeted {
		b.say("connected again")
	}
	b.link, b.attempts = l, 0
	go l.write()
	go func() {
		err := l.read(func(text []byte) { b.happen(said{l, text}) })
		b.happen(lost{l, err})
	}()
	if b.greeted {
		l.send(set(b.hello, b.id("hello"), "id"))
	}
	for _, name := range b.order {
		if !slices.ContainsFunc(b.calls, func(c *call) bool { return c.session == name && c.attaches() }) {
			b.resume(name, b.sessions[name])
		}
	}
	for _, c := range b.calls {
		if b.holds(c) {
			continue
		}
		text := c.text
		if cursor := b.sessions[c.session]; cursor != "" && c.attaches() {
			text = with(text, "after", cursor)
		}
		l.send(text)
	}
	b.settle()
}

// settle drops the notifications that need not be sent again: all but those that end the work on
// a request without an answer.
func (b *bridge) settle() {
	if b.link == nil || !b.greeted {
		return
	}
	prompted, open := map[string]bool{}, map[string]bool{}
	b.calls = slices.DeleteFunc(b.calls, func(c *call) bool {
		switch {
		case c.id != "":
			open[c.id] = true
			prompted[c.session] = prompted[c.session] || c.method == "session/prompt"
			return false
		case c.method == "session/cancel":
			return !prompted[c.session]
		default:
			return !open[c.of]
		}
	})
}

// attaches is true for a request that has the server tell what happens in a session.
func (c *call) attaches() bool { return c.method == "session/load" || c.method == "session/resume" }

// id is one of the bridge's own.
func (b *bridge) id(about string) json.RawMessage {
	b.n++
	return json.RawMessage(strconv.Quote(inside + strconv.Itoa(b.n) + ":" + about))
}

// resume has the server go on with a session behind a cursor; "" = from now on.
func (b *bridge) resume(session, cursor string) {
	request := []byte(`{"jsonrpc":"2.0","method":"session/resume","params":{"cwd":"/"}}`)
	about := "resume:" + session
	if cursor != "" {
		request = with(request, "after", cursor)
		about = "go on:" + session
	}
	name, err := json.Marshal(session)
	if err != nil {
		return
	}
	request = set(request, name, "params", "sessionId")
	b.link.send(set(request, b.id(about), "id"))
}

// fromEditor takes a message of the editor.
func (b *bridge) fromEditor(text []byte) {
	m, ok := read(text)
	switch {
	case !ok:
		b.editor(failure(nil, parseError, "a line must be a JSON object"))
		return
	case !fitID(m.ID): // its answer would have another one, and it would be sent again for ever
		b.editor(failure(nil, invalidRequest, "an id must be a string, a number or null, and short"))
		return
	case b.most > 0 && len(text) > b.most-room:
		b.tooLong(text, b.takes(text))
		return
	case m.Method == "":
		key := string(m.ID)
		delete(b.asks, key)
		b.keep(key, text)
		if b.link != nil {
			b.link.send(text)
		} // else the server asks again
		return
	}
	if b.hello == nil && m.Method != "initialize" { // as the server says
		if m.ID != nil {
			b.editor(failure(m.ID, invalidRequest, "say initialize first"))
		}
		return
	}
	c := &call{id: string(m.ID), method: m.Method, session: m.Params.Session, of: string(m.Params.Request), text: text}
	switch m.Method {
	case "initialize":
		c.text = with(text, "client", b.name)
		b.hello = c.text
	case "session/new", "session/prompt":
		if m.Params.Meta.Parley.ID == "" {
			b.n++
			c.text = with(text, "id", strconv.Itoa(b.n))
		}
	}
	if len(b.calls) >= maxOpen {
		if m.ID != nil {
			b.editor(failure(m.ID, internalError, "too many requests wait for the server"))
		}
		return
	}
	b.calls = append(b.calls, c)
	if b.link != nil && !b.holds(c) {
		b.link.send(c.text)
		b.settle()
	}
}

// room is what is left of a message for what the bridge puts into it.
const room = 1024

func (b *bridge) takes(text []byte) string {
	return fmt.Sprintf("the message has %d bytes, and the server takes %d", len(text), b.most-room)
}

// holds is true for a call that waits for the answer to initialize: how long it may be is not known yet.
func (b *bridge) holds(c *call) bool { return !b.greeted && c.method != "initialize" }

// release goes on with the calls that were held, once initialize has its answer.
func (b *bridge) release() {
	held := b.calls
	b.calls = nil
	for _, c := range held {
		switch {
		case c.method == "initialize":
			b.calls = append(b.calls, c)
		case !b.greeted:
			b.refuse(c, invalidRequest, "say initialize first")
		case b.most > 0 && len(c.text) > b.most:
			b.refuse(c, tooLarge, b.takes(c.text))
		default:
			b.calls = append(b.calls, c)
			b.link.send(c.text)
		}
	}
	b.settle()
}

func (b *bridge) refuse(c *call, code int, text string) {
	if c.id != "" {
		b.editor(failure(json.RawMessage(c.id), code, text))
	}
}

// tooLong answers a message that cannot be sent, of which only the beginning may be there. The answer
// to a question has no answer itself: people are told, and the question stays open.
func (b *bridge) tooLong(text []byte, why string) {
	switch id, kind := head(text); {
	case kind == "answer":
		b.say("an answer was not sent: %s", why)
	case kind == "notification":
		b.say("a message was not sent: %s", why)
	case !fitID(id):
		b.editor(failure(nil, invalidRequest, why))
	default:
		b.editor(failure(id, tooLarge, why))
	}
}

// leaveOut gives up the longest message when the server has ended the connection because of one that is
// too long: it would do so again. That happens when it takes less than it has said.
func (b *bridge) leaveOut() {
	const why = "the server takes no message that is so long"
	longest := -1
	for i, c := range b.calls {
		if !b.holds(c) && (longest < 0 || len(c.text) > len(b.calls[longest].text)) {
			longest = i
		}
	}
	answer := ""
	for id, text := range b.answers {
		if answer == "" || len(text) > len(b.answers[answer]) {
			answer = id
		}
	}
	switch {
	case answer != "" && (longest < 0 || len(b.answers[answer]) > len(b.calls[longest].text)):
		b.answers[answer] = failure(json.RawMessage(answer), internalError, why)
		b.say("an answer was not sent: %s", why)
	case longest >= 0:
		c := b.calls[longest]
		b.calls = slices.Delete(b.calls, longest, longest+1)
		b.refuse(c, tooLarge, why)
		if c.method == "initialize" && !b.greeted {
			b.hello = nil
			b.release()
		}
	}
}

// keep keeps an answer to a question: the server may ask again when it has not got it.
func (b *bridge) keep(id string, text []byte) {
	if len(b.answered) == maxAnswers {
		delete(b.answers, b.answered[0])
		b.answered = b.answered[1:]
	}
	b.answers[id] = text
	b.answered = append(b.answered, id)
}

// fromServer takes a message of the server.
func (b *bridge) fromServer(text []byte) {
	m, ok := read(text)
	key := string(m.ID)
	switch {
	case !ok:
		b.say("the server has sent what is no message")
	case m.Method == "session/update":
		if cursor := m.Params.Update.Meta.Parley.Cursor; cursor != "" {
			b.at(m.Params.Session, cursor)
		}
		b.editor(text)
	case m.Method == "$/cancel_request":
		if id := string(m.Params.Request); b.asks[id] {
			delete(b.asks, id)
			b.editor(text)
		}
	case m.Method != "" && m.ID != nil:
		switch {
		case b.asks[key]: // the editor has it
		case b.answers[key] != nil:
			b.link.send(b.answers[key])
		default:
			b.asks[key] = true
			b.editor(text)
		}
	case m.Method != "":
		b.editor(text)
	case strings.HasPrefix(key, `"`+inside):
		b.own(&m)
	default:
		b.result(key, &m, text)
	}
}

// at notes where the editor stands in a session.
func (b *bridge) at(session, cursor string) {
	if _, open := b.sessions[session]; !open {
		b.order = append(b.order, session)
	}
	b.sessions[session] = cursor
}

// result gives the editor an answer.
func (b *bridge) result(id string, m *message, text []byte) {
	i := slices.IndexFunc(b.calls, func(c *call) bool { return c.id == id })
	if i < 0 {
		if m.ID == nil || id == "null" {
			b.editor(text) // to what had no id that could be read
		}
		return
	}
	c := b.calls[i]
	b.calls = slices.Delete(b.calls, i, i+1)
	b.settle()
	first := !b.greeted
	if m.Error == nil {
		switch c.method {
		case "initialize":
			b.greeted, b.most = true, m.Result.Meta.Parley.MessageBytes
		case "session/new":
			b.at(m.Result.Session, m.Result.Meta.Parley.Cursor)
		case "session/load", "session/resume":
			b.at(c.session, m.Result.Meta.Parley.Cursor)
			b.withdraw(c.session, m.Result.Meta.Parley.Asks)
		case "session/close":
			delete(b.sessions, c.session)
			b.order = slices.DeleteFunc(b.order, func(name string) bool { return name == c.session })
		}
	}
	b.editor(text)
	if first && c.method == "initialize" {
		if m.Error != nil {
			b.hello = nil
		}
		b.release()
	}
}

// own takes the answer to a request of the bridge.
func (b *bridge) own(m *message) {
	var id string
	_ = json.Unmarshal(m.ID, &id)
	_, about, _ := strings.Cut(strings.TrimPrefix(id, inside), ":")
	what, session, _ := strings.Cut(about, ":")
	if m.Error == nil {
		if what != "hello" {
			b.withdraw(session, m.Result.Meta.Parley.Asks)
		} else if most := m.Result.Meta.Parley.MessageBytes; most > 0 {
			b.most = most
		}
		return
	}
	b.say("after the new connection, session %q: %s", session, m.Error.Message)
	if what == "go on" { // the log is another one, say: what is new is told all the same
		b.resume(session, "")
	}
}

// withdraw takes back from the editor what the server does not ask any more.
func (b *bridge) withdraw(session string, asks []string) {
	for key := range b.asks {
		var id string
		if json.Unmarshal([]byte(key), &id) != nil || !strings.HasPrefix(id, session+"#") || slices.Contains(asks, id) {
			continue
		}
		delete(b.asks, key)
		b.editor(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%s}}`, key))
	}
}
