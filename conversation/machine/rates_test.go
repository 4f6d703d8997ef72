package machine

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
)

var (
	receiptsSeed = flag.Uint64("receipts.again", 0, "play TestTrueReceipts with this seed alone, once")
	ratesRuns    = flag.Int("receipts.conversations", 10_000, "conversations with each kind of model")
	ratesSeed    = flag.Uint64("receipts.seed", 2_000_000, "of the first conversation")
	ratesSlips   = flag.Int("receipts.slips", 1, "words of another message in three of ten answers")
)

// TestReceiptRates prints how many receipts are true, for each kind of model: what
// `make receipts` shows. Nothing is asserted here: see TestTrueReceipts.
func TestReceiptRates(t *testing.T) {
	runs := *ratesRuns
	if testing.Short() {
		runs = min(runs, 200)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d conversations each, seeds from %d, %d words of other messages in three of ten answers\n\n", runs, *ratesSeed, *ratesSlips)
	out.WriteString("| model | messages | true receipts | false `answered` | wrong part | false `unanswered` | unanswered, no nudge | nudges/conv. | steps/conv. | evidence (false) |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, k := range speakers() {
		var sum account
		for i := range runs {
			sum.add(judgeReceipts(converse(t, k, *ratesSeed+uint64(i), *ratesSlips, 0)))
		}
		out.WriteString(sum.row(k, runs))
	}
	t.Log("\n" + out.String())
}

// account counts what became of messages.
type account struct {
	messages, truths, falseAnswered, wrongPart, falseUnanswered, unnudged, nudges, steps, other int
	evidence, evidenceFalse                                                                     map[string]int
}

func (a *account) add(b account) {
	a.messages += b.messages
	a.truths += b.truths
	a.falseAnswered += b.falseAnswered
	a.wrongPart += b.wrongPart
	a.falseUnanswered += b.falseUnanswered
	a.unnudged += b.unnudged
	a.nudges += b.nudges
	a.steps += b.steps
	a.other += b.other
	if a.evidence == nil {
		a.evidence, a.evidenceFalse = map[string]int{}, map[string]int{}
	}
	for e, n := range b.evidence {
		a.evidence[e] += n
	}
	for e, n := range b.evidenceFalse {
		a.evidenceFalse[e] += n
	}
}

func (a *account) row(k speaker, runs int) string {
	share := func(n int) string { return fmt.Sprintf("%.2f %% (%d)", 100*float64(n)/float64(a.messages), n) }
	var evidence []string
	for e := range a.evidence {
		evidence = append(evidence, fmt.Sprintf("%s %d (%d)", e, a.evidence[e], a.evidenceFalse[e]))
	}
	slices.Sort(evidence)
	return fmt.Sprintf("| %s | %d | %s | %s | %s | %s | %s | %.3f | %.2f | %s |\n", k, a.messages, share(a.truths), share(a.falseAnswered),
		share(a.wrongPart), share(a.falseUnanswered), share(a.unnudged), float64(a.nudges)/float64(runs), float64(a.steps)/float64(runs), strings.Join(evidence, ", "))
}

// judgeReceipts compares the receipts of a log with what its texts were truly about.
func judgeReceipts(log []conversation.Event) account {
	a := account{evidence: map[string]int{}, evidenceFalse: map[string]int{}}
	var all []conversation.MessageID
	parts := map[string]conversation.MessageID{} // "task.index"
	spoken, nudged := map[conversation.MessageID]bool{}, map[conversation.MessageID]bool{}
	part := func(e conversation.Event, p conversation.Part) {
		m := isAbout(all, p.Text)
		parts[fmt.Sprint(e.Task, p.Index)] = m
		if m != "" {
			spoken[m] = true
		}
	}
	// A receipt of one commit may stand before the text that it speaks of.
	for _, e := range log {
		switch b := e.Body.(type) {
		case conversation.MessageAccepted:
			all = append(all, b.Message)
		case conversation.PartialResponse:
			part(e, b.Part)
		case conversation.Response:
			part(e, b.Part)
		case conversation.StepStarted:
			if b.Attempt == 1 {
				a.steps++
			}
		case conversation.CoverageNudge:
			a.nudges++
			for _, m := range b.Messages {
				nudged[m] = true
			}
		case conversation.MessageResolved:
			a.messages++
			switch b.How {
			case conversation.ResolvedAnswered:
				e := evidenceOf(b)
				a.evidence[e]++
			case conversation.ResolvedUnanswered:
			default:
				a.other++
			}
		}
	}
	spokenBefore := map[conversation.MessageID]bool{}
	for i, e := range log {
		switch b := e.Body.(type) {
		case conversation.PartialResponse:
			spokenBefore[isAbout(all, b.Text)] = true
		case conversation.Response:
			spokenBefore[isAbout(all, b.Text)] = true
		case conversation.MessageResolved:
			switch b.How {
			case conversation.ResolvedAnswered:
				points := b.Part != nil && parts[fmt.Sprint(log[i].Task, *b.Part)] == b.Message
				switch {
				case points:
					a.truths++
				case !spokenBefore[b.Message]:
					a.falseAnswered++
					a.evidenceFalse[evidenceOf(b)]++
				default:
					a.wrongPart++
					a.evidenceFalse[evidenceOf(b)]++
				}
			case conversation.ResolvedUnanswered:
				if spoken[b.Message] {
					a.falseUnanswered++
				} else {
					a.truths++
				}
				if !nudged[b.Message] {
					a.unnudged++
				}
			}
		}
	}
	return a
}

// evidenceOf names the evidence of a receipt, in logs that have one.
func evidenceOf(b conversation.MessageResolved) string {
	if f := reflect.ValueOf(b).FieldByName("Evidence"); f.IsValid() {
		return fmt.Sprint(f.Interface())
	}
	return "none"
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
