package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	parley "parley/clients/go"
)

// A command that comes in, as the protocol has it; session and client_msg_id may be
// left out.
type command struct {
	Type    string          `json:"type"`
	ID      json.RawMessage `json:"id,omitempty"`
	Session string          `json:"session,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// runJSON prints frames and takes commands, one a line. It ends when the input has
// ended and every message has its end.
func runJSON(ctx context.Context, client *parley.Client, session string, o Options, in <-chan said) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from := parley.Start()
	if o.Session != "" && o.Session != "new" {
		none := 0
		from = parley.From{Tail: &none}
	}
	shown, ended := events(ctx, client.Follow(session, from))
	t := newTurns()
	ready, more := false, true
	for more || !t.done() && len(t.questions) == 0 && len(t.results) == 0 { // the program that reads may be who gives them
		if err := o.written(); err != nil {
			return o.fail(err)
		}
		next := in
		if !ready || !more {
			next = nil
		}
		select {
		case e, ok := <-shown:
			if !ok {
				if *ended == nil {
					*ended = errors.New("the session was erased")
				}
				return o.fail(explain(o.Server, *ended))
			}
			if _, ok := e.Body.(*parley.Followed); ok {
				ready = true
			}
			t.apply(e)
			printFrame(o.Out, e)
		case s := <-next:
			switch {
			case errors.Is(s.err, io.EOF):
				more = false
			case s.err != nil:
				o.fail(s.err)
				return Usage
			default:
				runCommand(ctx, client, session, o, t, s.text)
			}
		}
	}
	if err := o.written(); err != nil {
		return o.fail(err)
	}
	if code := t.code(); code != Answered || t.done() {
		return code
	}
	return Asked
}

// printFrame prints an event: the frame of the server, or one of the same shape.
func printFrame(out io.Writer, e parley.Event) {
	raw := e.Raw
	switch b := e.Body.(type) {
	case *parley.Followed:
		raw = encode(map[string]any{"type": e.Type, "session": e.Session, "data": b})
	case *parley.Interrupted:
		raw = encode(map[string]any{"type": e.Type, "session": e.Session, "data": map[string]string{"error": b.Err.Error()}})
	}
	fmt.Fprintf(out, "%s\n", raw)
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("null")
	}
	return b
}

// runCommand does what a line says and prints its answer.
func runCommand(ctx context.Context, client *parley.Client, session string, o Options, t *turns, text string) {
	var c command
	answer, err := any(nil), error(nil)
	if err = json.Unmarshal([]byte(text), &c); err != nil || c.Type == "" || !utf8.ValidString(text) {
		err = &parley.Error{Code: parley.InvalidJSON, Message: `a line is a command: {"type":"send","data":{"text":"…"}}`}
	} else {
		answer, err = do(ctx, client, session, o, t, c)
	}
	re := c.ID
	if re == nil {
		re = json.RawMessage("null")
	}
	if err != nil {
		var refused *parley.Error
		if !errors.As(err, &refused) {
			refused = &parley.Error{Code: parley.Unavailable, Message: err.Error(), Retryable: true}
		}
		fmt.Fprintf(o.Out, "%s\n", encode(map[string]any{"type": "error", "re": re,
			"error": map[string]any{"code": refused.Code, "message": refused.Message, "retryable": refused.Retryable}}))
		t.failed = true // a script that reads the exit code alone has to see it
		return
	}
	fmt.Fprintf(o.Out, "%s\n", encode(map[string]any{"type": "ok", "re": re, "data": answer}))
}

func do(ctx context.Context, client *parley.Client, session string, o Options, t *turns, c command) (any, error) {
	if c.Session != "" && c.Session != session {
		return nil, &parley.Error{Code: parley.BadRequest, Message: "this is a chat with the session " + session + "; another one needs a chat of its own"}
	}
	switch c.Type {
	case "send", "answer":
		m := parley.Message{Mode: o.Mode}
		if err := json.Unmarshal(c.Data, &m); err != nil {
			return nil, &parley.Error{Code: parley.BadRequest, Message: "the data are not those of " + c.Type}
		}
		m.Session = session
		receipt, err := client.Send(ctx, m)
		if err == nil {
			t.closed(m.Question)
			t.sent(receipt)
		}
		return receipt, err
	case "upload":
		var what struct {
			File string `json:"file"`
		}
		if err := json.Unmarshal(c.Data, &what); err != nil || what.File == "" {
			return nil, &parley.Error{Code: parley.BadRequest, Message: `the data of upload are {"file":"…"}`}
		}
		f, err := readFile(what.File)
		if err != nil {
			return nil, &parley.Error{Code: parley.BadRequest, Message: err.Error()}
		}
		made, err := upload(ctx, client, session, []file{f})
		if err != nil {
			return nil, err
		}
		return made[0], nil
	case "hello", "follow", "unfollow", "create", "refresh":
		return nil, &parley.Error{Code: parley.BadRequest, Message: c.Type + " is done by parley chat itself"}
	}
	var answer json.RawMessage
	var data any
	if c.Data != nil {
		data = c.Data
	}
	err := client.Do(ctx, c.Type, session, data, &answer)
	return answer, err
}
