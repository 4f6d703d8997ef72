package machine

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/transcript"
)

// beside is a session with an approval that nobody answers, and so many turns
// that people had meanwhile. Then comes one more message, or at last the answer.
func beside(tb testing.TB, turns int, card, summaries, answered bool) (*Session, *transcript.Transcript, []conversation.Event, conversation.AskModel) {
	rules := testRules()
	if !summaries {
		rules.Policy.Context.Threshold = 0
	}
	s := New(conversation.SessionKey{Tenant: "default", Session: "s"}, rules)
	tr := transcript.Of(s.Key(), rules)
	var log []conversation.Event
	now := benchStart
	feed := func(c conversation.Command) {
		d := s.Decide(conversation.Inputs{At: now, Slot: true}, c)
		if d.Err != nil {
			tb.Fatal(d.Err)
		}
		s.Durable(s.Head())
		log = append(log, d.Events...)
		for _, e := range d.Events {
			tr.Add(e)
		}
		now = now.Add(time.Millisecond)
	}
	answer := func(items ...conversation.Item) {
		feed(conversation.ModelAnswered{Step: s.state.Step, Attempt: 1, Answer: conversation.ModelAnswer{Items: items}})
	}
	feed(conversation.Create{Owner: "u"})
	feed(conversation.Say{Author: "u", Text: "Clean up"})
	if card {
		answer(conversation.Item{Kind: conversation.ItemCall, ID: "k1", Tool: "rm", Args: `{"path":"old"}`})
	} else {
		answer(conversation.Item{Kind: conversation.ItemText, Text: "Done."})
	}
	for i := range turns {
		feed(conversation.Say{Author: "u", Text: fmt.Sprintf("What is the capital of country %d?", i)})
		answer(conversation.Item{Kind: conversation.ItemText, Text: fmt.Sprintf("The capital of country %d is Paris.", i)})
		if summaries {
			if c, due := tr.Compaction(s.Key(), rules, conversation.Coordinator); due {
				cmd, _ := c.Compacted(conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemText, Text: "They spoke of capitals."}}})
				feed(cmd)
			}
		}
	}
	if answered {
		feed(conversation.Answer{Author: "u", Question: "q1", Text: "no"})
	} else {
		feed(conversation.Say{Author: "u", Text: "And of France?"})
	}
	for _, e := range s.Outstanding(now) {
		if ask, ok := e.(conversation.AskModel); ok {
			return s, tr, log, ask
		}
	}
	tb.Fatal("no model call is due")
	return nil, nil, nil, conversation.AskModel{}
}

// Whatever waits for an answer, what a model is shown of a session, and what must be
// read for it again, does not grow with the turns that people have meanwhile. The
// card itself stays in view.
func TestBesideAnOpenCard(t *testing.T) {
	const turns = 1500
	for _, c := range []struct {
		name                string
		summaries, answered bool
	}{{"open", false, false}, {"open, summaries", true, false}, {"answered", false, true}, {"answered, summaries", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			s, tr, log, ask := beside(t, turns, true, c.summaries, c.answered)
			rules := testRules()
			rules.Policy.Context.Budget = 0
			again, events := rebuilt(s, rules, log)
			if most := conversation.TranscriptWindow + 50; events > most {
				t.Errorf("%d of %d events are read again, more than %d", events, len(log), most)
			}
			live, read := tr.Request(s.Key(), rules, ask), again.Request(s.Key(), rules, ask)
			for name, r := range map[string]conversation.Request{"live": live, "read again": read} {
				if n := len(r.Entries); n > 2*transcript.MaxEntries+4 {
					t.Errorf("%s: %d entries are shown", name, n)
				}
				got := lines(r.Entries)
				want := []string{"user Clean up", "assistant k1", "tool k1 " + conversation.NoResult}
				newest := "user And of France?"
				if c.answered {
					want[2], newest = "tool k1 denied: the user declined this call", fmt.Sprintf("assistant The capital of country %d is Paris.", turns-1)
				}
				if !slices.ContainsFunc(got, func(l string) bool { return l == want[1] }) || got[0] != want[0] || !slices.Contains(got, want[2]) {
					t.Errorf("%s: the card's own task is not shown: %q", name, got[:5])
				}
				if got[len(got)-1] != newest {
					t.Errorf("%s: the newest entry is %q", name, got[len(got)-1])
				}
			}
			if c.summaries && inWords(t, live) != inWords(t, read) {
				t.Errorf("live\n%s\nread again\n%s", strings.Join(lines(live.Entries), "\n"), strings.Join(lines(read.Entries), "\n"))
			}
			restored, err := Restore(s.Key(), rules, snapshot(t, s))
			if err != nil || !reflect.DeepEqual(restored.TranscriptRanges(), s.TranscriptRanges()) {
				t.Errorf("%v: a snapshot says %+v, not %+v", err, restored.TranscriptRanges(), s.TranscriptRanges())
			}
		})
	}
}

func BenchmarkBesideAnOpenCard(b *testing.B) {
	for _, turns := range []int{5000, 10000, 20000} {
		for _, c := range []struct {
			name            string
			card, summaries bool
		}{{"no card", false, false}, {"card", true, false}, {"card, summaries", true, true}} {
			b.Run(fmt.Sprintf("turns=%d/%s", turns, c.name), func(b *testing.B) {
				s, tr, log, ask := beside(b, turns, c.card, c.summaries, false)
				rules := testRules()
				var r conversation.Request
				for b.Loop() {
					r = tr.Request(s.Key(), rules, ask)
				}
				b.ReportMetric(float64(len(r.Entries)), "entries")
				_, events := rebuilt(s, rules, log)
				b.ReportMetric(float64(events), "events-to-rebuild")
			})
		}
	}
}
