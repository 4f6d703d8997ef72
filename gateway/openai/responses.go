package openai

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/openai/internal/request"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// createResponse is POST /v1/responses.
func (a *api) createResponse(c *fiber.Ctx) error {
	body, err := door.Body(c)
	if err != nil {
		return err
	}
	r, w, err := request.ReadNewResponse(body)
	if err != nil {
		return err
	}
	b, free, err := a.accept(c, &w, "response", r.Stream)
	if err != nil {
		return err
	}
	who, echo := door.Principal(c), echo(r, w)
	if r.Stream {
		return keeps(a.stream(c, who, free, b, 0, echo))
	}
	var s *stretch
	if r.Background {
		s, err = a.readNow(who, b)
	} else {
		s, err = a.wait(c, who, b)
	}
	if err != nil {
		return keeps(err)
	}
	return answerWith(c, s, echo)
}

// echo is what the answer to a request repeats of it. It is not stored, so who retrieves the
// response later does not find it there.
func echo(r request.NewResponse, w request.Intent) func(*response) {
	return func(o *response) {
		o.Background, o.Instructions = r.Background, r.Instructions
		o.Previous, o.User = optional(r.Previous), optional(r.User)
		for name, value := range r.Metadata {
			if _, ours := o.Metadata[name]; !ours {
				o.Metadata[name] = value
			}
		}
		for _, t := range w.Tools {
			o.Tools = append(o.Tools, map[string]any{"type": "function", "name": t.Name, "description": optional(t.Description), "parameters": t.Schema, "strict": false})
		}
	}
}

func answerWith(c *fiber.Ctx, s *stretch, echo func(*response)) error {
	o := s.object()
	if echo != nil {
		echo(&o)
	}
	return c.JSON(o)
}

// from is where the notes of a response begin.
func (b begun) from() exchange.From {
	return exchange.From{Key: b.key, Since: max(b.row.First, 1) - 1, Whole: true}
}

func (b begun) stretch() *stretch {
	s := newStretch(b.ref, b.row.Trigger, b.model)
	s.whole = b.whole
	return s
}

// read makes a response of what is stored.
func (a *api) read(ctx context.Context, who *service.Principal, b begun) (*stretch, error) {
	s := b.stretch()
	for n, err := range a.Notes(ctx, who, b.key, b.from().Since, 0) {
		if err != nil {
			return nil, err
		}
		if s.add(n); s.rests() {
			break
		}
	}
	if !s.begun {
		return nil, notBegun(b.ref)
	}
	return s, nil
}

// readNow is read with a request's time of its own: that of who has waited may be over.
func (a *api) readNow(who *service.Principal, b begun) (*stretch, error) {
	ctx, cancel := a.Deadline()
	defer cancel()
	return a.read(ctx, who, b)
}

func notBegun(ref reference) error {
	return &request.Refusal{Status: fiber.StatusNotFound, Param: "response_id", Message: "Response with id '" + ref.id() + "' not found."}
}

// wait waits until a response rests, for gateway.wait_max at most: then it is in progress still,
// and can be retrieved.
func (a *api) wait(c *fiber.Ctx, who *service.Principal, b begun) (*stretch, error) {
	waiting, refusedBy := a.Wait(c, who, b.key, a.Times.WaitMax)
	if refusedBy != "" { // it is accepted all the same
		return a.readNow(who, b)
	}
	defer waiting.End()
	ctx, cancel := a.Deadline()
	defer cancel()
	f, err := a.Follow(ctx, who, b.from())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := b.stretch()
	for !s.rests() {
		n, err := f.Next(waiting.Context)
		switch {
		case waiting.Over():
			return a.readNow(who, b)
		case err != nil:
			return nil, err
		}
		s.add(n)
	}
	return s, nil
}

// stream answers with the events of a response behind a number.
func (a *api) stream(c *fiber.Ctx, who *service.Principal, free func(), b begun, after exchange.Number, echo func(*response)) error {
	var text []byte
	s, from := b.stretch(), b.from()
	from.After = after
	s.events = &events{echo: echo, send: func(event []byte) { text = appendEvent(text, event) }}
	return a.tell(c, who, free, from, func(n *exchange.Note) ([]byte, bool) {
		text = text[:0]
		if s.add(n); s.rests() {
			text = append(text, "data: [DONE]\n\n"...) // as openresponses.org has it
		}
		return text, s.rests()
	})
}

// tell answers with a stream: note says what a note becomes, and whether that is the end. One that
// ends before is cut off, for an end would say that it is whole; its client comes back.
func (a *api) tell(c *fiber.Ctx, who *service.Principal, free func(), from exchange.From, note func(*exchange.Note) (text []byte, end bool)) error {
	ctx, cancel := a.Deadline()
	defer cancel()
	f, err := a.Follow(ctx, who, from)
	if err != nil {
		free()
		return err
	}
	a.ServeEvents(c, who, free, func(ctx context.Context, out *door.EventWriter) {
		defer f.Close()
		ended := false
		err := follow(ctx, f, a.Times.Comment, func(n *exchange.Note) bool {
			text, end := note(n)
			sent := len(text) == 0 || out.Send(text)
			ended = end && sent
			return sent && !end
		}, out.Comment)
		if err != nil && ctx.Err() == nil && !errors.Is(err, service.ErrNoSession) {
			a.Log.Error("stream failed", "session", string(from.Key.Session), "error", err)
		}
		if !ended {
			out.ForceClose()
		}
	})
	return nil
}

// follow hands notes on until take returns false; quiet is called when nothing has come for a while.
func follow(ctx context.Context, f *exchange.Follower, pause time.Duration, take func(*exchange.Note) bool, quiet func() bool) error {
	for {
		wait, cancel := context.WithTimeout(ctx, pause)
		n, err := f.Next(wait)
		cancel()
		switch {
		case err == nil:
			if !take(n) {
				return nil
			}
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, context.DeadlineExceeded):
			return err
		case !quiet():
			return nil
		}
	}
}

// appendEvent appends a server-sent event. Its name is its type, the first member of its data.
func appendEvent(dst, data []byte) []byte {
	const before = `{"type":"`
	kind := data[len(before):]
	for i := range kind {
		if kind[i] == '"' {
			kind = kind[:i]
			break
		}
	}
	dst = append(dst, "event: "...)
	dst = append(dst, kind...)
	dst = append(dst, "\ndata: "...)
	dst = append(dst, data...)
	return append(dst, "\n\n"...)
}

// responseOf is the response that a request names.
func (a *api) responseOf(ctx context.Context, c *fiber.Ctx) (b begun, err error) {
	id, err := door.Param(c, "id")
	if err != nil {
		return b, err
	}
	b, err = a.response(ctx, door.Principal(c), id)
	if errors.Is(err, exchange.ErrNoTask) {
		return b, &request.Refusal{Status: fiber.StatusNotFound, Param: "response_id", Message: "Response with id '" + request.Excerpt(id) + "' not found."}
	}
	return b, err
}

// response is the response with an id. The error is exchange.ErrNoTask where there is none.
func (a *api) response(ctx context.Context, who *service.Principal, id string) (b begun, err error) {
	ref, ok := readReference(id)
	if !ok {
		return b, exchange.ErrNoTask
	}
	key, err := exchange.TaskKey(who, ref.task)
	if err != nil {
		return b, err
	}
	return a.begun(ctx, who, key, ref)
}

// getResponse is GET /v1/responses/:id.
func (a *api) getResponse(c *fiber.Ctx) error {
	ctx, cancel := a.Deadline()
	defer cancel()
	b, err := a.responseOf(ctx, c)
	if err != nil {
		return err
	}
	who := door.Principal(c)
	s, err := a.read(ctx, who, b)
	if err != nil {
		return err
	}
	var body struct{ Stream bool } // the SDK for Go says it there, also with GET
	if json.Unmarshal(c.Request().Body(), &body) != nil || !body.Stream {
		if c.Query("stream") != "true" {
			return answerWith(c, s, nil)
		}
	}
	after := exchange.Number(0)
	if q := c.Query("starting_after"); q != "" {
		number, ok := exchange.ParseNumber(q)
		if !ok {
			return request.Refuse("starting_after", "invalid_value", "starting_after must be the sequence_number of an event.")
		}
		after = number
	}
	free, err := a.StreamSlot(c, who)
	if err != nil {
		return err
	}
	return a.stream(c, who, free, b, after, nil)
}

// cancelResponse is POST /v1/responses/:id/cancel. It ends the task, and answers when that has
// ended, or after a moment with what is known then.
func (a *api) cancelResponse(c *fiber.Ctx) error {
	ctx, cancel := a.Deadline()
	defer cancel()
	b, err := a.responseOf(ctx, c)
	if err != nil {
		return err
	}
	who := door.Principal(c)
	id, err := door.IdempotencyKey(c, "openai:cancel:"+b.ref.name())
	if err != nil {
		return err
	}
	over, err := a.wentOn(ctx, who, b)
	if err != nil {
		return err
	}
	if over {
		return errCancel
	}
	r, err := a.Cancel(ctx, who, b.key, b.ref.task, id, "")
	if err != nil {
		return err
	}
	if r.OldStatus.Ended() && r.OldStatus != conversation.TaskCancelled {
		return errCancel
	}
	s, err := a.wait(c, who, b)
	if err != nil {
		return err
	}
	return answerWith(c, s, nil)
}

var errCancel = request.Refuse("", "response_not_cancellable", "Cannot cancel a response that has ended.")

// wentOn is true of a response whose task has gone on behind it: it was answered or steered, and
// what works now is another response.
func (a *api) wentOn(ctx context.Context, who *service.Principal, b begun) (bool, error) {
	s := b.stretch()
	for n, err := range a.Notes(ctx, who, b.key, b.from().Since, 0) {
		switch {
		case err != nil:
			return false, err
		case !s.rests():
			if s.add(n); s.steered {
				return true, nil
			}
		case n.Kind == exchange.Status && n.Task == b.ref.task && n.Event.Body.(conversation.TaskStatusChanged).New == conversation.TaskRunning:
			return true, nil
		}
	}
	return false, nil
}

// deleteResponse is DELETE /v1/responses/:id. Nothing is taken out of a log: a session is erased
// as a whole, or not.
func (a *api) deleteResponse(c *fiber.Ctx) error {
	ctx, cancel := a.Deadline()
	defer cancel()
	if _, err := a.responseOf(ctx, c); err != nil {
		return err
	}
	return &request.Refusal{Status: fiber.StatusMethodNotAllowed, Code: "not_supported",
		Message: "A response cannot be deleted by itself: delete its conversation, which erases all of it."}
}

// inputItems is GET /v1/responses/:id/input_items: what was said to the response.
func (a *api) inputItems(c *fiber.Ctx) error {
	ctx, cancel := a.Deadline()
	defer cancel()
	b, err := a.responseOf(ctx, c)
	if err != nil {
		return err
	}
	list, err := newItems(c)
	if err != nil {
		return err
	}
	who, s := door.Principal(c), b.stretch()
	var steers []exchange.Note // they are input of the response whose first step reads them
	for n, err := range a.Notes(ctx, who, b.key, b.from().Since, 0) {
		if err != nil {
			return err
		}
		if s.add(n); s.rests() {
			break
		}
		list.know(n)
		if n.Event == nil || n.Task != b.ref.task {
			continue
		}
		switch e := n.Event.Body.(type) {
		case conversation.TaskStatusChanged: // left over by another task, which they were said to
			if len(e.Messages) > 0 && b.ref.from == 0 {
				if err := a.saidBefore(ctx, who, b.key, n.Event.Seq, e.Messages, list); err != nil {
					return err
				}
			}
		case conversation.MessageAccepted:
			if isSteer(e) {
				kept := *n
				kept.Event = &conversation.Event{Seq: n.Event.Seq, At: n.Event.At, Task: n.Event.Task, Body: e}
				steers = append(steers, kept)
			} else if s.begun {
				list.add(n)
			}
		case conversation.StepStarted:
			for _, kept := range steers {
				if s.begun && slices.Contains(e.Read, kept.Event.Body.(conversation.MessageAccepted).Message) {
					list.add(&kept)
				}
			}
			if n.Kind == exchange.Other { // another attempt reads the same
				steers = slices.DeleteFunc(steers, func(kept exchange.Note) bool {
					return slices.Contains(e.Read, kept.Event.Body.(conversation.MessageAccepted).Message)
				})
			}
		}
	}
	return list.page(c)
}

// saidBefore adds messages to a list that were said before an event.
func (a *api) saidBefore(ctx context.Context, who *service.Principal, key conversation.SessionKey, before conversation.Seq, ids []conversation.MessageID, list *items) error {
	for n, err := range a.Notes(ctx, who, key, 0, before) {
		if err != nil {
			return err
		}
		if n.Kind == exchange.Accepted && slices.Contains(ids, n.Event.Body.(conversation.MessageAccepted).Message) {
			list.add(n)
		}
	}
	return nil
}

// atLeast reads a whole number of the query.
func atLeast(c *fiber.Ctx, name string, least, usual, most int) (int, error) {
	q := c.Query(name)
	if q == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(q)
	if err != nil || n < least || n > most {
		return 0, request.Refuse(name, "invalid_value", name+" must be a whole number from "+strconv.Itoa(least)+" to "+strconv.Itoa(most)+".")
	}
	return n, nil
}
