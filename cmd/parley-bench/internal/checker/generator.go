package checker

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

// failsForGood has the model fail more often than it is asked.
const failsForGood = "/fail 500 9"

// scripts are the texts of messages, as directives of the scripted model. LINE
// stands for a line that no other message has: see journal.go.
var scripts = []string{
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
	"/delegate communicator " + failsForGood + " && /say never\n/say $result",
	"/parallel researcher /say one || developer /wait 20ms && /say two\n/say $result",
	"/parallel researcher /ask One? [yes/no] && /say $reply || developer /ask Two? && /say $reply || researcher /wait 20ms && /say three\n/say $result",
}

// sideEffectScripts use the tool with a side effect: at once, after an
// approval, and in a delegation.
var sideEffectScripts = []string{
	"/tool journal_append {\"line\":\"LINE\"}\n/say $result",
	"/tool journal_append {\"line\":\"LINE\",\"hold\":\"80ms\"}\n/say $result",
	"/delegate developer /tool journal_append {\"line\":\"LINE\",\"hold\":\"80ms\"} && /say $result\n/say $result",
	"/partial p\n/tool journal_append {\"line\":\"LINE\"}\n/tool journal_append {\"line\":\"LINE\"}\n/say $result",
	"/tool approved_append {\"line\":\"LINE\"}\n/say $result",
	"/delegate developer /tool journal_append {\"line\":\"LINE\"} && /say $result\n/say $result",
	"/delegate developer /tool approved_append {\"line\":\"LINE\"} && /say $result\n/say $result",
	"/parallel developer /tool journal_append {\"line\":\"LINE\"} && /say $result || researcher /tool journal_append {\"line\":\"LINE\"} && /say $result\n/say $result",
}

// modes are the inbox modes that a message may ask for; "" leaves it to the session.
var modes = []string{"", "", "", "steer", "steer", "queue", "queue", "collect", "interrupt", "reject"}

// operation is a command that a client sends, or sends again.
type operation struct {
	kind        string // send, answer, reply, edit, withdraw, move, cancel
	clientMsgID string // of send, answer and reply
	text        string
	mode        string // the inbox mode that it asks for; "" = the session's
	target      string // the message, question or task that it is about
	data        string // the command's "data", as JSON
	repeated    bool   // acknowledged before, and sent again
	maybeDone   bool   // sent before, without an acknowledgement: the server may have carried it out
}

// generator makes the operations of one client, from its seed and its model.
type generator struct {
	name   string
	random *rand.Rand
	sent   int
	lines  int
}

var linePattern = regexp.MustCompile(`line-w\d+-\d+`)

func (g *generator) newLine() string {
	g.lines++
	return "line-" + g.name + "-" + strconv.Itoa(g.lines)
}

func (g *generator) script() string {
	list := scripts
	if g.random.IntN(4) == 0 {
		list = sideEffectScripts
	}
	text := list[g.random.IntN(len(list))]
	for strings.Contains(text, "LINE") {
		text = strings.Replace(text, "LINE", g.newLine(), 1)
	}
	return text
}

func (g *generator) newOperation(kind, target, text string, more map[string]any) *operation {
	op := &operation{kind: kind, target: target, text: text}
	data := map[string]any{}
	for k, v := range more {
		data[k] = v
	}
	if text != "" {
		data["text"] = text
	}
	switch kind {
	case "send", "answer", "reply":
		g.sent++
		op.clientMsgID = g.name + "-" + strconv.Itoa(g.sent)
		data["client_msg_id"] = op.clientMsgID
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
	op.data = string(b)
	return op
}

// newMessage sends a message with a random script.
func (g *generator) newMessage() *operation {
	more := map[string]any{}
	mode := modes[g.random.IntN(len(modes))]
	if mode != "" {
		more["mode"] = mode
	}
	op := g.newOperation("send", "", g.script(), more)
	op.mode = mode
	return op
}

// maxWaiting is the number of messages that may wait in a session before its client sends no
// new ones.
const maxWaiting = 25

// next is the next operation, chosen for the session's state.
func (g *generator) next(md *model, done []*operation) *operation {
	waiting, open := md.waiting(), md.openQuestions()
	one := func() *message { return waiting[g.random.IntN(len(waiting))] }
	full := len(waiting) > maxWaiting
	switch roll := g.random.IntN(100); {
	case len(open) > 0 && (roll < 35 || full):
		return g.answer(md, open[g.random.IntN(len(open))])
	case full && roll < 60:
		return g.cancel(md, true)
	case len(waiting) > 1 && (roll < 42 || full):
		a, b := one(), one()
		if a == b {
			return g.newOperation("move", a.id, "", nil)
		}
		return g.newOperation("move", a.id, "", map[string]any{"before": b.id})
	case len(waiting) > 0 && roll < 48:
		return g.newOperation("edit", one().id, g.script(), nil)
	case len(waiting) > 0 && roll < 54:
		return g.newOperation("withdraw", one().id, "", nil)
	case roll >= 97:
		return g.cancel(md, g.random.IntN(3) == 0)
	case roll >= 93 && len(done) > 0:
		again := *done[g.random.IntN(len(done))]
		again.repeated = true
		return &again
	default:
		return g.newMessage()
	}
}

// cancel cancels the running task, or one of the latest.
func (g *generator) cancel(md *model, drop bool) *operation {
	more := map[string]any{"reason": "the client asks for it"}
	if len(md.taskOrder) > 0 && g.random.IntN(2) == 0 {
		more["task"] = md.taskOrder[max(0, len(md.taskOrder)-1-g.random.IntN(4))].id
	}
	if drop {
		more["waiting"] = "drop"
	}
	return g.newOperation("cancel", "", "", more)
}

// answer answers a question in one of the three ways.
func (g *generator) answer(md *model, q *question) *operation {
	text := "seven"
	if c := q.event.Choices; len(c) > 0 {
		text = c[g.random.IntN(len(c))]
	}
	if q.event.Approval != nil {
		text = []string{"yes", "yes", "no", "approve", "decline", `{"approve":true,"args":{"line":"` + g.newLine() + `"}}`}[g.random.IntN(6)]
	}
	t := md.tasks[q.task]
	switch way := g.random.IntN(3); {
	case way == 0 && t.status == "AWAITING_RESPONSE":
		return g.newOperation("reply", t.id, text, nil)
	case way == 1 && (q.event.Approval == nil || text[0] != '{'):
		return g.newOperation("send", "", text, nil)
	default:
		return g.newOperation("answer", q.id, text, nil)
	}
}
