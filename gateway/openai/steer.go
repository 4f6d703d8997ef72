package openai

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/openai/internal/request"
	"parley/gateway/protocol"
)

// What response.steer says joins the task of the response. The response ends, as incomplete for it
// was steered, where a step reads that, and the next response begins there. A task that ends or
// waits before it reads leaves the message to a task of its own: that is the next response then.

// telling is a response that is told over a socket, from one that was created to the last one that
// its steering makes of the same task.
type telling struct {
	*lane
	s      *stretch
	echo   func(*response)
	sent   bool                // everything so far
	steers []steered           // that nothing is known of but that they are accepted
	left   conversation.TaskID // the task that some of them were left to; "" = none
	forget func()              // the name of the response's stream
}

// steered is what response.steer has said.
type steered struct {
	message conversation.MessageID
	to      string // the response
	text    string
}

// begin has the events of a response sent.
func (t *telling) begin(echo func(*response)) {
	t.echo, t.sent = echo, true
	t.s.events = &events{echo: echo, send: func(event []byte) { t.sent = t.sent && t.send(event) }}
	t.forget = t.told.Name(t.s.ref.id(), t.stream)
}

func (t *telling) follow(b begun) error {
	ctx, cancel := context.WithTimeout(t.socket.Context, t.Times.Request)
	defer cancel()
	f, err := t.Follow(ctx, t.socket.Who, b.from())
	if err != nil {
		return err
	}
	defer f.Close()
	return follow(t.socket.Context, f, t.Times.Comment, t.take, func() bool { return true })
}

// take tells a note; false = there is nothing more to tell.
func (t *telling) take(n *exchange.Note) bool {
	if of := t.of(n); len(of) > 0 {
		t.steering.Lock() // who has steered is told first that it is accepted
		defer t.steering.Unlock()
		t.settle(n, of)
	}
	if t.s.add(n); t.s.steered {
		t.forget()
		before, next := t.s.ref, t.s.next()
		if !t.told.Claim(string(before.task), next.ref.id()) { // another lane of the same task goes on with it
			return false
		}
		t.s = next
		t.begin(behind(t.echo, before))
		t.s.add(n)
	}
	if n.Event != nil && n.Kind == exchange.Accepted && n.Task == t.s.ref.task && t.s.begun {
		if b := n.Event.Body.(conversation.MessageAccepted); isSteer(b) {
			t.steers = append(t.steers, steered{b.Message, t.s.ref.id(), b.Text})
		}
	}
	return t.sent && !t.s.rests()
}

// of are the steers that a note tells the end of: they are read, resolved, or left to another task.
func (t *telling) of(n *exchange.Note) []conversation.MessageID {
	if n.Event == nil || len(t.steers) == 0 || n.Kind == exchange.TextDropped {
		return nil
	}
	var ends []conversation.MessageID
	switch b := n.Event.Body.(type) {
	case conversation.StepStarted:
		ends = b.Read
	case conversation.MessageResolved:
		ends = []conversation.MessageID{b.Message}
	case conversation.TaskStatusChanged:
		ends = b.Messages
	}
	var of []conversation.MessageID
	for _, s := range t.steers {
		if slices.Contains(ends, s.message) {
			of = append(of, s.message)
		}
	}
	return of
}

// settle takes steers whose end a note tells. One that no model will read is given back.
func (t *telling) settle(n *exchange.Note, of []conversation.MessageID) {
	resolved, is := n.Event.Body.(conversation.MessageResolved)
	if _, left := n.Event.Body.(conversation.TaskStatusChanged); left {
		t.left = n.Task
	}
	t.steers = slices.DeleteFunc(t.steers, func(s steered) bool {
		ended := slices.Contains(of, s.message)
		if ended && is && resolved.How != conversation.ResolvedMerged && resolved.How != conversation.ResolvedAnswered {
			input := encode(s.text)
			t.steerFailed(n.Number(0), steerLost, "The input was "+resolved.How.String()+" before a model has read it.", steerRequest{input, s.to}, steerID(s.message))
		}
		return ended
	})
}

// steerRequest is the event response.steer: more for a response that is being made.
type steerRequest struct {
	Input    json.RawMessage `json:"input"`
	Previous string          `json:"previous_response_id"`
}

func steerID(m conversation.MessageID) string { return "steer_" + string(m) }

// The reasons for which a steer fails, as the API has them.
const (
	steerNoResponse   = "response_not_found"
	steerBadInput     = "invalid_input"
	steerNotSupported = "steering_not_supported"
	steerTooMany      = "too_many_pending_steers"
	steerCompleted    = "response_already_completed"
	steerNotActive    = "response_not_active"
	steerLost         = "successor_creation_failed"
)

// steerFailed gives the input of a steer back; id is "" before it is accepted.
func (l *lane) steerFailed(at exchange.Number, code, message string, r steerRequest, id string) {
	steer := map[string]any{"previous_response_id": r.Previous, "input": r.Input}
	if id != "" {
		steer["id"] = id
	}
	l.object(func(o *protocol.Object) {
		o.Text("type", "response.steer.failed")
		o.Uint("sequence_number", uint64(at))
		raw(o, "steer", steer)
		raw(o, "error", map[string]string{"type": "invalid_request_error", "code": code, "message": message})
	})
}

// steer says something to the task of a response, which its next step reads. It is accepted when it
// is stored.
func (l *lane) steer(body []byte) {
	var r steerRequest
	err := request.Decode(body, &r)
	l.stream = l.told.NameOf(r.Previous) // the response's, as the API has it
	fail := func(code, message string) { l.steerFailed(0, code, message, r, "") }
	if err != nil {
		fail(steerBadInput, err.Error())
		return
	}
	w := request.Intent{Mode: conversation.ModeSteer}
	if err := request.ReadInput(r.Input, &w); err != nil {
		fail(steerBadInput, err.Error())
		return
	}
	if len(w.Answers) > 0 || w.Instructions != nil || w.History != "" {
		fail(steerBadInput, "The input of a steer may have messages of the user alone.")
		return
	}
	if err := l.fits(&w); err != nil {
		fail(steerBadInput, conversation.AsError(l.Refusal(err)).Message)
		return
	}
	ctx, cancel := context.WithTimeout(l.socket.Context, l.Times.Request)
	defer cancel()
	who := l.socket.Who
	var s *stretch
	b, err := l.response(ctx, who, r.Previous)
	if err == nil {
		s, err = l.read(ctx, who, b)
	}
	switch own := (*request.Refusal)(nil); {
	case errors.Is(err, exchange.ErrNoTask), errors.As(err, &own): // or it has not begun with the event that its id names
		fail(steerNoResponse, "There is no such response.")
		return
	case err != nil:
		l.refuse(err)
		return
	case s.rests():
		fail(steerCompleted, "The response has ended.")
		return
	case s.status == statusQueued:
		fail(steerNotActive, "The response has not begun.")
		return
	case b.row.Agent.Outside():
		fail(steerNotSupported, "The agent of the response runs outside, and takes one message after the other.")
		return
	}
	l.steering.Lock()
	defer l.steering.Unlock()
	files, err := l.upload(ctx, who, b.key, w.Files)
	var got conversation.Receipt
	if err == nil {
		got, err = l.Say(ctx, who, b.key, exchange.Said{
			Via: conversation.ViaOpenAI, ID: door.OwnID(steerMark + rand.Text()), Text: w.Said, Files: files, Mode: conversation.ModeSteer,
		})
	}
	if err != nil {
		e := l.Refusal(err)
		fail(steerCode(e.Code), e.Message)
		return
	}
	late := got.Task != b.ref.task
	if late { // the response has ended a moment ago
		if _, err := l.Tell(ctx, b.key, who.User, conversation.Withdraw{By: who.User, Message: got.Message}); err == nil {
			fail(steerCompleted, "The response has ended.")
			return
		}
	}
	l.object(func(o *protocol.Object) {
		o.Text("type", "response.steer.accepted")
		o.Uint("sequence_number", uint64(exchange.NumberAfter(got.Seq)))
		raw(o, "steer", map[string]string{"id": steerID(got.Message), "previous_response_id": r.Previous})
	})
	if late { // it is worked on by now, and that is the next response
		next, err := l.begunBy(ctx, who, b.key, got)
		if err != nil {
			l.refuse(err)
			return
		}
		l.start(func() { l.tell(next, behind(func(*response) {}, b.ref)) })
	}
}

// steerCode is the code for a steer that a session refuses.
func steerCode(code conversation.Code) string {
	switch code {
	case conversation.InboxFull:
		return steerTooMany
	case conversation.SessionIsClosed:
		return steerNotActive
	case conversation.BadRequest, conversation.TooLarge, conversation.UnsupportedMedia:
		return steerBadInput
	}
	return string(code) // the API's list is open
}
