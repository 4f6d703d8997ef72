package actors

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/models/scripted"
	"parley/persistence/persistencetest"
)

// line is what the user says, and how long after the line before.
type line struct {
	after time.Duration
	text  string
}

var examples = []struct {
	name  string
	lines []line
	parts []string // what some part must say
	final string   // what the response must say
}{
	{
		name:  "D-18 two independent tasks",
		lines: []line{{0, "Fix the login bug"}, {50 * time.Millisecond, "What's the weather?"}},
		parts: []string{"weather"}, final: "login bug is fixed",
	},
	{
		name:  "D-17 amendment",
		lines: []line{{0, "Fix the login bug"}, {50 * time.Millisecond, "Actually use OAuth instead"}},
		final: "OAuth",
	},
	{
		name: "D-19 parallel questions",
		lines: []line{
			{0, "Set up auth"}, {50 * time.Millisecond, "Send the report to Max"}, {3 * time.Second, "JWT"},
		},
		parts: []string{"Max"}, final: "JWT",
	},
}

// D-17, D-18, D-19, with the scripted model, and N-02: with a crash at each
// commit, just before it is written and just after. The user's client does what
// any client does: it says again what was not acknowledged.
func TestWorkedExamples(t *testing.T) {
	for _, example := range examples {
		t.Run(example.name, func(t *testing.T) {
			commits, texts := runExample(t, example.lines, 0, persistencetest.BeforeWrite)
			final := texts[len(texts)-1]
			if !strings.Contains(final, example.final) {
				t.Errorf("the response is %q", final)
			}
			for _, want := range example.parts {
				if !slices.ContainsFunc(texts[:len(texts)-1], func(s string) bool { return strings.Contains(s, want) }) {
					t.Errorf("no part says %q: %q", want, texts)
				}
			}
			slices.Sort(texts)
			for n := 2; n <= commits; n++ { // the first opens the session
				for moment, name := range []string{"before", "after"} {
					t.Run(fmt.Sprintf("N-02 crash %s commit %d", name, n), func(t *testing.T) {
						_, again := runExample(t, example.lines, n, persistencetest.Moment(moment))
						slices.Sort(again)
						if !slices.Equal(again, texts) {
							t.Errorf("said %q\nwithout the crash %q", again, texts)
						}
					})
				}
			}
		})
	}
}

// runExample says the lines, with a crash at the n-th commit (0 = none), and
// returns how many commits there were and the texts of the parts in order.
func runExample(t *testing.T, lines []line, crash int, at persistencetest.Moment) (commits int, texts []string) {
	t.Helper()
	withHarness(t, func(h *harness) {
		model, err := scripted.New(scripted.Options{})
		if err != nil {
			t.Fatal(err)
		}
		h.models = map[string]conversation.Model{"": model}
		for _, name := range []conversation.AgentName{"developer", "communicator"} {
			profile := h.cfg.Rules.Agents[researcher]
			profile.Name = name
			h.cfg.Rules.Agents[name] = profile
		}
	}, func(t *testing.T, h *harness) {
		var held <-chan struct{}
		if crash > 0 {
			n := 0
			held = h.store.Hold(at, func(conversation.SessionKey, conversation.Commit) bool {
				n++
				return n == crash
			}).Held()
		}
		pass := func(d time.Duration) {
			select {
			case <-held:
				held = nil
				h.restart()
			case <-time.After(d):
			}
			synctest.Wait()
		}
		h.create(mainKey)
		for i, line := range lines {
			pass(line.after)
			for tries := 0; ; tries++ {
				a := h.tell(mainKey, say(fmt.Sprint(i), line.text))
				pass(time.Millisecond)
				if times, _, err := a.get(); times == 1 && err == nil {
					break
				}
				if tries > 10 {
					t.Fatalf("%q is never taken", line.text)
				}
			}
		}
		for range 60 {
			pass(time.Second)
			if len(h.view(mainKey).Tasks) == 0 {
				break
			}
		}
		if v := h.view(mainKey); len(v.Tasks) != 0 {
			t.Fatalf("it does not end: %+v, questions %+v, calls %+v", v.Tasks, v.Questions, v.Calls)
		}
		accepted, resolved, responses := 0, 0, 0
		for _, e := range h.stored(mainKey) {
			switch b := e.Body.(type) {
			case conversation.MessageAccepted:
				accepted++
			case conversation.MessageResolved:
				resolved++
				if b.How == conversation.ResolvedUnanswered || b.How == conversation.ResolvedFailed {
					t.Errorf("%s is %s", b.Message, b.How)
				}
			case conversation.CoverageNudge:
				t.Error("D-23: a nudge was needed")
			case conversation.PartialResponse:
				texts = append(texts, b.Text)
			case conversation.Response:
				responses++
				texts = append(texts, b.Text)
			}
		}
		if accepted != len(lines) || resolved != len(lines) || responses != 1 {
			t.Errorf("%d messages accepted, %d resolved, %d responses", accepted, resolved, responses)
		}
		commits = len(h.store.Commits())
	})
	return commits, texts
}
