package observe

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/metrics"
)

// played observes events one by one, each durable ten milliseconds after its decision.
type played struct {
	t   *testing.T
	env *Env
	o   Observer
	now time.Time
	seq conversation.Seq
}

func (p *played) after(d time.Duration, task conversation.TaskID, bodies ...conversation.EventBody) {
	time.Sleep(d) // of the bubble's time
	p.now = time.Now()
	var events []conversation.Event
	for _, b := range bodies {
		p.seq++
		events = append(events, conversation.Event{Seq: p.seq, At: p.now, Task: task, Body: b})
	}
	time.Sleep(10 * time.Millisecond)
	p.o.Events(p.env, Session{Key: conversation.SessionKey{Tenant: "acme", Session: "s1"}, Busy: true, At: time.Now()}, events)
}

func accepted(id conversation.MessageID, d conversation.Disposition) conversation.MessageAccepted {
	return conversation.MessageAccepted{Message: id, Disposition: d, Text: "a secret text", Author: "alice"}
}

func status(trigger conversation.MessageID, old, now conversation.TaskStatus) conversation.TaskStatusChanged {
	return conversation.TaskStatusChanged{Trigger: trigger, Old: old, New: now}
}

func part(source conversation.SourceID, to conversation.MessageID) conversation.PartialResponse {
	return conversation.PartialResponse{Part: conversation.Part{Source: source, InReplyTo: to}}
}

// What waits, runs and is silent is there from the moment that it is durable, and gone with
// its end. N-14.
func TestWhatIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, registry := newEnv(metrics.Options{})
		env.Metrics.Watch(env.Pulses.Now)
		p := &played{t: t, env: env}
		want := func(waiting int, oldest float64, running int, silence float64) {
			t.Helper()
			got := env.Pulses.Now()
			if got.Waiting != waiting || !near(got.Oldest, oldest) || got.Running != running || !near(got.Silence, silence) {
				t.Errorf("%+v, want %d waiting for %v s, %d running, silent for %v s", got, waiting, oldest, running, silence)
			}
		}
		want(0, 0, 0, 0)
		p.after(0, "t1", accepted("m1", conversation.Started))
		time.Sleep(time.Second)
		want(1, 1.01, 0, 0)
		p.after(0, "t1", status("m1", conversation.TaskQueued, conversation.TaskRunning), conversation.StepStarted{Step: 1, Attempt: 1, Agent: conversation.Coordinator, Read: []conversation.MessageID{"m1"}})
		want(0, 0, 1, 0)
		p.after(time.Second, "t2", accepted("m2", conversation.Queued))
		p.after(0, "t1", accepted("m3", conversation.Joined))
		time.Sleep(3 * time.Second)
		want(2, 3.02, 1, 3)
		if n := counts(t, registry, "parley_messages_waiting")[""]; n != 2 {
			t.Errorf("a scrape tells of %v waiting messages", n)
		}
		// It waits for a person: what waits behind waits on, and nothing runs.
		p.after(0, "t1", conversation.Asked{Question: "q1", Blocking: true}, status("m1", conversation.TaskRunning, conversation.TaskAwaiting))
		time.Sleep(time.Minute)
		want(2, 63.03, 0, 0)
		p.after(0, "t1", conversation.QuestionClosed{Question: "q1", Reason: conversation.QuestionCancelled}, status("m1", conversation.TaskAwaiting, conversation.TaskCancelled),
			conversation.MessageResolved{Message: "m1", How: conversation.ResolvedCancelled})
		p.after(0, "t1", conversation.MessageResolved{Message: "m3", How: conversation.ResolvedWithdrawn})
		got := env.Pulses.Now()
		if got.Waiting != 1 || got.Running != 0 {
			t.Errorf("%+v, want one waiting", got)
		}
		p.o.Leave()
		want(0, 0, 0, 0)
		p.o.Loaded(env, conversation.SessionKey{}, stored{conversation.View{
			Agent: conversation.Coordinator,
			Tasks: []conversation.TaskView{{Task: "t2", Status: conversation.TaskRunning, Trigger: "m2", CreatedAt: time.Now().Add(-time.Minute)}},
			Inbox: []conversation.InboxView{{Message: "m2", Task: "t2", AcceptedAt: time.Now().Add(-time.Minute)}},
		}}, time.Now())
		want(1, 60, 1, 0)
	})
}

// A message's age is by the clock that has stamped it, silence by the one that nobody sets:
// also after the machine was suspended for an hour, or the clock was set.
func TestAgesByTheirClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, _ := newEnv(metrics.Options{})
		p := &played{t: t, env: env}
		p.after(0, "t1", accepted("m1", conversation.Started))
		p.after(0, "t1", status("m1", conversation.TaskQueued, conversation.TaskRunning))
		time.Sleep(time.Second)
		for ahead, oldest := range map[time.Duration]float64{0: 1.02, time.Hour: 3601.02, -time.Hour: 0} {
			got := env.Pulses.sum(time.Since(env.Pulses.base), time.Now().Add(ahead).Round(0))
			if !near(got.Oldest, oldest) || !near(got.Silence, 1) {
				t.Errorf("with a clock that goes %s ahead: %+v, want %v s and a silence of 1 s", ahead, got, oldest)
			}
		}
	})
}

// How long the author of a message waits for a sign, and for the end. N-14.
func TestTimesOfMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, registry := newEnv(metrics.Options{})
		p := &played{t: t, env: env}
		p.after(0, "t1", accepted("m1", conversation.Started), status("m1", conversation.TaskQueued, conversation.TaskRunning))
		p.after(0, "t2", accepted("m2", conversation.Queued))
		p.after(0, "t3", accepted("m3", conversation.Queued))
		p.after(0, "", accepted("m4", conversation.Joined))
		p.after(time.Second, "t1", part("m1", ""))                                                        // 1.04 s since m1
		p.after(time.Second, "t1", part("m1", "m4"))                                                      // 2.03 s since m4
		p.after(0, "t1", conversation.MessageResolved{Message: "m1", How: conversation.ResolvedAnswered}) // 2.06 s
		p.after(0, "t1", status("m1", conversation.TaskRunning, conversation.TaskComplete))               // 2.07 s
		p.after(0, "t2", conversation.Asked{Question: "q1"})                                              // 2.08 s since m2
		p.after(0, "", conversation.MessageResolved{Message: "m3", How: conversation.ResolvedDismissed})  // 2.08 s since m3
		wantNear(t, "told", sums(t, registry, "parley_message_told_seconds"), map[string]float64{"part": 1.05 + 2.03, "question": 2.08, "receipt": 2.08})
		wantNear(t, "resolved", nonZero(sums(t, registry, "parley_message_resolved_seconds")), map[string]float64{"answered": 2.07, "dismissed": 2.08})
		wantNear(t, "tasks", nonZero(sums(t, registry, "parley_task_duration_seconds")), map[string]float64{"COMPLETE": 2.08})
	})
}

// Tokens, cost, retries and stops are counted at the block of the agent that was asked; tools
// and delegations by their names, and never by what a model has made up. N-14.
func TestByBlockToolAndAgent(t *testing.T) {
	env, registry := newEnv(metrics.Options{Prices: map[string]metrics.Price{"large": {Input: 2, Output: 10, Cached: 0.5}}, TenantLabel: true, MaxTenants: 1})
	var o Observer
	play := func(tenant conversation.TenantID, task conversation.TaskID, bodies ...conversation.EventBody) {
		for _, b := range bodies {
			o.Events(env, Session{Key: conversation.SessionKey{Tenant: tenant}, Busy: true, At: time.Now()}, []conversation.Event{{Task: task, Body: b}})
		}
	}
	usage := conversation.Usage{InputTokens: 1000, OutputTokens: 100, CachedTokens: 400}
	play("acme", "t1", status("m1", 0, conversation.TaskQueued), conversation.StepStarted{Step: 1, Attempt: 1, Agent: conversation.Coordinator},
		conversation.StepStarted{Step: 1, Attempt: 2, Agent: conversation.Coordinator, Cause: conversation.CauseError},
		conversation.StepFinished{Step: 1, Outcome: conversation.StepOK, Usage: usage},
		conversation.ToolStarted{Call: "c1", Tool: "read_log"}, conversation.ToolFinished{Call: "c1", Status: conversation.CallOK, Took: 3 * time.Second},
		conversation.ToolStarted{Call: "c2", Tool: "transfer 100 to Mallory"}, conversation.ToolFinished{Call: "c2", Status: conversation.CallError},
		conversation.DelegationStarted{Delegation: "d1", Agent: "researcher", Session: "s/d1"}, conversation.DelegationFinished{Delegation: "d1", Status: conversation.CallOK, Took: 5 * time.Second},
	)
	play("acme", "t1", conversation.ToolStarted{Call: "c4", Tool: "transfer 200 to Mallory", Caller: true}, conversation.ToolStarted{Call: "c5", Tool: "read_log", Caller: true},
		conversation.ToolFinished{Call: "c4", Status: conversation.CallOK, Took: 3 * time.Hour})
	play("acme", "t1", conversation.ToolStarted{Call: "c3", Tool: "read_log"}, conversation.DelegationStarted{Delegation: "d2", Agent: "researcher", Session: "s/d2"},
		conversation.TaskCancelling{By: conversation.ByUser}, conversation.Response{}, conversation.Response{ResponseKind: conversation.ResponseLimit})
	if got := env.Pulses.Now(); got.Tools != 1 || got.Delegations != 1 {
		t.Errorf("%d tools and %d delegations run, want one each", got.Tools, got.Delegations)
	}
	play("globex", "t2", status("m2", 0, conversation.TaskQueued), conversation.StepStarted{Step: 1, Attempt: 1, Agent: "researcher"},
		conversation.StepFinished{Step: 1, Outcome: conversation.StepOK, Usage: usage, Stop: conversation.StopLength})
	play("initech", "t1", conversation.StepFinished{Step: 2, Outcome: conversation.StepOK, Usage: usage})

	for metric, want := range map[string]map[string]float64{ // labels in the order of their names
		"parley_model_tokens_total": {
			"input large acme": 1000, "output large acme": 100, "cached large acme": 400,
			"input small other": 1000, "output small other": 100, "cached small other": 400,
			"input large other": 1000, "output large other": 100, "cached large other": 400,
		},
		"parley_model_cost_total":            {"large acme": (600*2 + 400*0.5 + 100*10) / 1e6, "large other": (600*2 + 400*0.5 + 100*10) / 1e6},
		"parley_task_cancels_total":          {"user": 1},
		"parley_responses_total":             {"plain": 1, "limit": 1},
		"parley_steps_total":                 {"ok": 3},
		"parley_model_retries_total":         {"error large": 1},
		"parley_model_stops_total":           {"large end": 2, "small length": 1},
		"parley_tool_calls_total":            {"ok read_log": 1, "error unknown": 1, "ok caller": 1},
		"parley_tool_call_duration_seconds":  {"read_log": 1, "unknown": 1, "caller": 1},
		"parley_delegations_total":           {"researcher ok": 1},
		"parley_delegation_duration_seconds": {"researcher": 1},
		"parley_metrics_folded_total":        {"tenant": 2},
	} {
		if got := counts(t, registry, metric); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", metric, got, want)
		}
	}
	wantNear(t, "tools", nonZero(sums(t, registry, "parley_tool_call_duration_seconds")), map[string]float64{"read_log": 3, "caller": 3 * 3600})
	wantNear(t, "delegations", sums(t, registry, "parley_delegation_duration_seconds"), map[string]float64{"researcher": 5})
}

// A scrape of ten thousand sessions costs no more than it may.
func BenchmarkPulses(b *testing.B) {
	env, _ := newEnv(metrics.Options{})
	for range 10_000 {
		var o Observer
		o.Events(env, Session{At: time.Now()}, []conversation.Event{{Body: accepted("m1", conversation.Started)}})
	}
	for b.Loop() {
		if env.Pulses.Now().Waiting != 10_000 {
			b.Fatal("not all wait")
		}
	}
}

func near(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 }

func nonZero(all map[string]float64) map[string]float64 {
	maps.DeleteFunc(all, func(_ string, v float64) bool { return v == 0 })
	return all
}

func wantNear(t *testing.T, what string, got, want map[string]float64) {
	t.Helper()
	ok := len(got) == len(want)
	for k, v := range want {
		ok = ok && near(got[k], v)
	}
	if !ok {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
	for k := range got {
		if strings.Contains(k, "secret") {
			t.Errorf("%s: a text is a label", what)
		}
	}
}

// stored is a session that was loaded, and has open work.
type stored struct{ view conversation.View }

func (stored) Exists() bool                    { return true }
func (s stored) Summary() conversation.Summary { return conversation.Summary{Open: len(s.view.Tasks)} }
func (s stored) View() conversation.View       { return s.view }
