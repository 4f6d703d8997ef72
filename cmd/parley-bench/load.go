package main

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

// programs are what the witnesses say, as directives of the scripted model. LINE
// stands for a line that is written nowhere else: see journal.go.
var programs = []string{
	"/say x",
	"/parts one | two | three",
	"/partial p\n/say q",
	"/stream 8 word",
	"/wait 20ms\n/say late",
	"/wait 150ms\n/say later",
	"/empty",
	"/noreply",
	"/ignore",
	"/loop",
	"/fail 500\n/say recovered",
	"/fail truncated 2\n/say recovered",
	"/cover 1 duplicate\n/say covered",
	"/tool clock {}\n/say $result",
	`/tool calculate {"expression":"6*7"}` + "\n/say $result",
	`/tool wait {"duration":"30ms"}` + "\n/say waited",
	"/ask Which one? [A/B]\n/say $reply",
	"/ask How many?\n/partial so $reply\n/say $reply",
	"/askopen Which colour? [red/blue]\n/partial meanwhile\n/say $reply",
	"/askopen What else?\n/say $reply",
	"/delegate researcher /say found\n/say done: $result",
	"/delegate researcher /ask Really? [yes/no] && /say $reply\n/say done: $result",
	"/delegate developer /wait 30ms && /say built\n/partial meanwhile\n/say $result",
	"/delegate developer /wait 50ms && /say built\n/amend 1 hurry up\n/say $result",
	"/delegate developer /delegate researcher /ask Deep? [yes/no]\n/say $result",
	"/delegate communicator /fail 500 9 && /say never\n/say $result",
	"/parallel researcher /say one || developer /wait 20ms && /say two\n/say $result",
	"/parallel researcher /ask One? [yes/no] && /say $reply || developer /ask Two? && /say $reply || researcher /wait 20ms && /say three\n/say $result",
}

// written are programs that use the tool with a side effect: at once, after an
// approval, and in a delegation.
var written = []string{
	"/tool journal_append {\"line\":\"LINE\"}\n/say $result",
	"/tool journal_append {\"line\":\"LINE\",\"hold\":\"80ms\"}\n/say $result",
	"/delegate developer /tool journal_append {\"line\":\"LINE\",\"hold\":\"80ms\"} && /say $result\n/say $result",
	"/partial p\n/tool journal_append {\"line\":\"LINE\"}\n/tool journal_append {\"line\":\"LINE\"}\n/say $result",
	"/tool approved_append {\"line\":\"LINE\"}\n/say $result",
	"/delegate developer /tool journal_append {\"line\":\"LINE\"} && /say $result\n/say $result",
	"/delegate developer /tool approved_append {\"line\":\"LINE\"} && /say $result\n/say $result",
	"/parallel developer /tool journal_append {\"line\":\"LINE\"} && /say $result || researcher /tool journal_append {\"line\":\"LINE\"} && /say $result\n/say $result",
}

// modes are what a message may ask for; "" leaves it to the session.
var modes = []string{"", "", "", "steer", "steer", "queue", "queue", "collect", "interrupt", "reject"}

// A deed is a command that a witness gives, or gives again.
type deed struct {
	kind   string // send, answer, reply, edit, withdraw, move, cancel
	client string // its client_msg_id: of send, answer and reply
	text   string
	mode   string // that it asks for; "" = the session's
	target string // the message, question or task that it is about
	data   string // as JSON
	again  bool   // it was acknowledged before
	lost   bool   // it was not, and may have been carried out
}

// deeds makes the load of one witness out of its dice and of what it knows.
type deeds struct {
	name  string
	dice  *rand.Rand
	sent  int
	lines int
}

var lineMark = regexp.MustCompile(`line-w\d+-\d+`)

func (d *deeds) line() string {
	d.lines++
	return "line-" + d.name + "-" + strconv.Itoa(d.lines)
}

func (d *deeds) program() string {
	list := programs
	if d.dice.IntN(4) == 0 {
		list = written
	}
	text := list[d.dice.IntN(len(list))]
	for strings.Contains(text, "LINE") {
		text = strings.Replace(text, "LINE", d.line(), 1)
	}
	return text
}

func (d *deeds) fill(kind, target, text string, more map[string]any) *deed {
	x := &deed{kind: kind, target: target, text: text}
	data := map[string]any{}
	for k, v := range more {
		data[k] = v
	}
	if text != "" {
		data["text"] = text
	}
	switch kind {
	case "send", "answer", "reply":
		d.sent++
		x.client = d.name + "-" + strconv.Itoa(d.sent)
		data["client_msg_id"] = x.client
	}
	switch kind {
	case "answer":
		data["question"] = target
	case "reply":
		delete(data, "text")
		data["reply"] = text
	case "edit", "withdraw", "move":
		data["message"] = target
	}
	b, _ := json.Marshal(data) // strings and booleans
	x.data = string(b)
	return x
}

// message is a new message.
func (d *deeds) message() *deed {
	more := map[string]any{}
	mode := modes[d.dice.IntN(len(modes))]
	if mode != "" {
		more["mode"] = mode
	}
	x := d.fill("send", "", d.program(), more)
	x.mode = mode
	return x
}

// crowded is how many messages may wait before a witness says nothing new.
const crowded = 25

// next is what to do, with what is known of the session.
func (d *deeds) next(l *ledger, done []*deed) *deed {
	waiting, open := l.waiting(), l.open()
	one := func() *said { return waiting[d.dice.IntN(len(waiting))] }
	full := len(waiting) > crowded
	switch roll := d.dice.IntN(100); {
	case len(open) > 0 && (roll < 35 || full):
		return d.answer(l, open[d.dice.IntN(len(open))])
	case full && roll < 60:
		return d.cancel(l, true)
	case len(waiting) > 1 && (roll < 42 || full):
		a, b := one(), one()
		if a == b {
			return d.fill("move", a.id, "", nil)
		}
		return d.fill("move", a.id, "", map[string]any{"before": b.id})
	case len(waiting) > 0 && roll < 48:
		return d.fill("edit", one().id, d.program(), nil)
	case len(waiting) > 0 && roll < 54:
		return d.fill("withdraw", one().id, "", nil)
	case roll >= 97:
		return d.cancel(l, d.dice.IntN(3) == 0)
	case roll >= 93 && len(done) > 0:
		again := *done[d.dice.IntN(len(done))]
		again.again = true
		return &again
	default:
		return d.message()
	}
}

// cancel cancels what runs, or one of the latest tasks.
func (d *deeds) cancel(l *ledger, drop bool) *deed {
	more := map[string]any{"reason": "the witness says so"}
	if len(l.works) > 0 && d.dice.IntN(2) == 0 {
		more["task"] = l.works[max(0, len(l.works)-1-d.dice.IntN(4))].id
	}
	if drop {
		more["waiting"] = "drop"
	}
	return d.fill("cancel", "", "", more)
}

// answer answers a question in one of the three ways.
func (d *deeds) answer(l *ledger, q *asked) *deed {
	text := "seven"
	if c := q.event.Choices; len(c) > 0 {
		text = c[d.dice.IntN(len(c))]
	}
	if q.event.Approval != nil {
		text = []string{"yes", "yes", "no", "approve", "decline", `{"approve":true,"args":{"line":"` + d.line() + `"}}`}[d.dice.IntN(6)]
	}
	t := l.tasks[q.task]
	switch way := d.dice.IntN(3); {
	case way == 0 && t.status == "AWAITING_RESPONSE":
		return d.fill("reply", t.id, text, nil)
	case way == 1 && (q.event.Approval == nil || text[0] != '{'):
		return d.fill("send", "", text, nil)
	default:
		return d.fill("answer", q.id, text, nil)
	}
}
