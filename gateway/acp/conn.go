package acp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
	"parley/gateway/service"
)

// conn is a client's connection.
type conn struct {
	x      *exchange.Exchange
	socket *door.Socket
	send   func([]byte) // a message; from any goroutine
	client string       // the name under which its ids are kept apart
	ready  bool         // it has said initialize; of the goroutine that reads
	elicit bool         // it shows forms; written before ready

	mu       sync.Mutex
	sessions map[string]*session // by what the client calls them
	work     sync.WaitGroup
}

func newConn(x *exchange.Exchange, s *door.Socket) *conn {
	return &conn{x: x, socket: s, send: func(b []byte) { s.Send(b) }, client: rand.Text(), sessions: map[string]*session{}}
}

// serve reads until the socket ends.
func (c *conn) serve() {
	defer c.work.Wait()
	for {
		b, err := c.socket.Read()
		if err != nil {
			return
		}
		m, bad := readMessage(b)
		switch {
		case bad != nil:
			c.refuse(m.ID, bad)
		case m.Method == "":
			if c.ready { // before it was asked nothing
				c.answered(&m)
			}
		default:
			if bad := c.do(&m); bad != nil && m.request() {
				c.refuse(m.ID, bad)
			}
		}
	}
}

// start runs do in a goroutine that the connection waits for. Its panic ends the connection alone.
func (c *conn) start(do func()) {
	c.work.Go(func() {
		defer func() {
			if r := recover(); r != nil {
				c.x.Metrics.Panics.Inc()
				c.x.Log.Error("panic", "where", "acp", "panic", r, "stack", service.Stack())
				c.socket.CloseWith(door.CloseInternal, "internal error")
			}
		}()
		do()
	})
}

func (c *conn) refuse(id json.RawMessage, f *fault) {
	if f.data != nil && f.data.Code == conversation.Internal {
		f.Message = "something went wrong on the server"
	}
	c.send(appendFault(nil, id, f))
}

// fail answers a request with an error of the engine.
func (c *conn) fail(id json.RawMessage, err error) {
	if id != nil {
		c.refuse(id, faultOf(c.x.Refusal(err)))
	}
}

// reply answers a request with what write appends to its result; a notification (id nil) not at all.
func (c *conn) reply(id json.RawMessage, write func(o *protocol.Object)) {
	if id == nil {
		return
	}
	o := protocol.NewObject(appendEnvelope(nil, id, "result"))
	write(&o)
	c.send(append(o.Close(), '}'))
}

// do does what a request or a notification asks for; an error is the answer to a request.
func (c *conn) do(m *message) *fault {
	if !c.ready && m.Method != "initialize" {
		return &fault{Code: invalidRequest, Message: "say initialize first"}
	}
	switch m.Method {
	case "initialize":
		return c.initialize(m)
	case "session/new":
		return c.newSession(m)
	case "session/list":
		return c.list(m)
	case "session/load", "session/resume":
		var p ofSession
		if bad := m.params(&p); bad != nil {
			return bad
		}
		d := attach{id: m.ID, load: m.Method == "session/load"}
		if p.Meta.Parley.After != "" {
			var ok bool
			if d.since, d.after, ok = readCursor(p.Meta.Parley.After); !ok {
				return &fault{Code: invalidParams, Message: "_meta.parley.after is no cursor"}
			}
		}
		return c.push(p.Session, d)
	case "session/prompt":
		var p prompt
		if bad := m.params(&p); bad != nil {
			return bad
		}
		text, bad := promptText(p.Blocks)
		if bad != nil {
			return bad
		}
		return c.push(p.Session, say{id: m.ID, text: text, meta: p.Meta})
	case "session/cancel", "session/close":
		var p ofSession
		if bad := m.params(&p); bad != nil {
			return bad
		}
		if m.Method == "session/close" {
			return c.push(p.Session, leave{m.ID})
		}
		c.cancel(p.Session, nil)
		return nil
	case "$/cancel_request":
		var p struct {
			ID json.RawMessage `json:"requestId"`
		}
		if bad := m.params(&p); bad != nil {
			return bad
		}
		c.cancel("", p.ID)
		return nil
	case "authenticate":
		return &fault{Code: invalidParams, Message: "there is nothing to sign in to: the connection has brought its key"}
	}
	return &fault{Code: methodNotFound, Message: "there is no method " + shorten(m.Method)}
}

func (c *conn) initialize(m *message) *fault {
	var p initialize
	if bad := m.params(&p); bad != nil {
		return bad
	}
	if c.ready {
		return &fault{Code: invalidRequest, Message: "initialize was said before"}
	}
	if name := p.Meta.Parley.Client; name != "" {
		if !fitClient(name) {
			return &fault{Code: invalidParams, Message: "_meta.parley.client must be at most 32 letters, digits, dots, hyphens and underscores"}
		}
		c.client = name
	}
	c.elicit = p.Capabilities.Elicitation != nil && p.Capabilities.Elicitation.Form != nil
	c.ready = true
	c.reply(m.ID, func(o *protocol.Object) {
		o.Int("protocolVersion", version)
		o.Raw("agentCapabilities", `{"loadSession":true,"promptCapabilities":{"image":false,"audio":false,"embeddedContext":true},`+
			`"mcpCapabilities":{"http":false,"sse":false},"sessionCapabilities":{"list":{},"resume":{},"close":{}}}`)
		o.Raw("authMethods", "[]")
		o.Key("agentInfo")
		info := protocol.NewObject(o.Bytes)
		info.Text("name", "parley")
		info.Text("title", "parley")
		info.Text("version", c.x.Version)
		o.Bytes = info.Close()
		own := beginOwn(o)
		own.Text("client", c.client)
		own.Int("messageBytes", int64(c.x.Limits.BodyBytes))
		endOwn(o, own)
	})
	return nil
}

// beginOwn begins what we say beside the protocol.
func beginOwn(o *protocol.Object) protocol.Object {
	o.Key("_meta")
	outer := protocol.NewObject(o.Bytes)
	outer.Key("parley")
	return protocol.NewObject(outer.Bytes)
}

func endOwn(o *protocol.Object, own protocol.Object) { o.Bytes = append(own.Close(), '}') }

func (c *conn) newSession(m *message) *fault {
	var p newSession
	if bad := m.params(&p); bad != nil {
		return bad
	}
	name := ""
	if p.Meta.Parley.ID != "" {
		name = string(ownID(c.client, p.Meta.Parley.ID))
	}
	id := m.ID
	c.start(func() {
		ctx, done := context.WithTimeout(c.socket.Context, c.x.Times.Request)
		defer done()
		key, _, err := c.x.FindOrOpen(ctx, c.socket.Who, name, conversation.Create{Agent: p.Meta.Parley.Agent})
		if err != nil {
			c.fail(id, err)
			return
		}
		ignored := []string{"cwd"}
		if len(p.Servers) > 0 {
			ignored = append(ignored, "mcpServers")
		}
		if len(p.Roots) > 0 {
			ignored = append(ignored, "additionalDirectories")
		}
		if bad := c.push(string(key.Session), attach{id: id, made: true, ignored: ignored}); bad != nil && id != nil {
			c.refuse(id, bad)
		}
	})
	return nil
}

// cancel ends the work on the prompts of a session, or on a prompt wherever it is. Of a session
// that is not open there are none.
func (c *conn) cancel(session string, prompt json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, s := range c.sessions {
		if prompt != nil || name == session {
			_ = s.push(cancel{prompt}) // one that has ended has no prompts, either
		}
	}
}

// push has a session do something; the session is opened for that.
func (c *conn) push(name string, do any) *fault {
	if name == "" {
		return &fault{Code: invalidParams, Message: "sessionId is missing"}
	}
	for {
		c.mu.Lock()
		s := c.sessions[name]
		if s == nil {
			if most := c.x.Limits.FollowsPerConnection; most > 0 && len(c.sessions) >= most {
				c.mu.Unlock()
				c.x.Metrics.Refused.WithLabelValues("follows_per_connection").Inc()
				return faultOf(conversation.Errorf(conversation.RateLimited, "the connection has too many sessions open: limits.follows_per_connection"))
			}
			s = newSessionOf(c, name)
			c.sessions[name] = s
			c.start(s.run)
		}
		c.mu.Unlock()
		switch err := s.push(do); {
		case err == nil:
			return nil
		case !errors.Is(err, errLeft):
			return faultOf(c.x.Refusal(err))
		}
	}
}

// left takes a session away that has ended.
func (c *conn) left(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions[s.name] == s {
		delete(c.sessions, s.name)
	}
}

// answered takes the client's answer to a question.
func (c *conn) answered(m *message) {
	var id string
	if json.Unmarshal(m.ID, &id) != nil {
		return
	}
	session, question, ok := asked(id)
	if !ok {
		return
	}
	if bad := c.push(session, readVerdict(question, m)); bad != nil {
		// An answer has no answer that could say so: who comes back is asked again.
		c.socket.CloseWith(door.ClosePolicy, bad.Message)
	}
}

// verdict is what a client answers to a question.
type verdict struct {
	question conversation.QuestionID
	text     *string // nil = it does not answer it
}

// readVerdict reads the answer to either kind of request: which one it was, its shape says.
func readVerdict(question conversation.QuestionID, m *message) verdict {
	v := verdict{question: question}
	var r struct {
		Outcome struct {
			Outcome string `json:"outcome"`
			Option  string `json:"optionId"`
		} `json:"outcome"`
		Action  string `json:"action"`
		Content struct {
			Answer json.RawMessage `json:"answer"`
		} `json:"content"`
	}
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil {
		return v
	}
	text := ""
	switch {
	case r.Outcome.Outcome == "selected" && r.Outcome.Option == allow:
		text = `{"approve":true}`
	case r.Outcome.Outcome == "selected" && r.Outcome.Option == reject:
		text = `{"approve":false}`
	case r.Action == "accept" && len(r.Content.Answer) > 0:
		if json.Unmarshal(r.Content.Answer, &text) != nil {
			text = string(r.Content.Answer) // a number, say: as it stands
		}
	default:
		return v
	}
	v.text = &text
	return v
}
