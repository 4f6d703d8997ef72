package conform

import (
	"encoding/json"
	"fmt"
	"time"
)

// trial is one case: what goes wrong, and what a client owes nevertheless.
type trial struct {
	name, does string
	fault      func() fault
	messages   int                                 // in each round; 0 = 4
	between    func(p *proxy)                      // what happens between two rounds; nil = there is one round only
	quiet      bool                                // the client says nothing in the second round, which begins when the server has no more to do
	stays      bool                                // what happens between two rounds is no reason to lose the connection
	final      int                                 // the close code behind which the client must not come back
	asks       bool                                // a question is answered, too
	files      bool                                // another device says something with files, before each round
	renamed    bool                                // events have types that the log does not have
	reset      bool                                // the log becomes another one
	judge      func(p *proxy, heard []line) string // more that must hold; "" = it does
}

var (
	comesBack = []int{1000, 1001, 1012, 4000, 4002, 4003, 4004, 4006, 4007, 4008}
	staysAway = []int{1002, 1003, 1007, 1009, 4500, 4501, 4502, 4503, 4504}
)

const (
	boundaries  = 9                      // frames behind which a connection is cut, each once
	shut        = 3 * time.Second        // for how long nothing can be reached
	mostTries   = 20                     // in that time
	goawayWait  = 900 * time.Millisecond // what goaway asks for
	refusalWait = 400 * time.Millisecond // what a refusal asks for
)

func none() fault { return fault{} }

// trials are all cases, in the order of their rows.
func trials() []trial {
	all := []trial{
		{name: "plain", does: "nothing goes wrong; a question is answered", fault: none, asks: true},
		{name: "burst", does: "60 messages at once", fault: none, messages: 60},
		{name: "boundaries", does: fmt.Sprintf("the connection is cut behind frame 1, 2, … %d", boundaries), fault: atBoundaries, messages: 8},
		{name: "random", does: "connections are cut at random, in both directions", fault: atRandom, messages: 8},
		{name: "fragments", does: "each frame comes in small pieces", fault: func() fault { return fault{cut: true} }},
		{name: "repeats", does: "events come again", fault: repeats},
		{name: "gap", does: "events are missing", fault: gap},
		{name: "unknown", does: "events, frames and fields of a later version", fault: unknown, renamed: true},
		{name: "files", does: "another device says something with a file, once without a text; the connection is lost between", fault: none, files: true,
			between: func(p *proxy) { p.each((*link).drop) }},
		{name: "refusals", does: "each message is refused first, as rate_limited or unavailable", fault: refusals},
		{name: "overtaking", does: "every second message is refused first; no later one may overtake it", fault: overtaking},
		{name: "lost", does: "the connection ends before the server has seen the message, each message once", fault: loses},
		{name: "swallowed", does: "the server takes each message, and its answer is lost", fault: swallows},
		{name: "frozen", does: "the connection stays open and nothing comes any more", fault: none,
			between: func(p *proxy) { p.each((*link).freeze) }},
		{name: "ping", does: "the server pings, as WebSockets do, and no answer would end the connection", fault: none, stays: true,
			between: func(p *proxy) { p.each((*link).ping) }},
		{name: "upgrade", does: "a connection is accepted, and the request to upgrade it is never answered", fault: never, judge: gaveUp,
			between: func(p *proxy) { p.noted("silent"); p.each((*link).drop) }},
		{name: "synced", does: "the last event before synced is missing, and then nothing happens", fault: beforeSynced, files: true, quiet: true,
			between: func(p *proxy) { p.noted("shut"); p.each((*link).drop) }},
		{name: "goaway", does: "the server goes away and says for how long", fault: none, judge: waitedAsAsked,
			between: func(p *proxy) {
				p.each(func(l *link) {
					l.say(made(map[string]any{"type": "goaway", "data": map[string]any{"code": 1012, "reason": "the server is going away", "retry_in_ms": goawayWait.Milliseconds()}}))
					l.end(1012, "the server is going away")
				})
				p.noted("left")
			}},
		{name: "shut", does: fmt.Sprintf("for %v every connection is cut before it begins", shut), fault: closedDoor, judge: notTooOften,
			between: func(p *proxy) { p.noted("shut"); p.each((*link).drop) }},
		{name: "other log", does: "the log becomes another one, as after a restore", fault: otherLog, reset: true, judge: beganAnew,
			between: func(p *proxy) { p.noted("restored"); p.each((*link).drop) }},
	}
	for _, code := range comesBack {
		all = append(all, trial{name: fmt.Sprintf("close %d", code), does: "the client must come back", fault: none,
			between: func(p *proxy) { p.each(func(l *link) { l.end(code, "") }) }})
	}
	for _, code := range staysAway {
		all = append(all, trial{name: fmt.Sprintf("close %d", code), does: "the client must not come back, and say so", fault: none, final: code,
			between: func(p *proxy) { p.each(func(l *link) { l.end(code, "") }) }})
	}
	return all
}

// noted remembers when something happened.
func (p *proxy) noted(what string) {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.state[what] = time.Now()
}

// when it happened; the zero time = it has not.
func (p *proxy) when(what string) time.Time {
	at, _ := p.state[what].(time.Time)
	return at
}

// first is true the first time that it is asked of what. The fault's turn guards it.
func (p *proxy) first(what string) bool {
	done := p.state[what] != nil
	p.state[what] = true
	return !done
}

func atBoundaries() fault {
	return fault{down: func(l *link, m message) []message {
		l.ending = l.n <= boundaries && l.shown >= l.n-1
		return []message{m}
	}}
}

func atRandom() fault {
	cut := func(l *link, m message) []message {
		if l.n <= 8 && l.proxy.random.IntN(8) == 0 {
			l.drop()
			return nil
		}
		return []message{m}
	}
	return fault{up: cut, down: cut}
}

func repeats() fault {
	return fault{down: func(l *link, m message) []message {
		if m.seq() == 0 {
			return []message{m}
		}
		before, _ := l.proxy.state["before"].([]message)
		l.proxy.state["before"] = append(before, m)
		out := append([]message{m}, before[max(0, len(before)-l.proxy.random.IntN(4)):]...)
		return append(out, m)
	}}
}

// gap leaves events out, but not one that may be the last: nobody could miss it.
func gap() fault {
	return fault{down: func(l *link, m message) []message {
		if n := m.seq(); n > 2 && n%5 == 0 && m.text("type") != "task_status" && l.proxy.first(fmt.Sprint("missing ", n)) {
			return nil
		}
		return []message{m}
	}}
}

func unknown() fault {
	future := func(session any) []message {
		return []message{
			made(map[string]any{"type": "from_a_later_version", "data": map[string]any{"a": 1}}),
			made(map[string]any{"type": "shown_only", "session": session, "after": 0, "data": map[string]any{}}),
			made(map[string]any{"type": "ok", "re": "never asked", "data": map[string]any{}}),
		}
	}
	return fault{down: func(_ *link, m message) []message {
		if m.object == nil {
			return []message{m}
		}
		m.object["later"] = map[string]any{"type": "hello", "seq": 1}
		if m.text("type") == "step_started" {
			m.object["type"] = "from_a_later_version"
		}
		changed := m.with(map[string]any{"later": []any{nil, true, "x"}})
		if m.seq() == 0 {
			return []message{changed}
		}
		return append(future(m.object["session"]), changed)
	}}
}

func refusals() fault {
	n := 0
	return fault{up: func(l *link, m message) []message {
		if m.text("type") != "send" {
			return []message{m}
		}
		id := m.data("client_msg_id")
		if at := l.proxy.when("refused " + id); !at.IsZero() {
			if waited := time.Since(at); waited < refusalWait*9/10 {
				l.proxy.mistake("it asked again after %d ms, although retry_after_ms was %d", waited.Milliseconds(), refusalWait.Milliseconds())
			}
			return []message{m}
		}
		l.proxy.state["refused "+id] = time.Now()
		code := []string{"rate_limited", "unavailable"}[n%2]
		n++
		l.say(made(map[string]any{"type": "error", "re": m.text("id"), "error": map[string]any{
			"code": code, "message": "not now", "retryable": true, "retry_after_ms": refusalWait.Milliseconds(),
		}}))
		return nil
	}}
}

// overtaking refuses every second message at first, and lets the others pass.
func overtaking() fault {
	n := 0
	return fault{up: func(l *link, m message) []message {
		if m.text("type") != "send" || !l.proxy.first("seen "+m.data("client_msg_id")) {
			return []message{m}
		}
		if n++; n%2 == 0 {
			return []message{m}
		}
		l.say(made(map[string]any{"type": "error", "re": m.text("id"), "error": map[string]any{
			"code": "unavailable", "message": "not now", "retryable": true, "retry_after_ms": refusalWait.Milliseconds(),
		}}))
		return nil
	}}
}

// never leaves one request to upgrade without an answer.
func never() fault {
	return fault{hang: func(p *proxy, _ int) bool { return !p.when("silent").IsZero() && p.first("left without an answer") }}
}

func gaveUp(p *proxy, _ []line) string {
	if p.connections() == 2 {
		return "it waits for ever for the answer to its request to upgrade"
	}
	return ""
}

// beforeSynced lets nobody in until the server has no more to do, and then leaves out the
// last event of the first replay.
func beforeSynced() fault {
	return fault{
		open: func(p *proxy, _ int) bool { return p.when("shut").IsZero() || !p.when("idle").IsZero() },
		down: func(l *link, m message) []message {
			if l.proxy.when("idle").IsZero() {
				return []message{m}
			}
			if m.text("type") == "ok" && l.asked[m.text("re")].text("type") == "follow" && l.proxy.first("replayed") {
				l.proxy.state["head"] = m.number("head")
			}
			if head, _ := l.proxy.state["head"].(int64); m.seq() > 0 && m.seq() == head && l.proxy.first("left out") {
				return nil
			}
			return []message{m}
		},
	}
}

func loses() fault {
	return fault{up: func(l *link, m message) []message {
		if m.text("type") == "send" && l.proxy.first("lost "+m.data("client_msg_id")) {
			l.drop()
			return nil
		}
		return []message{m}
	}}
}

func swallows() fault {
	return fault{down: func(l *link, m message) []message {
		asked := l.asked[m.text("re")]
		if m.text("type") == "ok" && asked.text("type") == "send" && l.proxy.first("swallowed "+asked.data("client_msg_id")) {
			l.drop()
			return nil
		}
		return []message{m}
	}}
}

func waitedAsAsked(p *proxy, _ []line) string {
	left := p.when("left")
	for _, at := range p.tries {
		if waited := at.Sub(left); waited > 0 {
			if waited < goawayWait*9/10 {
				return fmt.Sprintf("it came back after %d ms; goaway asked for %d", waited.Milliseconds(), goawayWait.Milliseconds())
			}
			break
		}
	}
	return ""
}

func closedDoor() fault {
	return fault{open: func(p *proxy, _ int) bool {
		at := p.when("shut")
		return at.IsZero() || time.Since(at) > shut
	}}
}

func notTooOften(p *proxy, _ []line) string {
	at, n := p.when("shut"), 0
	for _, try := range p.tries {
		if since := try.Sub(at); since > 0 && since < shut {
			n++
		}
	}
	if n > mostTries {
		return fmt.Sprintf("it tried %d times in %v; at most %d is decent", n, shut, mostTries)
	}
	return ""
}

const (
	newLog  = "another-log"
	newTail = 3 // events that come behind the news
)

// beganAnew: behind a reset a client that was told to follow from the first event does so
// again, and counts neither from the place that it had in the log of before nor from the tail.
func beganAnew(p *proxy, heard []line) string {
	begins, _ := p.state["the tail begins at"].(int64)
	reset := false
	for _, l := range heard {
		switch {
		case reset && l.Seq > begins:
			return fmt.Sprintf("behind the reset it began at event %d, although the tail began at %d: as if its place of before counted", l.Seq, begins)
		case reset && l.Seq > 1:
			return fmt.Sprintf("behind the reset it began at event %d, the tail, although it was to follow from the first one", l.Seq)
		case reset && l.Seq == 1:
			return ""
		}
		reset = reset || l.Reset != ""
	}
	return ""
}

func otherLog() fault {
	return fault{
		up: func(l *link, m message) []message {
			if m.text("type") != "follow" || l.proxy.when("restored").IsZero() {
				return []message{m}
			}
			data, _ := m.object["data"].(map[string]any)
			if data["log"] == newLog {
				return []message{m.with(map[string]any{"log": nil})}
			}
			if _, since := data["since"]; !since {
				return []message{m}
			}
			if data["log"] == nil && data["since"] != json.Number("0") {
				l.proxy.mistake("it follows since an event and does not say of which log")
			}
			l.proxy.state["anew "+m.text("id")+fmt.Sprint(l.n)] = true
			return []message{m.with(map[string]any{"log": nil, "since": nil, "tail": newTail})}
		},
		down: func(l *link, m message) []message {
			if m.text("type") != "ok" || l.asked[m.text("re")].text("type") != "follow" || l.proxy.when("restored").IsZero() {
				return []message{m}
			}
			changes := map[string]any{"log": newLog}
			if l.proxy.state["anew "+m.text("re")+fmt.Sprint(l.n)] != nil {
				changes["resumed"], changes["reason"] = false, "other_log"
				l.proxy.state["the tail begins at"] = max(1, m.number("head")-newTail+1)
			}
			return []message{m.with(changes)}
		},
	}
}
