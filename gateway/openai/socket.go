package openai

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"unicode/utf8"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/openai/internal/request"
	"parley/gateway/protocol"
	"parley/gateway/service"
)

// clientEvent is what a client sends over a WebSocket: the body of a request, or a steer.
type clientEvent struct {
	Type     string `json:"type"`
	StreamID string `json:"stream_id"`
	ID       string `json:"event_id"`
}

// maxStreamID bounds what each event of a response repeats.
const maxStreamID = 128

// socket serves GET /v1/responses as a WebSocket: response.create and response.steer in, the
// events of the responses out.
func (a *api) socket(s *door.Socket) {
	var running sync.WaitGroup
	lanes := make(chan struct{}, max(a.Limits.FollowsPerConnection, 1))
	for {
		b, err := s.Read()
		if err != nil {
			break
		}
		lane := &lane{api: a, socket: s}
		var e clientEvent
		if !utf8.Valid(b) || json.Unmarshal(b, &e) != nil {
			lane.refuse(request.Refuse("", "invalid_json", "A message must be a JSON object with a type, in UTF-8."))
			continue
		}
		if len(e.StreamID) > maxStreamID {
			lane.refuse(request.Refuse("stream_id", "invalid_value", "stream_id may have at most "+strconv.Itoa(maxStreamID)+" bytes."))
			continue
		}
		lane.stream = e.StreamID
		switch e.Type {
		case "response.create":
			select {
			case lanes <- struct{}{}:
			default:
				a.Metrics.Refused.WithLabelValues("follows_per_connection").Inc()
				lane.refuse(conversation.Errorf(conversation.RateLimited, "there are too many responses at once on this connection: limits.follows_per_connection"))
				continue
			}
			running.Go(func() {
				defer func() { <-lanes }()
				defer func() {
					if r := recover(); r != nil {
						a.Metrics.Panics.Inc()
						a.Log.Error("panic", "where", "socket", "panic", r, "stack", service.Stack())
						s.CloseWith(door.CloseInternal, "internal error")
					}
				}()
				lane.create(b)
			})
		case "response.steer":
			lane.steer(b)
		default:
			lane.refuse(request.Refuse("type", "unknown_event", "type must be response.create or response.steer."))
		}
	}
	running.Wait()
}

// lane is one request of a socket. The client may give it a name, which its events bear.
type lane struct {
	*api
	socket *door.Socket
	stream string
}

// send sends an event, with the lane's name.
func (l *lane) send(event []byte) bool {
	if l.stream != "" {
		o := append([]byte(nil), event[:len(event)-1]...)
		o = append(o, `,"stream_id":`...)
		o = protocol.AppendString(o, l.stream)
		event = append(o, '}')
	}
	return l.socket.Send(event)
}

func (l *lane) object(write func(o *protocol.Object)) {
	o := protocol.NewObject(nil)
	write(&o)
	l.send(o.Close())
}

// refuse tells that a request has failed before it has become a response.
func (l *lane) refuse(err error) {
	f, status, _ := failed(l.Exchange, err)
	l.object(func(o *protocol.Object) {
		o.Text("type", "error")
		o.Int("status", int64(status))
		raw(o, "error", f)
	})
}

// create is POST /v1/responses. Events that are sent need no stream slot of their own: the socket has one.
func (l *lane) create(body []byte) {
	r, w, err := request.ReadNewResponse(body)
	if err != nil {
		l.refuse(err)
		return
	}
	ctx, cancel := context.WithTimeout(l.socket.Context, l.Times.Request)
	defer cancel()
	who := l.socket.Who
	id := conversation.ClientMsgID("srv-" + rand.Text())
	b, err := l.begin(ctx, who, &w, id, false)
	if err != nil {
		l.refuse(err)
		return
	}
	f, err := l.Follow(ctx, who, b.from())
	if err != nil {
		l.refuse(err)
		return
	}
	defer f.Close()
	s := b.stretch()
	sent := true
	s.events = &events{echo: echo(r, w), send: func(event []byte) { sent = sent && l.send(event) }}
	err = follow(l.socket.Context, f, l.Times.Comment, func(n *exchange.Note) bool {
		s.add(n)
		return sent && !s.rests()
	}, func() bool { return true })
	if err != nil && l.socket.Context.Err() == nil {
		l.refuse(err)
	}
}

// steerRequest is the event response.steer: more for a response that is being made.
type steerRequest struct {
	Input    json.RawMessage `json:"input"`
	Previous string          `json:"previous_response_id"`
	ID       string          `json:"event_id"`
}

// The reasons for which a steer fails, as the API has them.
const (
	steerNoResponse = "response_not_found"
	steerBadInput   = "invalid_input"
	steerCompleted  = "response_already_completed"
	steerNotActive  = "response_not_active"
)

// steer says something to the task of a response, which reads it at its next step. It is
// accepted when it is stored; the response itself goes on with it.
func (l *lane) steer(body []byte) {
	var r steerRequest
	fail := func(code, message string) {
		l.object(func(o *protocol.Object) {
			o.Text("type", "response.steer.failed")
			o.Uint("sequence_number", 0)
			raw(o, "steer", map[string]any{"previous_response_id": r.Previous, "input": r.Input})
			raw(o, "error", map[string]string{"type": "invalid_request_error", "code": code, "message": message})
		})
	}
	if err := request.Decode(body, &r); err != nil {
		fail(steerBadInput, err.Error())
		return
	}
	w := request.Intent{Mode: conversation.ModeSteer}
	if err := request.ReadInput(r.Input, &w); err != nil {
		fail(steerBadInput, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(l.socket.Context, l.Times.Request)
	defer cancel()
	who := l.socket.Who
	ref, ok := readReference(r.Previous)
	key, err := exchange.TaskKey(who, ref.task)
	var row conversation.TaskRow
	if ok && err == nil {
		row, err = l.TaskRow(ctx, who, key, ref.task)
	}
	switch {
	case !ok || errors.Is(err, exchange.ErrNoTask):
		fail(steerNoResponse, "There is no such response.")
		return
	case err != nil:
		l.refuse(err)
		return
	case row.Status.Ended():
		fail(steerCompleted, "The response has ended.")
		return
	case row.Status == conversation.TaskQueued:
		fail(steerNotActive, "The response has not begun.")
		return
	}
	view, err := l.View(ctx, key, who.User)
	if err != nil {
		l.refuse(err)
		return
	}
	var got conversation.Receipt
	if len(w.Answers) > 0 {
		got, err = l.answer(ctx, who, view, &w)
	} else {
		files, failed := l.upload(ctx, who, key, w.Files)
		if err = failed; err == nil {
			got, err = l.Say(ctx, who, key, exchange.Said{Via: conversation.ViaOpenAI, ID: conversation.ClientMsgID("srv-" + rand.Text()), Text: w.Said, Files: files, Mode: conversation.ModeSteer})
		}
	}
	if err != nil {
		fail(steerBadInput, conversation.AsError(l.Refusal(err)).Message)
		return
	}
	steer := map[string]string{"id": "steer_" + string(got.Message), "previous_response_id": r.Previous}
	var missing []any
	for _, q := range view.Questions {
		if q.Task == ref.task && len(w.Answers) == 0 && callers(view, q.Asked.Call) {
			missing = append(missing, map[string]string{"type": "function_call_output", "call_id": callID(q.Task, q.Asked.Call)})
		}
	}
	l.object(func(o *protocol.Object) {
		if len(missing) == 0 {
			o.Text("type", "response.steer.accepted")
		} else {
			o.Text("type", "response.steer.pending")
			o.Text("reason", "waiting_for_required_input")
			raw(o, "required_input", missing)
		}
		o.Uint("sequence_number", uint64(exchange.NumberAfter(got.Seq)))
		raw(o, "steer", steer)
	})
}
