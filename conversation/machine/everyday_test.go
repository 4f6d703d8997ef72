package machine

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/machine/internal/receipts"
	"parley/conversation/machine/machinetest/everyday"
	"parley/conversation/transcript"
)

// Everyday conversations with models as people use them. The models see requests alone,
// as a provider does; what a text is truly about is known from the corpus.

// manner is a way in which ordinary models answer.
type manner uint8

const (
	chats     manner = iota // a text for one message, the oldest that it has not answered
	newest                  // a text for one message, the newest
	lists                   // all that it has not answered, as a list; all again when it is reminded
	together                // all that it has not answered in one text
	repeating               // its first answer, whatever it is asked
	foreign                 // as together, in another language
	misnames                // respondToUser with a name that is none, then "All done."
	obeys                   // plain text as long as nobody asks for names
	naming                  // respondToUser with a number, then silence
)

var mannerNames = [...]string{"only chats", "only chats, newest first", "lists", "answers together", "repeats itself", "answers in another language", "uses wrong names", "is obedient", "names"}

func (m manner) String() string { return mannerNames[m] }

// setting is how the messages of a conversation come.
type setting uint8

const (
	steered   setting = iota // while the first one is worked on
	queued                   // as tasks of their own, at once
	afterTool                // while the tool runs that the first one needs
	inTasks                  // each when the one before has its answer
)

var settingNames = [...]string{"steer", "queue", "after a tool", "several tasks"}

func (s setting) String() string { return settingNames[s] }

// chatter is a model of one conversation.
type chatter struct {
	talk   everyday.Talk
	manner manner
	tools  bool // it calls a tool before it answers the first message
	forced bool // its wire makes it call when it must
	again  bool // it says in other words what it says once more, or when it is asked for a message
}

// sees is what a model knows of its request.
type sees struct {
	asked    []int // messages, in order
	unsaid   []int // of them: without an answer
	said     map[int]string
	reminded bool
	tool     bool // a tool's result is there
}

func (c *chatter) look(r conversation.Request) sees {
	s := sees{said: map[int]string{}}
	entries := r.All()
	for i, e := range entries {
		switch {
		case e.Role == conversation.RoleUser && e.Message != "":
			for k, m := range c.talk.Messages {
				if m.Text == e.Text {
					s.asked = append(s.asked, k)
				}
			}
		case e.Role == conversation.RoleAssistant:
			for _, item := range e.Items {
				for _, k := range s.asked { // what was asked before it was said
					if said := saidBy(item); c.talk.Messages[k].Says(said) && s.said[k] == "" {
						s.said[k] = said
						if c.talk.Same {
							break // one text answers one message
						}
					}
				}
			}
		case e.Role == conversation.RoleTool && e.CallID == toolCall:
			s.tool = true
		}
		s.reminded = i == len(entries)-1 && len(e.Nudge) > 0
	}
	for _, k := range s.asked {
		if s.said[k] == "" {
			s.unsaid = append(s.unsaid, k)
		}
	}
	return s
}

const toolCall = "the-tool"

// answer is what the model says.
func (c *chatter) answer(r conversation.Request) (items []conversation.Item) {
	s := c.look(r)
	text := func(text string) []conversation.Item {
		return []conversation.Item{{Kind: conversation.ItemText, Text: text}}
	}
	call := func(tool string, args map[string]any) {
		raw, _ := json.Marshal(args)
		items = append(items, conversation.Item{Kind: conversation.ItemCall, ID: fmt.Sprintf("k%d", len(items)+1), Tool: tool, Args: string(raw)})
	}
	of := func(k int) string {
		switch m := c.talk.Messages[k]; {
		case c.manner == foreign:
			return m.Foreign
		case (s.said[k] != "" || s.reminded) && c.again:
			return m.Reworded
		default:
			return m.Answer
		}
	}
	number := func(k int) any {
		for _, o := range r.Open {
			if o.Text == c.talk.Messages[k].Text {
				return o.Ordinal
			}
		}
		return "?"
	}
	if must(r) && c.forced || s.reminded && (c.manner == obeys || c.manner == naming) {
		for _, o := range r.Open {
			k := slices.IndexFunc(c.talk.Messages, func(m everyday.Utterance) bool { return m.Text == o.Text })
			name := any(o.Ordinal)
			if c.manner == misnames && !must(r) { // where it must call, the schema has the names
				name = "msg_42"
			}
			switch part := quotedPart(r, c.talk, k); {
			case part > 0:
				call(conversation.ToolCover, map[string]any{"messageId": name, "as": "answered", "part": part})
			case s.said[k] != "":
				call(conversation.ToolCover, map[string]any{"messageId": name, "as": "answered"})
			case c.manner == obeys || c.manner == naming:
				call(conversation.ToolRespond, map[string]any{"inReplyTo": name, "message": of(k)})
			default:
				call(conversation.ToolCover, map[string]any{"messageId": name, "as": "open"})
			}
		}
		return items
	}
	if c.tools && !s.tool && !s.reminded {
		return []conversation.Item{{Kind: conversation.ItemCall, ID: toolCall, Tool: "clock", Args: "{}"}}
	}
	joined := func(before, between string) string {
		var all []string
		for i, k := range s.unsaid {
			all = append(all, strings.ReplaceAll(before, "#", strconv.Itoa(i+1))+of(k))
		}
		return strings.Join(all, between)
	}
	switch c.manner {
	case repeating:
		return text(c.talk.Messages[s.asked[0]].Answer)
	case misnames:
		for _, k := range s.unsaid {
			call(conversation.ToolRespond, map[string]any{"inReplyTo": "msg_42", "message": of(k)})
		}
		if len(items) == 0 {
			return text("All done.")
		}
		return items
	case naming:
		for _, k := range s.unsaid {
			call(conversation.ToolRespond, map[string]any{"inReplyTo": number(k), "message": of(k)})
		}
		return items
	case obeys:
		if len(s.unsaid) > 1 {
			for _, k := range s.unsaid {
				call(conversation.ToolRespond, map[string]any{"inReplyTo": number(k), "message": of(k)})
			}
			return items
		}
	}
	switch n := len(s.unsaid); {
	case n > 0 && c.manner == newest:
		return text(of(s.unsaid[n-1]))
	case n > 0 && c.manner == lists:
		if n == 1 {
			return text(of(s.unsaid[0]))
		}
		return text(joined("#. ", "\n"))
	case n > 0 && (c.manner == together || c.manner == foreign):
		return text(joined("", " "))
	case n > 0:
		return text(of(s.unsaid[0]))
	case s.reminded && c.manner == lists:
		s.unsaid = s.asked
		return text(joined("#. ", "\n"))
	case s.reminded && c.manner == newest:
		return text("As mentioned, " + of(s.asked[len(s.asked)-1]))
	case s.reminded && c.manner == foreign:
		return text("Das habe ich bereits beantwortet.")
	case s.reminded:
		return text("I have already answered that above. Is there anything else I can help you with?")
	case c.manner == obeys:
		return nil
	default:
		return text("Happy to help! Let me know if you need anything else.")
	}
}

// must is true for a request that takes calls alone, by programs that have such requests.
func must(r conversation.Request) bool {
	f := reflect.ValueOf(r).FieldByName("MustCall")
	return f.IsValid() && f.Bool()
}

var quotes = regexp.MustCompile(`\((\d+)\) ("(?:[^"\\]|\\.)*")`)

// quotedPart is the number of a text of a closing nudge that answers a message; 0 = none does.
// Where two messages have the same answer, the first one has the first text.
func quotedPart(r conversation.Request, talk everyday.Talk, k int) (part int) {
	entries, skip := r.All(), 0
	if talk.Same {
		for _, o := range r.Open {
			if o.Text == talk.Messages[k].Text {
				break
			}
			if i := slices.IndexFunc(talk.Messages, func(m everyday.Utterance) bool { return m.Text == o.Text }); talk.Messages[i].Answer == talk.Messages[k].Answer {
				skip++
			}
		}
	}
	for _, found := range quotes.FindAllStringSubmatch(entries[len(entries)-1].Text, -1) {
		if text, err := strconv.Unquote(found[2]); err == nil && talk.Messages[k].Says(text) {
			if skip--; skip < 0 {
				n, _ := strconv.Atoi(found[1])
				return n
			}
		}
	}
	return 0
}

// played is a conversation that has come to its end.
type played struct {
	log      []conversation.Event
	messages map[conversation.MessageID]int // to their places in the talk
}

// play sends the messages of a talk, and has the model answer, until everything rests.
func (c *chatter) play(t testing.TB, how setting, seed uint64) played {
	key, r := conversation.SessionKey{Tenant: "default", Session: "s"}, rand.New(rand.NewPCG(seed, 7))
	rules := testRules()
	s, tr := New(key, rules), transcript.New()
	p := played{messages: map[conversation.MessageID]int{}}
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	var asked []conversation.AskModel
	var tools []conversation.RunTool
	decide := func(cmd conversation.Command) conversation.Receipt {
		now = now.Add(time.Second)
		d := s.Decide(conversation.Inputs{At: now, Slot: true}, cmd)
		if d.Err != nil {
			t.Fatalf("seed %d: %s refused: %v", seed, cmd.Name(), d.Err)
		}
		p.log = append(p.log, d.Events...)
		for _, e := range d.Events {
			tr.Add(e)
		}
		for _, e := range s.Durable(s.Head()) {
			switch e := e.(type) {
			case conversation.AskModel:
				asked = append(asked, e)
			case conversation.RunTool:
				tools = append(tools, e)
			}
		}
		return d.Receipt
	}
	sent := 0
	send := func() {
		say := conversation.Say{Author: "u", Via: conversation.ViaWebSocket, ClientMsgID: conversation.ClientMsgID(fmt.Sprint("c", sent)), Text: c.talk.Messages[sent].Text}
		if how == queued {
			say.Mode = conversation.ModeQueue
		}
		p.messages[decide(say).Message] = sent
		sent++
	}
	decide(conversation.Create{Owner: "u"})
	rules.Policy.AllowedModes = []string{"queue"}
	for n := 0; ; n++ {
		if n > 100 {
			t.Fatalf("seed %d: %s, %s: the conversation does not end", seed, c.manner, how)
		}
		idle := len(asked) == 0 && len(tools) == 0
		for left := len(c.talk.Messages) - sent; left > 0 && (idle || how == queued || how == steered && len(asked) > 0 && r.IntN(3) > 0 || how == afterTool && len(tools) > 0 && r.IntN(4) > 0); left-- {
			send()
			if idle = false; how == inTasks {
				break
			}
		}
		switch {
		case len(asked) > 0:
			ask := asked[0]
			asked = asked[1:]
			request := tr.RequestWith(key, rules, s.Own(), ask)
			decide(conversation.ModelAnswered{Step: ask.Step, Attempt: ask.Attempt, Model: "test", Shown: request.Open, Answer: conversation.ModelAnswer{Items: c.answer(request)}})
		case len(tools) > 0:
			run := tools[0]
			tools = tools[1:]
			decide(conversation.ToolDone{Call: run.Call, Status: conversation.CallOK, Result: "12:00"})
		default:
			return p
		}
	}
}

// tally counts what became of the messages of everyday conversations.
type tally struct {
	talks, messages, answered, falseAnswered, falseUnanswered, other int
	undetectable                                                     int // a repeated text of one word, that may be the answer as well
	again                                                            int // answers shown in a task that had shown them, where nobody can tell: in other words, or as the answer to a message that may have the same
	twice                                                            int // answers that were shown in a task that had shown them
	odd                                                              int // texts without an answer that only a reminder has brought
	nudged                                                           int // model calls that a nudge has opened
	extra                                                            int // of them, those that brought no new answer
	why                                                              []string
}

func (a *tally) add(b tally) {
	a.talks += b.talks
	a.messages += b.messages
	a.answered += b.answered
	a.falseAnswered += b.falseAnswered
	a.falseUnanswered += b.falseUnanswered
	a.other += b.other
	a.undetectable += b.undetectable
	a.again += b.again
	a.twice += b.twice
	a.odd += b.odd
	a.extra += b.extra
	a.nudged += b.nudged
}

func (a tally) row(name string) string {
	share := func(n int) string { return fmt.Sprintf("%d (%.2f %%)", n, 100*float64(n)/float64(a.messages)) }
	return fmt.Sprintf("| %s | %d | %s | %s | %s | %d | %d | %d | %d | %.3f |", name, a.messages, share(a.messages-a.falseAnswered-a.falseUnanswered-a.undetectable),
		share(a.falseAnswered), share(a.falseUnanswered), a.undetectable, a.twice, a.again, a.odd, float64(a.extra)/float64(a.messages))
}

// speaksOf is true for a text with a word that of the messages only the one has that it
// answers: said to another one, it is a repetition. "Leonardo da Vinci." may answer both.
func (c *chatter) speaksOf(text string) bool {
	own := map[uint32]bool{}
	for _, answered := range []bool{true, false} {
		for _, m := range c.talk.Messages {
			for _, h := range receipts.Of(m.Text, receipts.MessageWords) {
				if m.Says(text) == answered {
					own[h] = answered && receipts.IsContent(h)
				}
			}
		}
	}
	return slices.ContainsFunc(receipts.Of(text, receipts.PartWords), func(h uint32) bool { return own[h] })
}

// judge compares the receipts of a conversation with what its texts say.
func (c *chatter) judge(p played) tally {
	a := tally{talks: 1}
	type part struct {
		task  conversation.TaskID
		index conversation.PartIndex
	}
	parts, shown := map[part]string{}, map[int]int{}
	inTask, said := map[string]bool{}, map[conversation.TaskID][]string{}
	nudged, reminded := map[conversation.TaskID]bool{}, map[conversation.TaskID]bool{}
	fresh := map[conversation.TaskID]bool{} // the step has brought an answer that was not there
	show := func(e conversation.Event, b conversation.Part) {
		parts[part{e.Task, b.Index}] = b.Text
		answers, known := 0, 0
		for k, m := range c.talk.Messages {
			if m.Says(b.Text) {
				if answers++; shown[k] == 0 && reminded[e.Task] && !fresh[e.Task] {
					fresh[e.Task] = true
					a.extra--
				}
				shown[k]++
				if inTask[fmt.Sprint(e.Task, k)] {
					known++
				}
				inTask[fmt.Sprint(e.Task, k)] = true
			}
		}
		same := slices.Contains(said[e.Task], b.Text)
		said[e.Task] = append(said[e.Task], b.Text)
		switch {
		case answers > 0 && answers == known && !same && !c.talk.Same && slices.ContainsFunc(c.talk.Messages, func(m everyday.Utterance) bool { return m.Reworded == b.Text }):
			a.again++
		case answers > 0 && answers == known && !c.talk.Same && strings.Contains(b.Text, " ") && !reminded[e.Task] && !c.speaksOf(b.Text):
			a.again++
		case answers > 0 && answers == known && !c.talk.Same && strings.Contains(b.Text, " "): // "Yes." may be said twice
			a.twice++
			a.why = append(a.why, fmt.Sprintf("shown twice: %q", b.Text))
		case answers == 0 && reminded[e.Task]:
			a.odd++
			a.why = append(a.why, fmt.Sprintf("odd: %q", b.Text))
		}
	}
	for _, e := range p.log {
		switch b := e.Body.(type) {
		case conversation.StepStarted:
			if reminded[e.Task], fresh[e.Task] = nudged[e.Task], false; nudged[e.Task] {
				a.nudged++
				a.extra++
			}
			nudged[e.Task] = false
		case conversation.CoverageNudge:
			nudged[e.Task] = true
		case conversation.PartialResponse:
			show(e, b.Part)
		case conversation.Response:
			if !b.Promoted {
				show(e, b.Part)
			}
		}
	}
	for _, e := range p.log {
		b, ok := e.Body.(conversation.MessageResolved)
		if !ok {
			continue
		}
		a.messages++
		k := p.messages[b.Message]
		m := c.talk.Messages[k]
		switch b.How {
		case conversation.ResolvedAnswered:
			a.answered++
			switch {
			case b.Part != nil && m.Says(parts[part{e.Task, *b.Part}]):
			case b.Part != nil && !strings.Contains(parts[part{e.Task, *b.Part}], " ") && c.manner == repeating:
				a.undetectable++
			default:
				a.falseAnswered++
				a.why = append(a.why, fmt.Sprintf("false answered %s: %q", b.Evidence, m.Text))
			}
		case conversation.ResolvedUnanswered:
			if shown[k] > 0 {
				a.falseUnanswered++
				a.why = append(a.why, fmt.Sprintf("false unanswered: %q", m.Text))
			}
		default:
			a.other++
		}
	}
	return a
}

// TestEverydayReceipts: N-15. Conversations in natural language with ordinary models: each
// receipt is true, nothing is shown twice, and nobody sees the book-keeping. With models
// that name, or do as they are told, there is no nudge at all.
func TestEverydayReceipts(t *testing.T) {
	talks, err := everyday.Talks()
	if err != nil {
		t.Fatal(err)
	}
	runs, base := *ratesRuns, uint64(time.Now().UnixNano())
	if testing.Short() {
		runs = min(runs, 1500)
	}
	if *ratesSeed != 0 {
		base = *ratesSeed
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d conversations, of %d in six languages; again: go test ./conversation/machine -run TestEverydayReceipts -receipts.conversations=%d -receipts.seed=%d\n",
		runs, len(talks), runs, base)
	forced := tabulate(t, &out, talks, true, runs, base)
	// A wire that cannot make a model call makes a difference only where the model has been
	// asked to: after a tool.
	unforced := tabulate(t, &out, talks, false, runs/5, base)
	t.Log("\n" + out.String())
	for _, all := range []tally{forced, unforced} {
		if all.falseAnswered > 0 || 100*all.falseUnanswered > all.messages || all.twice > 0 || all.odd > 0 {
			t.Errorf("%d of %d are answered and were not, %d unanswered and were answered, %d shown twice, %d odd texts",
				all.falseAnswered, all.messages, all.falseUnanswered, all.twice, all.odd)
		}
	}
	if 100*forced.extra > 15*forced.messages {
		t.Errorf("%d calls for %d messages more than one each", forced.extra, forced.messages)
	}
}

// tabulate plays so many conversations with models of each kind, and writes a row for each.
func tabulate(t *testing.T, out *strings.Builder, talks []everyday.Talk, forced bool, runs int, base uint64) (all tally) {
	var rows []manner
	for m := range manner(len(mannerNames)) {
		if forced || m != obeys && m != naming {
			rows = append(rows, m)
		}
	}
	rates, bySetting := make([]tally, len(rows)), make([]tally, len(settingNames))
	for i := range runs {
		seed := base + uint64(i)
		r := rand.New(rand.NewPCG(seed, 3))
		c := chatter{talk: talks[r.IntN(len(talks))], manner: rows[i%len(rows)], forced: forced, again: r.IntN(2) == 0}
		how := afterTool
		if forced {
			how = setting(i / len(rows) % len(settingNames))
		}
		c.tools = how == afterTool
		got := c.judge(c.play(t, how, seed))
		if c.manner == naming && got.nudged > 0 {
			got.why = append(got.why, "a model that names is nudged")
		}
		for _, why := range got.why {
			t.Logf("seed %d: %s, %s: %s", seed, c.manner, how, why)
		}
		rates[i%len(rows)].add(got)
		bySetting[how].add(got)
		all.add(got)
	}
	head := "the wire makes the model call"
	if !forced {
		head = "after a tool, the wire cannot"
	}
	fmt.Fprintf(out, "\n| %s | messages | true | false `answered` | false `unanswered` | nobody can tell | shown twice | again, nobody can tell | odd texts | extra calls a message |\n|---|---|---|---|---|---|---|---|---|---|\n", head)
	for i, m := range rows {
		out.WriteString(rates[i].row(m.String()) + "\n")
	}
	if forced {
		for how, sum := range bySetting {
			out.WriteString(sum.row("all, "+setting(how).String()) + "\n")
		}
	}
	out.WriteString(all.row("**all**") + "\n")
	return all
}
