package parley

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
)

// An Outbox keeps what is to be sent until the server has acknowledged it. One that
// writes to a disk lets messages survive the program: the client sends at its start
// what is in there. Its methods are called one at a time.
type Outbox interface {
	Put(Message) error           // before it is sent; the same ClientMsgID is the same message
	Done(Message) error          // it was acknowledged, or refused for good
	Waiting() ([]Message, error) // in the order of Put
}

// memory is an Outbox that ends with the program.
type memory struct{ waiting []Message }

func (m *memory) Put(msg Message) error {
	m.waiting = append(m.waiting, msg)
	return nil
}

func (m *memory) Done(msg Message) error {
	m.waiting = slices.DeleteFunc(m.waiting, func(w Message) bool { return w.ClientMsgID == msg.ClientMsgID && w.Session == msg.Session })
	return nil
}

func (m *memory) Waiting() ([]Message, error) { return slices.Clone(m.waiting), nil }

// outbox sends what is in the Outbox: of each session one message at a time, so that
// their order is that of Send.
type outbox struct {
	mu    sync.Mutex
	lines map[string][]*Sent // by session; one that is there has a goroutine
}

// Sent is a message on its way.
type Sent struct {
	Message Message
	client  *Client
	done    chan struct{}
	receipt Receipt
	err     error
	watched bool // somebody asks what became of it
}

// Done is closed when the server has acknowledged the message, or refused it.
func (s *Sent) Done() <-chan struct{} { return s.done }

// Wait waits for the receipt. The message is sent whether somebody waits or not.
func (s *Sent) Wait(ctx context.Context) (Receipt, error) {
	select {
	case <-s.done:
		return s.receipt, s.err
	case <-ctx.Done():
		return Receipt{}, s.client.givenUp(ctx, "send", "no receipt came")
	}
}

// Send says something and waits for the receipt. From the moment it is in the outbox
// it is sent, also if ctx ends before, and again after each lost connection; it takes
// effect once. Refusals that may pass by themselves are waited out; a busy session
// (session_busy), a full inbox and a full disk are the caller's to decide.
func (c *Client) Send(ctx context.Context, m Message) (Receipt, error) {
	sent, err := c.Post(m)
	if err != nil {
		return Receipt{}, err
	}
	return sent.Wait(ctx)
}

// Answer answers a question, in the same way.
func (c *Client) Answer(ctx context.Context, session, question, text string) (Receipt, error) {
	return c.Send(ctx, Message{Session: session, Question: question, Text: text})
}

// Approve answers the question whether a call may run; with args, which are JSON, it
// runs with them instead of its own.
func (c *Client) Approve(ctx context.Context, session, question string, yes bool, args json.RawMessage) (Receipt, error) {
	text, err := json.Marshal(struct {
		Approve bool            `json:"approve"`
		Args    json.RawMessage `json:"args,omitempty"`
	}{yes, args})
	if err != nil {
		return Receipt{}, &Error{Code: BadRequest, Message: "the arguments are not valid JSON"}
	}
	return c.Answer(ctx, session, question, string(text))
}

// Post is Send without waiting.
func (c *Client) Post(m Message) (*Sent, error) {
	if m.ClientMsgID == "" {
		m.ClientMsgID = newID()
	}
	switch {
	case m.Session == "":
		return nil, &Error{Code: BadRequest, Message: "a message needs a session"}
	case strings.TrimSpace(m.Text) == "" && len(m.Attachments) == 0:
		return nil, &Error{Code: BadRequest, Message: "the text is blank"}
	}
	return c.post(m, true)
}

func (c *Client) post(m Message, store bool) (*Sent, error) {
	o := &c.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, context.Cause(c.ctx)
	}
	if store {
		if err := c.options.Outbox.Put(m); err != nil {
			return nil, err
		}
	}
	s := &Sent{Message: m, client: c, done: make(chan struct{}), watched: store}
	if o.lines == nil {
		o.lines = map[string][]*Sent{}
	}
	line, busy := o.lines[m.Session]
	o.lines[m.Session] = append(line, s)
	if !busy {
		c.wg.Go(func() { c.deliver(m.Session) })
	}
	return s, nil
}

// restore sends what an outbox has kept from an earlier run.
func (c *Client) restore() error {
	waiting, err := c.options.Outbox.Waiting()
	if err != nil {
		return err
	}
	for _, m := range waiting {
		if _, err := c.post(m, false); err != nil {
			return err
		}
	}
	return nil
}

// deliver sends the messages of a session until none waits.
func (c *Client) deliver(session string) {
	o := &c.outbox
	for {
		o.mu.Lock()
		line := o.lines[session]
		if len(line) == 0 {
			delete(o.lines, session)
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		s := line[0]
		s.receipt, s.err = c.deliverOne(s.Message)
		var refused *Error
		told := s.err == nil || errors.As(s.err, &refused) && c.ctx.Err() == nil
		o.mu.Lock()
		if told { // else it stays for the next run
			if err := c.options.Outbox.Done(s.Message); err != nil && s.err == nil {
				s.err = err
			}
		}
		o.lines[session] = o.lines[session][1:]
		o.mu.Unlock()
		close(s.done)
		if told && s.err != nil && !s.watched && c.options.Refused != nil {
			c.options.Refused(s.Message, s.err)
		}
	}
}

func (c *Client) deliverOne(m Message) (Receipt, error) {
	data := map[string]any{"client_msg_id": m.ClientMsgID, "text": m.Text}
	typ := "send"
	if m.Question != "" {
		typ, data["question"] = "answer", m.Question
	} else {
		if m.InReplyTo != "" {
			data["in_reply_to"] = m.InReplyTo
		}
		if m.Mode != "" {
			data["mode"] = m.Mode
		}
	}
	if len(m.Attachments) > 0 {
		data["attachments"] = m.Attachments
	}
	var receipt Receipt
	err := c.do(c.ctx, typ, m.Session, data, &receipt, how{})
	return receipt, err
}
