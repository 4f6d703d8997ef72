package tracing

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"parley/conversation"
	"parley/metrics"
	"parley/metrics/tracing/tracingtest"
)

var key = conversation.SessionKey{Tenant: "acme", Session: "aaaaaaaaaaaaaaaa"}

func label(conversation.AgentName) string { return "openai/gpt-9" }

// turn are the events of a simple turn.
func turn(n int) []conversation.Event {
	id := fmt.Sprint(n, "-", key.Session)
	task, message := conversation.TaskID("t"+id), conversation.MessageID("m"+id)
	at := time.Unix(int64(1_800_000_000+n), 0)
	return []conversation.Event{
		{Seq: 1, At: at, Task: task, Body: conversation.MessageAccepted{Message: message, Disposition: conversation.Started}},
		{Seq: 2, At: at, Task: task, Body: conversation.TaskStatusChanged{Trigger: message, New: conversation.TaskRunning}},
		{Seq: 3, At: at, Task: task, Body: conversation.StepStarted{Step: conversation.StepNumber(n), Attempt: 1, Agent: "coordinator", Read: []conversation.MessageID{message}}},
		{Seq: 4, At: at, Task: task, Body: conversation.StepFinished{
			Step: conversation.StepNumber(n), Attempt: 1, Outcome: conversation.StepOK, Model: "openai/gpt-9-mini", Stop: conversation.StopLength,
			Usage: conversation.Usage{InputTokens: 7, OutputTokens: 3, CachedTokens: 2}, Took: time.Second,
		}},
		{Seq: 5, At: at, Task: task, Body: conversation.TaskStatusChanged{Trigger: message, Old: conversation.TaskRunning, New: conversation.TaskComplete}},
	}
}

const spansOfTurn = 4 // message, chat, step, task

// The ids of spans follow from the log. They are pinned: if they changed, a trace that began
// before an upgrade would fall apart.
func TestIDsStay(t *testing.T) {
	id := traceOf(key, "t1-aaaaaaaaaaaaaaaa")
	for _, c := range []struct{ got, want string }{
		{id.String(), "4dba20c8469cb2b06379b9a927d7f38d"},
		{spanOf(id, kindTask, key.Session, "t1-aaaaaaaaaaaaaaaa").String(), "6cd959e131784dc5"},
		{spanOf(id, kindCall, key.Session, "d1").String(), "5a69b2351df75067"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	other := key
	other.Tenant = "other"
	if traceOf(other, "t1-aaaaaaaaaaaaaaaa") == id || spanOf(id, kindCall, key.Session+"/d1", "d1") == spanOf(id, kindCall, key.Session, "d1") {
		t.Error("different things have the same id")
	}
}

// The share that is sampled is about what was asked for.
func TestSampled(t *testing.T) {
	for _, share := range []float64{0, 0.1, 0.5, 1} {
		n := 0
		for i := range 10_000 {
			if sampled(traceOf(key, conversation.TaskID(fmt.Sprint("t", i))), share) {
				n++
			}
		}
		if got := float64(n) / 10_000; got < share-0.03 || got > share+0.03 || share == 0 && n > 0 || share == 1 && n < 10_000 {
			t.Errorf("%v of the traces are sampled, want %v", got, share)
		}
	}
}

func TestTraceParent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	sc, ok := parseParent(good)
	if !ok || header(sc.TraceID(), sc.SpanID()) != good || !sc.IsSampled() {
		t.Errorf("%v %v", sc, ok)
	}
	if sc, ok := parseParent("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-later"); !ok || sc.IsSampled() {
		t.Error("a later version is not read")
	}
	for _, bad := range []string{
		"", "00", strings.ToUpper(good), good + "-more", "ff" + good[2:], "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", "00-0af7651916cd43dd8448eb211c8031gg-b7ad6b7169203331-01", "cc" + good[2:] + "x", "zz" + good[2:],
	} {
		if _, ok := parseParent(bad); ok {
			t.Errorf("%q is read", bad)
		}
	}
}

func FuzzTraceParent(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Fuzz(func(t *testing.T, s string) {
		if sc, ok := parseParent(s); ok != sc.IsValid() {
			t.Errorf("%q: %v %v", s, ok, sc)
		}
	})
}

// Tracing that is off is a nil that allocates nothing.
func TestOffCostsNothing(t *testing.T) {
	var off *Tracer
	events := turn(1)
	attempt := conversation.Attempt{Step: 1, N: 1}
	if n := testing.AllocsPerRun(100, func() {
		s := off.Session(key, label)
		s.Resume(&conversation.View{})
		s.Said("m1", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		s.Commit(time.Time{}, events, 1)
		s.Events(events)
		if s.TraceID("t1")+s.ModelParent("t1", attempt)+s.ToolParent("t1", "c1") != "" {
			t.Error("there is a trace")
		}
		off.Find(key, nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := off.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// open opens a tracer for a test in a bubble.
func open(t *testing.T, to *tracingtest.Receiver, log *slog.Logger) (*Tracer, *metrics.Traces) {
	t.Helper()
	m := metrics.NewTraces(prometheus.NewRegistry())
	tracer, err := Open(t.Context(), Setup{
		URL: "http://collector/v1/traces", Headers: map[string]string{"Authorization": "Bearer marker-secret"}, Sample: 1, Version: "v1", Node: "n1", Metrics: m, Log: log, Client: to.Pipe(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	return tracer, m
}

func outcome(m *metrics.Traces, name string) int {
	return int(testutil.ToFloat64(m.Spans.WithLabelValues(name)))
}

// What a model call says of itself has the names of OpenTelemetry's conventions.
func TestAttributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &tracingtest.Receiver{}
		tracer, m := open(t, to, nil)
		s := tracer.Session(key, label)
		s.Events(turn(1))
		if err := tracer.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if outcome(m, "exported") != spansOfTurn || to.Header("Authorization") != "Bearer marker-secret" {
			t.Errorf("%d spans, authorised by %q", outcome(m, "exported"), to.Header("Authorization"))
		}
		for _, span := range to.Spans() {
			if span.Name != "chat gpt-9" {
				continue
			}
			for name, want := range map[string]string{
				"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-9", "gen_ai.response.model": "gpt-9-mini",
				"gen_ai.usage.input_tokens": "7", "gen_ai.usage.output_tokens": "3", "gen_ai.usage.cache_read.input_tokens": "2", "gen_ai.response.finish_reasons": "length",
			} {
				if span.Attrs[name] != want {
					t.Errorf("%s is %q, want %q", name, span.Attrs[name], want)
				}
			}
			return
		}
		t.Errorf("no call of a model:\n%s", to.Tree())
	})
}

// Whatever bytes a model, a tool or a provider gives, the spans of a batch arrive.
func TestAnyBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bad = "a\xffb"
		to := &tracingtest.Receiver{}
		tracer, m := open(t, to, nil)
		tracer.content = true
		s := tracer.Session(key, func(conversation.AgentName) string { return bad + "/" + bad })
		events := turn(1)
		task, failure := events[0].Task, &conversation.Failure{Code: bad}
		accepted, started, finished, ended := events[0].Body.(conversation.MessageAccepted), events[2].Body.(conversation.StepStarted), events[3].Body.(conversation.StepFinished), events[4].Body.(conversation.TaskStatusChanged)
		accepted.Text, started.Agent, finished.Model, finished.Outcome, finished.Error, ended.New, ended.Error = bad, bad, bad, conversation.StepError, failure, conversation.TaskError, failure
		events[0].Body, events[2].Body, events[3].Body, events[4].Body = accepted, started, finished, ended
		events = slices.Insert(events, 4,
			conversation.Event{Task: task, Body: conversation.ToolStarted{Call: bad, Tool: bad, Args: bad}},
			conversation.Event{Task: task, Body: conversation.ToolFinished{Call: bad, Summary: bad}},
			conversation.Event{Task: task, Body: conversation.DelegationStarted{Delegation: "d1", Agent: bad, Objective: bad}},
			conversation.Event{Task: task, Body: conversation.DelegationFinished{Delegation: "d1", Summary: bad}},
		)
		s.Events(events)
		if err := tracer.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if sent, lost := outcome(m, "exported"), outcome(m, "dropped"); sent != spansOfTurn+2 || lost != 0 {
			t.Errorf("%d spans are sent, %d lost", sent, lost)
		}
		for _, name := range []string{"task a\uFFFDb", "chat a\uFFFDb", "execute_tool a\uFFFDb", "invoke_agent a\uFFFDb"} {
			if !strings.Contains(to.Tree(), name) {
				t.Errorf("no %q in\n%s", name, to.Tree())
			}
		}
	})
}

// A collector that is not there holds up nobody, is complained of once a minute, and what it
// was to have is counted. The end does not wait for it.
func TestCollectorIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &tracingtest.Receiver{Refuse: func() int { return http.StatusServiceUnavailable }}
		var log bytes.Buffer
		tracer, m := open(t, to, slog.New(slog.NewTextHandler(&log, nil)))
		s := tracer.Session(key, label)
		began := time.Now()
		const turns = 3 * maxQueued / spansOfTurn
		for n := range turns {
			s.Events(turn(n))
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the session has waited %s", took)
		}
		if n := outcome(m, "dropped"); n < 2*maxQueued-2*batchSize || n > 2*maxQueued {
			t.Errorf("%d spans are dropped at once", n)
		}
		time.Sleep(50 * time.Second)
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%d lines in a minute:\n%s", n, log.String())
		}
		if strings.Contains(log.String(), "marker-secret") {
			t.Error("a secret is in the log")
		}
		end, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began = time.Now()
		_ = tracer.Close(end) // it may say that its time was over
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("the end has waited %s", took)
		}
		synctest.Wait()
		if n := outcome(m, "dropped") + outcome(m, "exported"); n != turns*spansOfTurn || outcome(m, "exported") != 0 {
			t.Errorf("%d spans are accounted for, want %d", n, turns*spansOfTurn)
		}
	})
}

// What a session remembers is bounded, and gone with the tasks.
func TestRemembersLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracer, _ := open(t, &tracingtest.Receiver{}, nil)
		s := tracer.Session(key, label)
		for n := range 100 {
			s.Events(turn(n))
		}
		approval := &conversation.Approval{Call: "c1", Tool: "x" + strings.Repeat("ä", 1000)}
		s.Events([]conversation.Event{
			{Task: "t7", Body: conversation.TaskStatusChanged{New: conversation.TaskRunning}},
			{Task: "t7", Body: conversation.Asked{Question: "q1", Approval: approval}},
		})
		if name := s.calls["c1"].tool; name != "x"+strings.Repeat("ä", 31) { // of 64 bytes the last would be half a character
			t.Errorf("%d bytes of a name: %q", len(name), name)
		}
		s.Events([]conversation.Event{
			{Task: "t7", Body: conversation.TaskStatusChanged{Old: conversation.TaskRunning, New: conversation.TaskCancelled}},
			{Task: "t7", Body: conversation.ToolFinished{Call: "c2"}},
			{Task: "t8", Body: conversation.TaskStatusChanged{Old: conversation.TaskQueued, New: conversation.TaskCancelled}},
		})
		s.Commit(time.Now(), []conversation.Event{{Task: "t7"}}, 1)
		if len(s.tasks)+len(s.messages)+len(s.calls) != 0 {
			t.Errorf("%d tasks, %d messages, %d calls are left", len(s.tasks), len(s.messages), len(s.calls))
		}
		for n := range 2 * maxMessages {
			s.Events(turn(n)[:1])
		}
		if len(s.messages) != maxMessages {
			t.Errorf("%d messages are remembered", len(s.messages))
		}
		for n := range 2 * maxOrigins {
			tracer.remember(key, conversation.CallID(fmt.Sprint("d", n)), "t1")
		}
		if len(tracer.origins) > maxOrigins {
			t.Errorf("%d delegations are remembered", len(tracer.origins))
		}
		_ = tracer.Close(t.Context())
	})
}

// A task that never ran has no span, also one of leftovers and one that waited already
// when the session was loaded; one that waits for its turn again has run.
func TestTaskThatNeverRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &tracingtest.Receiver{}
		tracer, _ := open(t, to, nil)
		s := tracer.Session(key, label)
		s.Resume(&conversation.View{Tasks: []conversation.TaskView{
			{Task: "found", Status: conversation.TaskQueued, CreatedAt: time.Now()}, {Task: "found-again", Status: conversation.TaskQueued, Steps: 1, CreatedAt: time.Now()},
		}})
		s.Events([]conversation.Event{
			{Task: "leftover", Body: conversation.TaskStatusChanged{New: conversation.TaskQueued}},
			{Task: "again", Body: conversation.TaskStatusChanged{New: conversation.TaskRunning}},
			{Task: "again", Body: conversation.TaskStatusChanged{Old: conversation.TaskAwaiting, New: conversation.TaskQueued}},
		})
		for _, id := range []conversation.TaskID{"accepted", "leftover", "found", "found-again", "again"} {
			s.Events([]conversation.Event{{Task: id, At: time.Now(), Body: conversation.TaskStatusChanged{Old: conversation.TaskQueued, New: conversation.TaskCancelled}}})
		}
		_ = tracer.Close(t.Context())
		var ran []string
		for _, span := range to.Spans() {
			ran = append(ran, span.Attrs["parley.task.id"])
		}
		slices.Sort(ran)
		if !slices.Equal(ran, []string{"again", "found-again"}) || len(s.tasks) > 0 {
			t.Errorf("%q have spans; %d tasks are left", ran, len(s.tasks))
		}
	})
}

// A task is linked to at most as many messages as the library keeps links.
func TestLinksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &tracingtest.Receiver{}
		tracer, _ := open(t, to, nil)
		s := tracer.Session(key, label)
		var read []conversation.MessageID
		for n := range 2 * maxLinks {
			id := conversation.MessageID(fmt.Sprint("m", n))
			read = append(read, id)
			s.Events([]conversation.Event{{Body: conversation.MessageAccepted{Message: id}}})
		}
		events := turn(1)
		started := events[2].Body.(conversation.StepStarted)
		started.Read = read
		events[2].Body = started
		s.Events(events[:3])
		if n := len(s.tasks[events[2].Task].links); n != maxLinks { // the library would leave out others, and we remember them all
			t.Errorf("%d links are remembered", n)
		}
		s.Events(events[3:])
		_ = tracer.Close(t.Context())
		var sent []int
		for _, span := range to.Spans() {
			if span.Name == "task coordinator" {
				sent = append(sent, len(span.Links))
			}
		}
		if !slices.Equal(sent, []int{maxLinks}) {
			t.Errorf("tasks with %v links, want one with %d", sent, maxLinks)
		}
	})
}

// Where spans go to.
func TestURL(t *testing.T) {
	for _, c := range []struct{ endpoint, env, want string }{
		{"", "", ""},
		{"http://c:4318", "", "http://c:4318/v1/traces"},
		{"https://c/otlp/", "", "https://c/otlp/v1/traces"},
		{"http://c/v1/traces", "", "http://c/v1/traces"},
		{"", "OTEL_EXPORTER_OTLP_ENDPOINT=http://e:4318/", "http://e:4318/v1/traces"},
		{"", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://e/x", "http://e/x"},
		{"http://c", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://e/x", "http://c/v1/traces"},
		{"http://c", "OTEL_SDK_DISABLED=True", ""},
	} {
		look := func(name string) (string, bool) {
			if value, ok := strings.CutPrefix(c.env, name+"="); ok {
				return value, true
			}
			return "", false
		}
		if got, err := (Config{Endpoint: c.endpoint}).URL(look); got != c.want || err != nil {
			t.Errorf("%q with %q: %q, %v; want %q", c.endpoint, c.env, got, err, c.want)
		}
	}
	for endpoint, fine := range map[string]bool{
		"": true, "http://c:4318": true, "c:4318": false, "127.0.0.1:4318": false, "ftp://c": false, "http://marker:marker@c": false, "http://c/?marker=b": false, "http://": false, "http://[::1": false,
	} {
		if (len((Config{Endpoint: endpoint}).Validate()) == 0) != fine {
			t.Errorf("%q", endpoint)
		}
		for _, variable := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
			url, err := Config{}.URL(func(name string) (string, bool) {
				if name == variable {
					return endpoint, true
				}
				return "", false
			})
			if (err == nil) != fine || err != nil && (url != "" || !strings.HasPrefix(err.Error(), variable+": must be ") || strings.Contains(err.Error(), "marker")) {
				t.Errorf("%s=%q: %q, %v", variable, endpoint, url, err)
			}
		}
	}
}

// What a turn costs with traces, without the way to the collector.
func BenchmarkTurn(b *testing.B) {
	tracer, err := Open(b.Context(), Setup{URL: "http://127.0.0.1:1/v1/traces", Sample: 1, Metrics: metrics.NewTraces(prometheus.NewRegistry())})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		end, cancel := context.WithCancel(context.Background())
		cancel()
		_ = tracer.Close(end)
	}()
	s := tracer.Session(key, label)
	events := turn(1)
	b.ReportAllocs()
	for b.Loop() {
		s.Events(events)
	}
}
