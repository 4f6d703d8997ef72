package observe

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/metrics"
)

// Each message of a user keeps the promise of an answer or breaks it, once; what agents ask
// each other has nobody who waits.
func TestPromises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, registry := newEnv(metrics.Options{})
		p := &played{t: t, env: env}
		resolved := func(id conversation.MessageID, how conversation.Resolution) conversation.MessageResolved {
			return conversation.MessageResolved{Message: id, How: how}
		}
		want := func(when string, want map[string]float64) {
			t.Helper()
			if got := counts(t, registry, "parley_message_promises_total"); !maps.Equal(got, want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		p.after(0, "t1", accepted("m1", conversation.Started))
		p.after(0, "t2", accepted("m2", conversation.Queued))
		p.after(0, "t3", accepted("m3", conversation.Queued))
		p.after(time.Second, "t1", part("m1", "m1"))
		p.after(0, "t3", part("m3", "m3"))
		want("none has ended", map[string]float64{})
		p.after(time.Minute, "t2", part("m2", "m2"))
		want("one comes late", map[string]float64{"late": 1})
		p.after(time.Hour, "t1", resolved("m1", conversation.ResolvedAnswered))
		p.after(0, "t2", resolved("m2", conversation.ResolvedFailed))
		p.after(0, "t3", resolved("m3", conversation.ResolvedUnanswered))
		p.after(0, "t4", resolved("m4", conversation.ResolvedAnswered), resolved("m5", conversation.ResolvedFailed)) // read before a load
		want("all have ended", map[string]float64{"late": 1, "kept": 1, "failed": 2})

		delegated := Session{Key: conversation.SessionKey{Tenant: "acme", Session: "s1/d1"}, Busy: true, At: time.Now().Add(time.Hour)}
		var below Observer
		below.Events(env, delegated, []conversation.Event{
			{At: time.Now(), Task: "t1", Body: accepted("m1", conversation.Started)},
			{Task: "t1", Body: part("m1", "m1")}, {Task: "t1", Body: resolved("m1", conversation.ResolvedFailed)},
		})
		want("a delegation has ended", map[string]float64{"late": 1, "kept": 1, "failed": 2})
		if got := counts(t, registry, "parley_message_told_seconds"); !maps.Equal(got, map[string]float64{"part": 3}) {
			t.Errorf("told: %v", got)
		}
		if got := counts(t, registry, "parley_message_resolved_seconds"); !maps.Equal(got, map[string]float64{"answered": 1, "failed": 1, "unanswered": 1}) {
			t.Errorf("resolved: %v", got)
		}
	})
}

// A call that was never allowed counts at its tool, also where its question was asked before
// a load. While it waits nothing runs.
func TestCallsThatWereNotAllowed(t *testing.T) {
	env, registry := newEnv(metrics.Options{})
	var o Observer
	play := func(bodies ...conversation.EventBody) {
		for _, b := range bodies {
			o.Events(env, Session{Busy: true, At: time.Now()}, []conversation.Event{{Task: "t1", Body: b}})
		}
	}
	approval := conversation.Asked{Question: "q1", Approval: &conversation.Approval{Call: "c1", Tool: "read_log"}}
	play(status("m1", 0, conversation.TaskRunning), approval)
	if got := env.Pulses.Now(); got.Tools != 0 {
		t.Errorf("%d tools run", got.Tools)
	}
	play(conversation.ToolFinished{Call: "c1", Status: conversation.CallDenied})
	o.Leave()
	o.Loaded(env, conversation.SessionKey{}, stored{conversation.View{
		Tasks:     []conversation.TaskView{{Task: "t1", Status: conversation.TaskAwaiting, Trigger: "m1"}},
		Questions: []conversation.QuestionView{{Task: "t1", Asked: approval}},
	}}, time.Now())
	play(conversation.ToolFinished{Call: "c1", Status: conversation.CallCancelled})
	// One of a delegation is no call of this session.
	play(conversation.Asked{Question: "d1.q1", Delegation: "d1", Approval: &conversation.Approval{Call: "c7", Tool: "read_log"}})
	if len(o.tally.calls) != 0 {
		t.Errorf("%v is remembered", o.tally.calls)
	}
	if got, want := counts(t, registry, "parley_tool_calls_total"), map[string]float64{"denied read_log": 1, "cancelled read_log": 1}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
