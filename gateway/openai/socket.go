package openai

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"sync"
	"unicode/utf8"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/openai/internal/lanes"
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

// connection is what one socket has under way.
type connection struct {
	*api
	socket  *door.Socket
	lanes   chan struct{} // one for each response at once
	running sync.WaitGroup

	steering sync.Mutex // of who tells what a steer comes to: that it is accepted comes first
	told     lanes.Lanes
}

// socket serves GET /v1/responses as a WebSocket: response.create and response.steer in, the
// events of the responses out.
func (a *api) socket(s *door.Socket) {
	c := &connection{api: a, socket: s, lanes: make(chan struct{}, max(a.Limits.FollowsPerConnection, 1))}
	for {
		b, err := s.Read()
		if err != nil {
			break
		}
		lane := &lane{connection: c}
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
			lane.start(func() { lane.create(b) })
		case "response.steer":
			lane.steer(b)
		default:
			lane.refuse(request.Refuse("type", "unknown_event", "type must be response.create or response.steer."))
		}
	}
	c.running.Wait()
}

// start does something that tells a response, in a goroutine of its own. Where there are too many
// already, the client is told that instead.
func (l *lane) start(do func()) {
	c := l.connection
	select {
	case c.lanes <- struct{}{}:
	default:
		c.Metrics.Refused.WithLabelValues("follows_per_connection").Inc()
		l.refuse(conversation.Errorf(conversation.RateLimited, "there are too many responses at once on this connection: limits.follows_per_connection"))
		return
	}
	c.running.Go(func() {
		defer func() { <-c.lanes }()
		defer func() {
			if r := recover(); r != nil {
				c.Metrics.Panics.Inc()
				c.Log.Error("panic", "where", "socket", "panic", r, "stack", service.Stack())
				c.socket.CloseWith(door.CloseInternal, "internal error")
			}
		}()
		do()
	})
}

// lane is one request of a socket. The client may give it a name, which its events bear.
type lane struct {
	*connection
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
	id := conversation.ClientMsgID("srv-" + rand.Text())
	b, err := l.begin(ctx, l.socket.Who, &w, id, false)
	if err != nil {
		l.refuse(err)
		return
	}
	l.tell(b, echo(r, w))
}

// tell tells a response, and those behind it that it was steered to.
func (l *lane) tell(b begun, echo func(*response)) {
	for {
		leave := l.told.Enter(string(b.ref.task))
		t := &telling{lane: l, s: b.stretch()}
		t.begin(echo)
		err := t.follow(b)
		t.forget()
		goesOn := err == nil && t.left != "" && l.told.Claim(string(b.ref.task), reference{task: t.left}.id())
		leave()
		if goesOn {
			ctx, cancel := context.WithTimeout(l.socket.Context, l.Times.Request)
			b, err = l.begun(ctx, l.socket.Who, b.key, reference{task: t.left})
			cancel()
			echo = behind(t.echo, t.s.ref)
			if err == nil {
				continue
			}
		}
		if err != nil && l.socket.Context.Err() == nil {
			l.refuse(err)
		}
		return
	}
}

// behind is the echo of a response that goes on behind another one, with its settings.
func behind(echo func(*response), before reference) func(*response) {
	return func(o *response) {
		echo(o)
		o.Previous = pointer(before.id())
	}
}
