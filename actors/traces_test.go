package actors

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/metrics"
	"parley/metrics/tracing"
	"parley/metrics/tracing/tracingtest"
)

// withTraces is withHarness with a collector, which is level when seen returns.
func withTraces(t *testing.T, change func(*harness, *tracing.Setup), f func(t *testing.T, h *harness, seen func() *tracingtest.Receiver)) {
	t.Helper()
	to := &tracingtest.Receiver{}
	withHarness(t, func(h *harness) {
		client := to.Pipe(h.t)
		o := tracing.Setup{URL: "http://collector:4318/v1/traces", Sample: 1, Metrics: metrics.NewTraces(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler), Client: client}
		if change != nil {
			change(h, &o)
		}
		h.traced = func() *tracing.Tracer {
			tracer, err := tracing.Open(context.Background(), o)
			if err != nil {
				h.t.Fatal(err)
			}
			return tracer
		}
	}, func(t *testing.T, h *harness) {
		f(t, h, func() *tracingtest.Receiver {
			synctest.Wait()
			time.Sleep(5 * time.Second) // a batch waits for more, this long at most
			synctest.Wait()
			return to
		})
	})
}

// tree compares what has come with lines.
func tree(t *testing.T, to *tracingtest.Receiver, want string) {
	t.Helper()
	want = strings.TrimPrefix(want, "\n")
	if got := to.Tree("store commit"); got != want {
		t.Errorf("spans:\n%swant:\n%s", got, want)
	}
}

// named are the spans of a name, in the order of their start.
func named(to *tracingtest.Receiver, name string) (list []tracingtest.Span) {
	for _, s := range to.Spans() {
		if s.Name == name {
			list = append(list, s)
		}
	}
	return list
}

// exemplar is the trace that a histogram names.
func exemplar(t *testing.T, h *harness, metric string) string {
	t.Helper()
	families, err := h.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, bucket := range m.GetHistogram().GetBucket() {
				for _, label := range bucket.GetExemplar().GetLabel() {
					return label.GetValue()
				}
			}
		}
	}
	return ""
}

// traces are the different traces of spans.
func traces(to *tracingtest.Receiver) map[string]bool {
	all := map[string]bool{}
	for _, s := range to.Spans() {
		all[s.Trace] = true
	}
	return all
}

// A turn is a task with the message that it has read, its step, and the call of the model.
func TestTracedTurn(t *testing.T) {
	withTraces(t, nil, func(t *testing.T, h *harness, seen func() *tracingtest.Receiver) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		call := h.call()
		time.Sleep(2 * time.Second)
		call.Answer(actorstest.Text("hi"))
		to := seen()
		tree(t, to, `
task coordinator
  message
  step
    chat fake
`)
		if len(traces(to)) != 1 {
			t.Errorf("%d traces", len(traces(to)))
		}
		task, message, chat := named(to, "task coordinator")[0], named(to, "message")[0], named(to, "chat fake")[0]
		if took := chat.End.Sub(chat.Start); took != 2*time.Second {
			t.Errorf("the model took %s", took)
		}
		for key, want := range map[string]string{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "fake", "gen_ai.request.model": "fake", "gen_ai.response.finish_reasons": "stop",
			"gen_ai.conversation.id": string(mainKey.Session), "parley.outcome": "ok", "parley.attempt": "1",
		} {
			if chat.Attrs[key] != want {
				t.Errorf("%s is %q, want %q", key, chat.Attrs[key], want)
			}
		}
		if task.Attrs["parley.task.status"] != "COMPLETE" || task.Attrs["parley.steps"] != "1" || task.Attrs["parley.parts"] != "1" {
			t.Errorf("%v", task.Attrs)
		}
		if !slices.Contains(task.Links, message.Trace+"/"+message.ID) || !slices.Contains(message.Links, task.Trace+"/"+task.ID) {
			t.Errorf("the task has the links %v, the message %v", task.Links, message.Links)
		}
		commits := named(to, "store commit")
		if len(commits) != 2 || commits[0].Parent != task.ID || commits[0].Attrs["parley.commit.events"] != "3" {
			t.Errorf("commits: %+v", commits)
		}
		if call.Request.TraceParent != "00-"+chat.Trace+"-"+chat.ID+"-01" {
			t.Errorf("the model is told %q", call.Request.TraceParent)
		}
		for _, name := range []string{"parley_first_part_duration_seconds", "parley_model_call_duration_seconds", "parley_message_ack_duration_seconds"} {
			if got := exemplar(t, h, name); got != task.Trace {
				t.Errorf("%s has an exemplar of the trace %q, not of %s", name, got, task.Trace)
			}
		}
	})
}

// A client's own trace is the parent of its message, and the task has a link into it.
func TestTracedForClient(t *testing.T) {
	withTraces(t, nil, func(t *testing.T, h *harness, seen func() *tracingtest.Receiver) {
		h.create(mainKey)
		first := say("a", "hello")
		first.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		h.ok(h.tell(mainKey, first))
		h.reply(actorstest.Text("hi"))
		to := seen()
		task, message := named(to, "task coordinator")[0], named(to, "message")[0]
		if message.Trace != "0af7651916cd43dd8448eb211c80319c" || message.Parent != "b7ad6b7169203331" {
			t.Errorf("the message is in %s below %s", message.Trace, message.Parent)
		}
		if !slices.Contains(task.Links, message.Trace+"/"+message.ID) || !slices.Contains(message.Links, task.Trace+"/"+task.ID) || task.Trace == message.Trace {
			t.Errorf("the task has the links %v, the message %v", task.Links, message.Links)
		}
	})
}

// A tool call is a span with its name and the id of the call; one that fails says so.
func TestTracedTools(t *testing.T) {
	var parents []string
	tool := &actorstest.Tool{Is: conversation.ToolSpec{Name: "hammer"}, Do: func(ctx context.Context, c conversation.ToolCall) (string, error) {
		parents = append(parents, c.TraceParent)
		if len(parents) == 1 {
			time.Sleep(3 * time.Second)
			return "hit", nil
		}
		return "", context.DeadlineExceeded
	}}
	withTraces(t, func(h *harness, _ *tracing.Setup) { h.tools = map[string]conversation.Tool{"hammer": tool} }, func(t *testing.T, h *harness, seen func() *tracingtest.Receiver) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hit it")))
		h.reply(actorstest.Use("x", "hammer", `{}`))
		time.Sleep(4 * time.Second)
		h.reply(actorstest.Use("y", "hammer", `{}`))
		h.reply(actorstest.Text("done"))
		to := seen()
		tree(t, to, `
task coordinator
  message
  step
    chat fake
  execute_tool hammer
  step
    chat fake
  execute_tool hammer*
  step
    chat fake
`)
		calls := named(to, "execute_tool hammer")
		if took := calls[0].End.Sub(calls[0].Start); took != 3*time.Second || calls[0].Attrs["gen_ai.tool.call.id"] != "c1" || calls[0].Attrs["gen_ai.tool.name"] != "hammer" {
			t.Errorf("it took %s: %v", took, calls[0].Attrs)
		}
		if calls[1].Attrs["error.type"] != "error" || calls[1].Error != "error" {
			t.Errorf("%+v", calls[1])
		}
		if len(parents) != 2 || parents[0] != "00-"+calls[0].Trace+"-"+calls[0].ID+"-01" {
			t.Errorf("the tool is told %q", parents)
		}
	})
}

// A name that a model has made up costs no span of the others: one string that is not UTF-8
// would have the whole batch refused.
func TestTracedMadeUpTool(t *testing.T) {
	withTraces(t, nil, func(t *testing.T, h *harness, seen func() *tracingtest.Receiver) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hit it")))
		for _, answer := range []conversation.Item{actorstest.Use("x", "h"+strings.Repeat("ä", 40), `{}`), actorstest.Use("y", "h\xff", `{}`), actorstest.Text("done")} {
			time.Sleep(time.Second)
			h.reply(answer)
		}
		tree(t, seen(), `
task coordinator
  message
  step
    chat fake
  execute_tool h`+strings.Repeat("ä", 31)+`*
  step
    chat fake
  execute_tool h`+"\uFFFD"+`*
  step
    chat fake
`)
	})
}

// The tasks of delegations, and of delegations of those, are in the trace of the task
// that a user waits for.
func TestTracedDelegations(t *testing.T) {
	withTraces(t, nil, func(t *testing.T, h *harness, seen func() *tracingtest.Receiver) {
		h.delegated()
		h.reply(actorstest.Use("y", conversation.ToolDelegate, `{"agent":"researcher","objective":"look deeper"}`))
		for _, answer := range []string{"deep", "found", "done"} {
			time.Sleep(time.Second)
			h.reply(actorstest.Text(answer))
		}
		to := seen()
		tree(t, to, deep)
		if len(traces(to)) != 1 {
			t.Errorf("%d traces", len(traces(to)))
		}
		if n := len(named(to, "invoke_agent researcher")); n != 2 {
			t.Errorf("%d delegations", n)
		}
	})
}

const deep = `
task coordinator
  message
  step
    chat fake
  invoke_agent researcher
    task researcher
      message
      step
        chat fake
      invoke_agent researcher
        task researcher
          message
          step
            chat fake
      step
        chat fake
  step
    chat fake
`

// N-01: after a kill in the middle the spans that are sent then belong to the same trace
// as those before, also in sub-sessions; what began before says that its start was not seen.
func TestTracedAcrossKill(t *testing.T) {
	withTraces(t, nil, func(t *testing.T, h *harness, seen func() *tracingtest.Receiver) {
		h.delegated()
		h.reply(actorstest.Use("y", conversation.ToolDelegate, `{"agent":"researcher","objective":"look deeper"}`))
		h.call()
		before := len(seen().Spans())
		if before == 0 {
			t.Fatal("nothing was sent before the kill")
		}
		h.restart()
		time.Sleep(time.Minute)
		for _, answer := range []string{"deep", "found", "done"} {
			time.Sleep(time.Second)
			h.reply(actorstest.Text(answer))
		}
		to := seen()
		if len(traces(to)) != 1 {
			t.Errorf("%d traces", len(traces(to)))
		}
		tree(t, to, `
task coordinator+
  message
  step
    chat fake
  invoke_agent researcher+
    task researcher+
      message
      step
        chat fake
      invoke_agent researcher+
        task researcher+
          message
          step+
            chat fake*+
            chat fake
      step
        chat fake
  step
    chat fake
`)
		ids := map[string]int{}
		for _, s := range to.Spans() {
			if ids[s.ID]++; ids[s.ID] > 1 {
				t.Errorf("%s was sent twice", s.Name)
			}
		}
	})
}

// D-06: a message that joins a running task is a link of it.
func TestTracedAmendment(t *testing.T) {
	withTraces(t, func(h *harness, _ *tracing.Setup) { h.cfg.Rules.Policy.MaxNudges = 0 }, func(t *testing.T, h *harness, seen func() *tracingtest.Receiver) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		call := h.call()
		time.Sleep(time.Second)
		more := say("b", "and more")
		more.Mode = conversation.ModeSteer
		h.ok(h.tell(mainKey, more))
		time.Sleep(time.Second)
		call.Answer(actorstest.Use("x", "nothing", `{}`))
		h.reply(actorstest.Text("hi"))
		to := seen()
		task, messages := named(to, "task coordinator"), named(to, "message")
		if len(task) != 1 || len(messages) != 2 || len(task[0].Links) != 2 {
			t.Fatalf("%s", to.Tree())
		}
		for _, m := range messages {
			if !slices.Contains(task[0].Links, m.Trace+"/"+m.ID) {
				t.Errorf("no link to %v among %v", m, task[0].Links)
			}
		}
		if took := messages[1].End.Sub(messages[1].Start); took != time.Second || messages[1].Attrs["parley.message.mode"] != "steer" {
			t.Errorf("the second waited %s: %v", took, messages[1].Attrs)
		}
	})
}

// Each attempt is a call of the model; those that have failed say why, and the step counts them.
func TestTracedRetry(t *testing.T) {
	withTraces(t, nil, func(t *testing.T, h *harness, seen func() *tracingtest.Receiver) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		h.call().Fail(&conversation.ModelError{Failure: conversation.Failure{Code: conversation.Unavailable, Message: "marker-of-failure"}})
		time.Sleep(time.Minute)
		h.reply(actorstest.Text("hi"))
		to := seen()
		tree(t, to, `
task coordinator
  message
  step
    chat fake*
    chat fake
`)
		if first := named(to, "chat fake")[0]; first.Error != "unavailable" || first.Attrs["error.type"] != "unavailable" {
			t.Errorf("%+v", first)
		}
		if step := named(to, "step")[0]; step.Attrs["parley.attempts"] != "2" {
			t.Errorf("%v", step.Attrs)
		}
		if to.Holds("marker-of-failure") {
			t.Error("a failure's text is in a span")
		}
	})
}

// A task that fails has a status that says so; one that a user cancels has not failed.
func TestTracedEnds(t *testing.T) {
	withTraces(t, nil, func(t *testing.T, h *harness, seen func() *tracingtest.Receiver) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		h.call().Fail(&conversation.ModelError{Failure: conversation.Failure{Code: conversation.Forbidden}, Permanent: true})
		time.Sleep(time.Second)
		h.ok(h.tell(mainKey, say("b", "again")))
		h.call()
		h.ok(h.tell(mainKey, conversation.Cancel{By: conversation.ByUser}))
		to := seen()
		tree(t, to, `
task coordinator*
  message
  step*
    chat fake*
task coordinator
  message
  step
    chat fake
`)
		tasks := named(to, "task coordinator")
		if tasks[0].Error != "forbidden" || tasks[1].Attrs["parley.task.status"] != "CANCELLED" {
			t.Errorf("%+v", tasks)
		}
	})
}

// N-14: no text of a conversation leaves by traces, unless that is configured; then it is
// an excerpt.
func TestTracedContent(t *testing.T) {
	for _, content := range []bool{false, true} {
		tool := &actorstest.Tool{Is: conversation.ToolSpec{Name: "hammer"}, Do: func(context.Context, conversation.ToolCall) (string, error) { return "marker-result", nil }}
		withTraces(t, func(h *harness, o *tracing.Setup) {
			h.tools, o.Content = map[string]conversation.Tool{"hammer": tool}, content
		}, func(t *testing.T, h *harness, seen func() *tracingtest.Receiver) {
			h.createAs(mainKey, conversation.Create{Owner: ada, Agent: conversation.Coordinator, Title: "marker-title"})
			first := say("a", "marker-text "+strings.Repeat("é", 4000)+" marker-beyond")
			first.AuthorName = "marker-name"
			h.ok(h.tell(mainKey, first))
			h.reply(actorstest.Text("marker-part"), actorstest.Use("x", "hammer", `{"a":"marker-args"}`))
			h.reply(actorstest.Use("y", conversation.ToolDelegate, `{"agent":"researcher","objective":"marker-objective"}`))
			h.reply(actorstest.Text("marker-found"))
			h.reply(actorstest.Text("marker-answer"))
			to := seen()
			if n := len(named(to, "task coordinator")); n != 1 {
				t.Fatalf("%d tasks:\n%s", n, to.Tree())
			}
			for _, text := range []string{"marker-text", "marker-args", "marker-result", "marker-objective", "marker-found", "marker-answer"} {
				if to.Holds(text) != content {
					t.Errorf("content %t: %s", content, text)
				}
			}
			for _, never := range []string{"marker-beyond", "marker-name", "marker-title"} {
				if to.Holds(never) {
					t.Errorf("content %t: %s is sent", content, never)
				}
			}
		})
	}
}

// What is sampled out sends nothing; the choice is the trace's, so it is the same after a kill.
func TestTracedSample(t *testing.T) {
	withTraces(t, func(_ *harness, o *tracing.Setup) { o.Sample = 0 }, func(t *testing.T, h *harness, seen func() *tracingtest.Receiver) {
		h.delegated()
		h.restart()
		time.Sleep(time.Minute)
		h.reply(actorstest.Text("found"))
		h.reply(actorstest.Text("done"))
		if to := seen(); len(to.Spans()) != 0 || to.Requests() != 0 {
			t.Errorf("%d requests:\n%s", to.Requests(), to.Tree())
		}
	})
}
