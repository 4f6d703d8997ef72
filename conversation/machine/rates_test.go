package machine

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"parley/conversation"
)

var (
	receiptsSeed = flag.Uint64("receipts.again", 0, "play TestTrueReceipts with this seed alone, once")
	ratesRuns    = flag.Int("receipts.conversations", 10_000, "conversations with each kind of model")
	ratesSeed    = flag.Uint64("receipts.seed", 0, "of the first everyday conversation; 0 = another one each time")
)

// receiptSlips is the number of words of another message in three of ten answers.
const receiptSlips = 1

// account counts receipts that are not true, by their evidence.
type account struct {
	falseAnswered int // nobody has spoken of the message
	evidenceFalse map[string]int
}

// judgeReceipts compares the receipts of a log with what its texts were truly about. Two
// messages with the same text are one to it.
func judgeReceipts(log []conversation.Event) account {
	a := account{evidenceFalse: map[string]int{}}
	var all []conversation.MessageID
	texts := map[conversation.MessageID]string{}
	about := map[string]conversation.MessageID{} // of "task.index"
	spoken := map[string]bool{}                  // the texts of messages that were spoken of
	for _, e := range log {                      // a receipt of one commit may stand before the text that it speaks of
		switch b := e.Body.(type) {
		case conversation.MessageAccepted:
			all = append(all, b.Message)
			texts[b.Message] = b.Text
		case conversation.MessageEdited:
			texts[b.Message] = b.Text
		default:
			if p, is := partOf(e.Body); is {
				about[fmt.Sprint(e.Task, p.Index)] = isAbout(all, p.Text)
			}
		}
	}
	for _, e := range log {
		if p, is := partOf(e.Body); is {
			spoken[texts[isAbout(all, p.Text)]] = true
		}
		b, is := e.Body.(conversation.MessageResolved)
		if !is || b.How != conversation.ResolvedAnswered {
			continue
		}
		points := b.Part != nil && texts[about[fmt.Sprint(e.Task, *b.Part)]] == texts[b.Message]
		if !points {
			a.evidenceFalse[b.Evidence.String()]++
		}
		if !points && !spoken[texts[b.Message]] {
			a.falseAnswered++
		}
	}
	return a
}

// A plot is what happens in a conversation, whatever the machine makes of it: the same
// for every version of the rules.
type plot struct {
	messages []string
	at       []int   // the moments at which they are sent
	rounds   []round // of the model calls, in order; then none
}

func newPlot(seed uint64) plot {
	r := rand.New(rand.NewPCG(seed, 1))
	var p plot
	words := r.Perm(vocabulary)
	take := func() string { w := messageWord(words[0]); words = words[1:]; return w }
	topic, moment := take(), 0
	for i := range 1 + r.IntN(5) {
		said := []string{"Please"}
		for range 2 + r.IntN(3) {
			said = append(said, take())
		}
		if r.IntN(10) < 4 {
			said[1+r.IntN(len(said)-1)] = topic
		}
		p.messages = append(p.messages, strings.Join(said, " ")+".")
		if i > 0 && r.IntN(2) == 0 {
			moment += r.IntN(4)
		}
		p.at = append(p.at, moment)
	}
	for range 6 {
		p.rounds = append(p.rounds, []round{noCall, noCall, noCall, aTool, twoTools, aDelegation}[r.IntN(6)])
	}
	return p
}

// converse plays a conversation of a user who follows a plot and a model of that
// kind, to its end. It gives the log. limit is task.max_steps; 0 = as it is.
func converse(t testing.TB, k speaker, seed uint64, slips, limit int) []conversation.Event {
	p, v := newPlot(seed), voice{seed: seed, r: rand.New(rand.NewPCG(seed, 2)), slips: slips}
	key := conversation.SessionKey{Tenant: "default", Session: "s"}
	rules := testRules()
	if limit > 0 {
		rules.Policy.MaxSteps = limit
	}
	s := New(key, rules)
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	var log []conversation.Event
	var asked []conversation.AskModel
	var running []conversation.Command // how the calls end
	decide := func(c conversation.Command) {
		now = now.Add(time.Second)
		d := s.Decide(conversation.Inputs{At: now, Slot: true}, c)
		if d.Err != nil {
			t.Fatalf("seed %d, %s: %s refused: %v", seed, k, c.Name(), d.Err)
		}
		log = append(log, d.Events...)
		for _, e := range s.Durable(s.Head()) {
			switch e := e.(type) {
			case conversation.AskModel:
				asked = append(asked, e)
			case conversation.RunTool:
				running = append(running, conversation.ToolDone{Call: e.Call, Status: conversation.CallOK, Result: "done"})
			case conversation.StartDelegation:
				running = append(running, conversation.DelegationDone{Delegation: e.Call, Status: conversation.CallOK, Summary: "done"})
			}
		}
	}
	decide(conversation.Create{Owner: "u"})
	sent, answers := 0, 0
	send := func() {
		decide(conversation.Say{Author: "u", Via: conversation.ViaWebSocket, ClientMsgID: conversation.ClientMsgID(fmt.Sprint("c", sent)), Text: p.messages[sent]})
		sent++
	}
	for moment := 0; ; moment++ {
		if moment > 500 {
			t.Fatalf("seed %d, %s: the conversation does not end", seed, k)
		}
		for sent < len(p.messages) && p.at[sent] <= moment {
			send()
		}
		switch {
		case len(asked) > 0:
			ask := asked[0]
			asked = asked[1:]
			calls := noCall
			if answers < len(p.rounds) {
				calls = p.rounds[answers]
			}
			answers++
			decide(conversation.ModelAnswered{Step: ask.Step, Attempt: ask.Attempt, Model: "test", Answer: conversation.ModelAnswer{Items: k.answer(hear(log, ask), calls, v)}})
		case len(running) > 0:
			c := running[0]
			running = running[1:]
			decide(c)
		case sent < len(p.messages):
			send()
		default:
			return log
		}
	}
}
