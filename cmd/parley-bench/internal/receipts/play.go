package receipts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"

	"parley/cmd/parley-bench/internal/load"
)

// maxReplies is how many questions of a conversation get its reply. A model that goes
// on asking is left alone then.
const maxReplies = 3

// anyEvents bounds the draw of the moment "any": after so many events at most.
const anyEvents = 8

// play holds one conversation with a server, as its user.
type play struct {
	*talk
	conn     *load.Conn
	session  string
	scripted bool // the model is the scripted one: it is told what to do
	random   *rand.Rand

	history *history
	next    int // the turn that is waited for
	wait    int // events that the moment "any" lets pass
	mark    marks
	late    []int // turns whose moment did not come
	refused map[int]bool
	replies int
	waiting string // the id of the command that has not been answered
	done    func(load.Refusal)
	told    []string // client ids that were acknowledged and have not come as events yet
	pinged  int      // events that were there when the last ping went out
	calm    bool     // and nothing has come since
}

// marks are counts at the last turn, so that moments are those after it.
type marks struct{ events, asked, parts int }

// hold plays the conversation to its end, or until ctx is over.
func (p *play) hold(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { p.conn.Close() })
	defer stop()
	for {
		over, err := p.act()
		if err != nil || over {
			return err
		}
		f, err := p.conn.Read()
		if err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		switch {
		case f.Re != nil:
			if string(f.Re) != p.waiting {
				return fmt.Errorf("an answer that nobody waits for: %s", f.Raw)
			}
			var refusal load.Refusal
			if string(f.Type) != "ok" {
				if err := json.Unmarshal(f.Err, &refusal); err != nil {
					return fmt.Errorf("an error that cannot be read: %s", f.Raw)
				}
			}
			p.waiting = ""
			p.done(refusal)
			if refusal.Code != "" && !tooLate[refusal.Code] {
				return &refusal
			}
		case string(f.Type) == "goaway":
			return fmt.Errorf("the server goes away: %s", f.Raw)
		case f.Seq > 0 && string(f.Session) == p.session:
			if err := p.history.add(f.Raw); err != nil {
				return err
			}
		}
	}
}

// tooLate are refusals that a user may meet who is a moment too late.
var tooLate = map[string]bool{"conflict": true, "question_closed": true, "not_found": true}

// act does what is to be done now. It is over when all is said and nothing happens
// any more. One command is under way at a time.
func (p *play) act() (over bool, err error) {
	if p.waiting != "" {
		return false, nil
	}
	if p.calm && p.pinged != p.history.events {
		p.calm = false // something has happened since
	}
	if p.next < len(p.Turns) && p.due() {
		return false, p.turn()
	}
	p.told = slices.DeleteFunc(p.told, func(id string) bool { return p.history.byClient[id] != nil })
	if len(p.told) > 0 || !p.history.resting() {
		return false, nil
	}
	// It looks as if nothing happened any more, but the rest of a commit may be on its
	// way. It comes before the answer to a ping.
	if !p.calm {
		p.pinged = p.history.events
		return false, p.command("ping", "{}", func(load.Refusal) { p.calm = true })
	}
	if len(p.history.open) > 0 && p.replies < maxReplies && !(p.next < len(p.Turns) && p.Turns[p.next].At == atQuestion) {
		return false, p.reply()
	}
	if p.next == len(p.Turns) {
		return true, nil
	}
	if p.Turns[p.next].At != atRest && p.Turns[p.next].At != atAny {
		p.late = append(p.late, p.next)
	}
	return false, p.turn()
}

// due is true if the moment of the next turn is there.
func (p *play) due() bool {
	h := p.history
	switch p.Turns[p.next].At {
	case atStep:
		return len(h.running) > 0 && h.asked > p.mark.asked
	case atCall:
		return len(h.calls) > 0
	case atPart:
		return len(h.parts) > p.mark.parts
	case atQuestion:
		return len(h.open) > 0
	case atAny:
		return h.events >= p.mark.events+p.wait
	case atRest:
		return false // act takes it
	default:
		return true
	}
}

// turn takes the next turn.
func (p *play) turn() error {
	n := p.next
	t := &p.Turns[n]
	p.next++
	p.calm = false
	p.mark = marks{p.history.events, p.history.asked, len(p.history.parts)}
	p.wait = p.random.IntN(anyEvents + 1)
	if other := max(t.Edit, t.Withdraw); other > 0 {
		note := func(r load.Refusal) { p.refused[n] = r.Code != "" }
		m := p.message(other - 1)
		if m == nil { // it is not even accepted in what was read so far: judge it as it was
			p.refused[n] = true
			return nil
		}
		if t.Withdraw > 0 {
			return p.command("withdraw", fields("message", m.id), note)
		}
		return p.command("edit", fields("message", m.id, "text", p.text(t)), note)
	}
	message := []string{"client_msg_id", clientID(n), "text", p.text(t)}
	if p.Mode != "" {
		message = append(message, "mode", p.Mode)
	}
	return p.say("send", fields(message...), clientID(n))
}

// text is what a turn says to this server's model.
func (p *play) text(t *turn) string {
	if p.scripted && !p.Rules && t.Play != "" {
		return t.Play
	}
	return t.Say
}

func clientID(turn int) string { return "turn-" + strconv.Itoa(turn+1) }

// message is what became of a turn's message; nil if the server has not accepted it.
func (p *play) message(turn int) *message { return p.history.byClient[clientID(turn)] }

// reply answers the newest question that no turn waits for.
func (p *play) reply() error {
	q := p.history.open[len(p.history.open)-1]
	p.replies++
	p.calm = false
	text := p.Reply
	if q.approval {
		text = "no" // nobody here knows what the call would do
	}
	id := "reply-" + strconv.Itoa(p.replies)
	return p.say("answer", fields("client_msg_id", id, "question", q.id, "text", text), id)
}

// say sends a command that becomes a message.
func (p *play) say(typ, data, clientID string) error {
	return p.command(typ, data, func(r load.Refusal) {
		if r.Code == "" {
			p.told = append(p.told, clientID)
		}
	})
}

func (p *play) command(typ, data string, done func(load.Refusal)) error {
	session := p.session
	if typ == "ping" {
		session = ""
	}
	id, err := p.conn.Write(typ, session, data)
	p.waiting, p.done = id, done
	return err
}

func fields(pairs ...string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // texts
	}
	return string(b)
}

// all connects, holds the conversation, and reads what its delegates did.
func (p *play) all(ctx context.Context, s *load.Server) error {
	conn, err := load.Dial(s.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	p.conn, p.scripted = conn, conn.Model == scriptedName
	if err := p.begin(); err != nil {
		return err
	}
	err = p.hold(ctx)
	if err != nil {
		p.abandon(s)
	}
	if child := p.delegates(context.WithoutCancel(ctx), s); err == nil {
		err = child
	}
	return err
}

// scriptedName is what a server calls the model that needs to be told what to say.
const scriptedName = "scripted"

// abandon stops what a conversation that is not over has running: it may cost money.
func (p *play) abandon(s *load.Server) {
	conn, err := load.Dial(s.Addr)
	if err != nil {
		return // the server has gone
	}
	defer conn.Close()
	_, _ = conn.Ask("cancel", p.session, `{"waiting":"drop"}`) // it may have ended by itself
}

// begin opens the session and follows it.
func (p *play) begin() error {
	var create struct {
		Agent  string            `json:"agent,omitempty"`
		Policy map[string]string `json:"policy,omitempty"`
	}
	create.Agent = p.Agent
	if p.Instructions != "" {
		create.Policy = map[string]string{"instructions": p.Instructions}
	}
	wanted, err := json.Marshal(create)
	if err != nil {
		return err
	}
	data, err := p.conn.Ask("create", "", string(wanted))
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	var created struct{ Session string }
	if err := json.Unmarshal(data, &created); err != nil || created.Session == "" {
		return fmt.Errorf("create: answer %s", data)
	}
	p.session = created.Session
	if _, err := p.conn.Ask("follow", p.session, `{"since":1}`); err != nil { // session_created is not of interest
		return fmt.Errorf("follow: %w", err)
	}
	return nil
}

// delegates adds what the sub-sessions have used: a delegation's tokens cost as much.
func (p *play) delegates(ctx context.Context, s *load.Server) error {
	todo := p.history.children
	for len(todo) > 0 {
		child := newHistory()
		since := "0"
		for {
			body, err := s.Get(ctx, "/api/sessions/"+url.PathEscape(todo[0])+"/events?limit=200&since="+since)
			if err != nil {
				return err
			}
			var page struct {
				Items      []json.RawMessage
				NextCursor string `json:"next_cursor"`
			}
			if err := json.Unmarshal(body, &page); err != nil {
				return err
			}
			for _, raw := range page.Items {
				if err := child.add(raw); err != nil {
					return err
				}
			}
			if since = page.NextCursor; since == "" || len(page.Items) == 0 {
				break
			}
		}
		todo = append(todo[1:], child.children...)
		p.history.asked += child.asked
		p.history.failed += child.failed
		p.history.used.add(child.used)
	}
	return nil
}
