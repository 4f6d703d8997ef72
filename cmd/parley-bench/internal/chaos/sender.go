package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"parley/cmd/parley-bench/internal/load"
)

// conversation is a session and what was said in it.
type conversation struct {
	name    string // its client_session_id
	session string
	said    []said
	next    int // the first that is not acknowledged
}

// said is a message: its client_msg_id is its index. message is the server's id for it once it
// is acknowledged.
type said struct {
	order   order
	message string
}

// sender sends the messages of its conversations, a window at a time, and sends again what
// was not acknowledged.
type sender struct {
	place  *place
	random *rand.Rand
	talks  []*conversation
	sent   *atomic.Int64 // acknowledged, of all senders
}

// window is the number of messages that a sender has under way at once.
const window = 64

// run ends when every message is acknowledged.
func (s *sender) run(ctx context.Context) error {
	for {
		err := s.connected(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		var wrong *violation
		if errors.As(err, &wrong) || load.CloseCode(err) >= 4500 {
			return err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil { // the server is away
			return err
		}
	}
}

// violation is an answer that the contract does not allow.
type violation struct{ what string }

func (v *violation) Error() string { return v.what }

func violationf(format string, args ...any) error { return &violation{fmt.Sprintf(format, args...)} }

// connected sends over one connection until all is acknowledged or it is lost.
func (s *sender) connected(ctx context.Context) error {
	c, err := load.Dial(s.place.address())
	if err != nil {
		return err
	}
	defer c.Close()
	for _, t := range s.talks {
		if t.session != "" {
			continue
		}
		data, err := c.Ask("create", "", `{"client_session_id":"`+t.name+`","agent":"outside"}`)
		if err != nil {
			return err
		}
		var created struct{ Session string }
		if err := json.Unmarshal(data, &created); err != nil || created.Session == "" {
			return violationf("create's answer: %s", data)
		}
		t.session = created.Session
	}
	for ctx.Err() == nil {
		batch := s.batch()
		if len(batch) == 0 {
			return nil
		}
		if err := s.send(ctx, c, batch); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// open is a message that is not acknowledged.
type open struct {
	talk  *conversation
	index int
}

// batch is the next window: messages of different conversations, the oldest open one of each.
func (s *sender) batch() (b []open) {
	s.random.Shuffle(len(s.talks), func(i, j int) { s.talks[i], s.talks[j] = s.talks[j], s.talks[i] })
	for _, t := range s.talks {
		if t.next < len(t.said) {
			b = append(b, open{t, t.next})
		}
		if len(b) == window {
			break
		}
	}
	return b
}

func (s *sender) send(ctx context.Context, c *load.Conn, batch []open) error {
	waiting := make(map[string]open, len(batch))
	for _, o := range batch {
		m := &o.talk.said[o.index]
		id, err := c.Write("send", o.talk.session, `{"client_msg_id":"`+strconv.Itoa(o.index)+`","text":"`+m.order.text()+`"}`)
		if err != nil {
			return err
		}
		waiting[id] = o
	}
	busy := false
	for len(waiting) > 0 {
		f, err := c.Read()
		if err != nil {
			return err
		}
		o, ours := waiting[string(f.Re)]
		if !ours {
			continue // a heartbeat
		}
		delete(waiting, string(f.Re))
		if string(f.Type) != "ok" {
			var refused load.Refusal
			if err := json.Unmarshal(f.Err, &refused); err != nil || !refused.Retryable {
				return violationf("send to %s was answered %s", o.talk.session, f.Raw)
			}
			busy = true
			continue
		}
		var taken struct{ Message string }
		if err := json.Unmarshal(f.Data, &taken); err != nil || taken.Message == "" {
			return violationf("send's answer: %s", f.Raw)
		}
		o.talk.said[o.index].message = taken.Message
		o.talk.next++
		s.sent.Add(1)
	}
	if busy {
		return pause(ctx, 50*time.Millisecond)
	}
	return nil
}

// pause waits, or gives the reason why there is nothing to wait for.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
