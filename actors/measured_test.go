package actors

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
)

// gauge is the value of a metric without labels.
func (h *harness) gauge(name string) float64 {
	h.t.Helper()
	families, err := h.metrics.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	h.t.Fatalf("there is no metric %s", name)
	return 0
}

// A message that waits is still told of after the process has started again, with the age
// that it has; and not any more when a step has read it. N-14.
func TestWaitingMessageIsToldOfAfterARestart(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "one")))
		second := say("b", "two")
		second.Mode = conversation.ModeQueue
		h.ok(h.tell(mainKey, second))
		accepted := time.Now()
		time.Sleep(10 * time.Second)
		want := func(when string, waiting, running, oldest, silence float64) {
			t.Helper()
			synctest.Wait()
			for name, least := range map[string]float64{"parley_messages_waiting": waiting, "parley_tasks_running": running, "parley_oldest_waiting_message_seconds": oldest, "parley_task_longest_silence_seconds": silence} {
				if got := h.gauge(name); got < least || got > least+5 || least == 0 && got != 0 || strings.HasPrefix(name, "parley_messages") && got != least {
					t.Errorf("%s: %s is %v, want %v", when, name, got, least)
				}
			}
		}
		want("before", 1, 1, 10, 10)
		h.restart()
		time.Sleep(time.Second) // the scan finds it
		want("after the restart", 1, 1, time.Since(accepted).Seconds(), 1)
		h.call().Answer(actorstest.Text("done"))
		synctest.Wait()
		want("when it was read", 0, 1, 0, 0)
		h.reply(actorstest.Text("done, too"))
		want("at the end", 0, 0, 0, 0)
		h.assertComplete(mainKey)
	})
}

// The words of the core are the labels' values that docs/METRICS.md has: a new word is a new
// series, and dashboards know it. N-14.
func TestLabelsAreTheWordsOfTheCore(t *testing.T) {
	text, err := os.ReadFile("../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := func(metric, label string) []string {
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "| `"+metric+"` ") {
				continue
			}
			_, rest, _ := strings.Cut(line, "`"+label+"` (")
			values, _, _ := strings.Cut(rest, ")")
			return strings.Split(values, ", ")
		}
		t.Fatalf("docs/METRICS.md has no %s", metric)
		return nil
	}
	var commands []string
	for _, c := range conversation.Commands() {
		commands = append(commands, c.Name())
	}
	words := func(word func(int) string) (list []string) {
		for i := 1; !strings.HasPrefix(word(i), "unknown("); i++ {
			list = append(list, word(i))
		}
		return list
	}
	for _, c := range []struct {
		metric, label string
		words         []string
	}{
		{"parley_commands_total", "type", append(commands, "view", "wake")},
		{"parley_messages_resolved_total", "how", words(func(i int) string { return conversation.Resolution(i).String() })},
		{"parley_messages_accepted_total", "disposition", words(func(i int) string { return conversation.Disposition(i).String() })},
		{"parley_message_modes_total", "mode", append(words(func(i int) string { return conversation.Mode(i).String() }), "default")},
		{"parley_task_status_total", "status", words(func(i int) string { return conversation.TaskStatus(i).String() })},
		{"parley_delegations_total", "outcome", words(func(i int) string { return conversation.CallStatus(i).String() })},
		{"parley_decisions_total", "decision", words(func(i int) string { return conversation.Decision(i).String() })},
		{"parley_model_retries_total", "cause", words(func(i int) string { return conversation.Cause(i).String() })},
		{"parley_task_cancels_total", "by", words(func(i int) string { return conversation.CancelBy(i).String() })},
		{"parley_steps_total", "outcome", words(func(i int) string { return conversation.StepOutcome(i).String() })},
	} {
		got := documented(c.metric, c.label)
		slices.Sort(got)
		slices.Sort(c.words)
		if !slices.Equal(got, c.words) {
			t.Errorf("%s: the label %s is documented as %v, the core's words are %v", c.metric, c.label, got, c.words)
		}
	}
}
