package observe

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/metrics"
)

// The line of a task counts from its first start, with its waits for answers; of one that had
// begun before its session was loaded it says so instead.
func TestTimesOfLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, _ := newEnv(metrics.Options{})
		var log bytes.Buffer
		env.Log = slog.New(slog.NewJSONHandler(&log, nil))
		p := &played{t: t, env: env}
		ended := func(want map[string]any) {
			t.Helper()
			var line map[string]any
			if err := json.Unmarshal(log.Bytes(), &line); err != nil {
				t.Fatalf("%v in %q", err, log.String())
			}
			log.Reset()
			for key, value := range want {
				if line[key] != value {
					t.Errorf("%s is %v, want %v", key, line[key], value)
				}
			}
		}
		step := func(n conversation.StepNumber) conversation.StepStarted {
			return conversation.StepStarted{Step: n, Attempt: 1, Agent: conversation.Coordinator}
		}
		asks := func() {
			p.after(0, "t1", step(1), conversation.Asked{Question: "q1", Blocking: true}, status("m1", conversation.TaskRunning, conversation.TaskAwaiting))
			p.o.Forget() // it rests, and its transcript goes
		}
		goesOn := func() {
			p.after(time.Hour, "t1", status("m1", conversation.TaskAwaiting, conversation.TaskQueued), status("m1", conversation.TaskQueued, conversation.TaskRunning), step(2))
			p.after(time.Second, "t1", status("m1", conversation.TaskRunning, conversation.TaskComplete))
		}
		begins := func() {
			p.after(0, "t1", accepted("m1", conversation.Started), status("m1", conversation.TaskQueued, conversation.TaskRunning))
		}

		begins()
		asks()
		goesOn()
		ended(map[string]any{"took": float64(time.Hour + time.Second + 3*10*time.Millisecond), "resumed": nil, "steps": 2.0})

		begins()
		asks()
		p.o = Observer{}
		p.o.Loaded(env, conversation.SessionKey{}, stored{conversation.View{
			Tasks:     []conversation.TaskView{{Task: "t1", Status: conversation.TaskAwaiting, Trigger: "m1", Steps: 1}},
			Questions: []conversation.QuestionView{{Task: "t1", Asked: conversation.Asked{Question: "q1"}}},
		}}, time.Now())
		goesOn()
		ended(map[string]any{"took": nil, "resumed": true, "steps": 1.0})

		p.o = Observer{}
		p.o.Loaded(env, conversation.SessionKey{}, stored{conversation.View{
			Agent: "researcher", Tasks: []conversation.TaskView{{Task: "t1", Status: conversation.TaskAwaiting, Trigger: "m1", Steps: 1}},
		}}, time.Now())
		p.after(time.Second, "t1", status("m1", conversation.TaskAwaiting, conversation.TaskCancelled))
		ended(map[string]any{"agent": "researcher", "resumed": true, "status": "CANCELLED"})

		// One that never ran took no time.
		p.after(0, "t1", accepted("m1", conversation.Queued))
		p.after(time.Second, "t1", status("m1", conversation.TaskQueued, conversation.TaskCancelled))
		ended(map[string]any{"took": nil, "resumed": nil, "steps": 0.0, "status": "CANCELLED"})

		// One that had not begun before the load is whole.
		p.o = Observer{}
		p.o.Loaded(env, conversation.SessionKey{}, stored{conversation.View{
			Tasks: []conversation.TaskView{{Task: "t1", Status: conversation.TaskQueued, Trigger: "m1"}},
		}}, time.Now())
		goesOn()
		ended(map[string]any{"took": float64(time.Second + 10*time.Millisecond), "resumed": nil, "steps": 1.0})
	})
}
