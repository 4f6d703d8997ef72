package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/actors/internal/refusal"
	"parley/conversation"
)

// faulty is a store whose reads fail when they are told to.
type faulty struct {
	unsure
	mu   sync.Mutex
	what map[string]error
}

func (f *faulty) set(what string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.what == nil {
		f.what = map[string]error{}
	}
	f.what[what] = err
}

func (f *faulty) of(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.what[what]
}

func (f *faulty) Acquire(ctx context.Context, key conversation.SessionKey, how conversation.AcquireHow) (conversation.Head, error) {
	if err := f.of("acquire"); err != nil {
		return conversation.Head{}, err
	}
	return f.Store.Acquire(ctx, key, how)
}

func (f *faulty) Head(ctx context.Context, key conversation.SessionKey) (conversation.Head, error) {
	if err := f.of("head"); err != nil {
		return conversation.Head{}, err
	}
	return f.Store.Head(ctx, key)
}

func (f *faulty) Find(ctx context.Context, key conversation.SessionKey, keys []conversation.Key) ([]conversation.Seq, error) {
	if err := f.of("find"); err != nil {
		return nil, err
	}
	return f.Store.Find(ctx, key, keys)
}

func (f *faulty) Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error] {
	if err := f.of("records"); err != nil {
		return func(yield func(conversation.Record, error) bool) { yield(conversation.Record{}, err) }
	}
	return f.Store.Records(ctx, key, r)
}

// racing is a store in which something happens at the worst moment.
type racing struct {
	conversation.Store
	mu         sync.Mutex
	acquired   func(*conversation.Head)
	summarised func()
}

// onAcquire has f called after each Acquire, onSummary after each Summary; nil ends that.
func (r *racing) onAcquire(f func(*conversation.Head)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acquired = f
}

func (r *racing) onSummary(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.summarised = f
}

func (r *racing) Acquire(ctx context.Context, key conversation.SessionKey, how conversation.AcquireHow) (conversation.Head, error) {
	h, err := r.Store.Acquire(ctx, key, how)
	r.mu.Lock()
	f := r.acquired
	r.mu.Unlock()
	if f != nil {
		f(&h)
	}
	return h, err
}

func (r *racing) Summary(ctx context.Context, key conversation.SessionKey) (conversation.Summary, error) {
	s, err := r.Store.Summary(ctx, key)
	r.mu.Lock()
	f := r.summarised
	r.mu.Unlock()
	if f != nil {
		f()
	}
	return s, err
}

func withFaultyStore(t *testing.T, f func(t *testing.T, h *harness, store *faulty)) {
	t.Helper()
	store := &faulty{}
	withHarness(t, func(h *harness) { store.Store, h.through = h.store, store }, func(t *testing.T, h *harness) { f(t, h, store) })
}

func TestLoadFails(t *testing.T) {
	for _, c := range []struct {
		what string
		err  error
		code conversation.Code
		says string
	}{
		{"acquire", fmt.Errorf("event 7: %w", conversation.ErrTooNew), conversation.Unavailable, "newer version"},
		{"acquire", conversation.ErrFull, conversation.StorageFull, "full"},
		{"acquire", conversation.ErrDamaged, conversation.Internal, "the operator"},
		{"records", conversation.ErrDamaged, conversation.Internal, "the operator"},
		{"acquire", conversation.ErrClosed, conversation.Unavailable, "restarting"},
		{"acquire", errLine, conversation.Unavailable, "cannot be reached"},
		{"records", errLine, conversation.Unavailable, "cannot be reached"},
		{"records", conversation.ErrTooNew, conversation.Unavailable, "newer version"},
	} {
		t.Run(c.what+" "+c.err.Error(), func(t *testing.T) {
			withFaultyStore(t, func(t *testing.T, h *harness, store *faulty) {
				h.create(mainKey)
				h.e.registry.Deliver(mainKey, &unloadNow{reason: "idle", err: refusal.Unreachable()}, false)
				store.set(c.what, c.err)
				a, b := h.tell(mainKey, say("a", "hello")), h.tell(mainKey, say("b", "hello"))
				if err := h.refused(a, c.code); !strings.Contains(err.Message, c.says) || strings.Contains(err.Message, "dead") {
					t.Errorf("it says %q", err.Message)
				}
				h.refused(b, c.code)
				if h.active(mainKey) {
					t.Error("a session that was not loaded is in memory")
				}
				store.set(c.what, nil)
				h.ok(h.tell(mainKey, say("a", "hello")))
				h.reply(actorstest.Text("hi"))
			})
		})
	}
}

func TestReadsFail(t *testing.T) {
	withFaultyStore(t, func(t *testing.T, h *harness, store *faulty) {
		h.create(mainKey)
		h.e.registry.Deliver(mainKey, &unloadNow{reason: "idle", err: refusal.Unreachable()}, false)
		synctest.Wait()
		for _, what := range []string{"head", "records"} {
			store.set(what, errLine)
			var failed error
			h.e.View(mainKey, ada, func(_ conversation.View, err error) { failed = err })
			synctest.Wait()
			if failed == nil || conversation.AsError(failed).Code != conversation.Unavailable {
				t.Errorf("%s: %v", what, failed)
			}
			store.set(what, nil)
		}
		var missing error
		h.e.View(session2(1), ada, func(_ conversation.View, err error) { missing = err })
		synctest.Wait()
		if conversation.AsError(missing).Code != conversation.NotFound {
			t.Errorf("%v", missing)
		}

		// A look-up that fails refuses its command and lets the next ones through.
		part := conversation.AddPart{Author: ada, Source: "n1", Text: "x"}
		store.set("find", errLine)
		a, b := h.tell(mainKey, part), h.tell(mainKey, conversation.Update{})
		h.refused(a, conversation.Unavailable)
		h.ok(b)
		store.set("find", nil)
		h.ok(h.tell(mainKey, part))

		// A transcript that cannot be read is a failed attempt.
		time.Sleep(h.cfg.CacheIdle + time.Second)
		store.set("records", errLine)
		h.ok(h.tell(mainKey, say("a", "hello")))
		time.Sleep(time.Millisecond)
		store.set("records", nil)
		time.Sleep(time.Minute)
		if call := h.call(); call.Request.Attempt < 2 {
			t.Errorf("attempt %d", call.Request.Attempt)
		}
		h.reply(actorstest.Text("hi"))
	})
}

// A snapshot that cannot be used costs time, not the session.
func TestBrokenSnapshot(t *testing.T) {
	withHarness(t, func(h *harness) { h.cfg.SnapshotEvery = 1 }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		h.reply(actorstest.Text("hi"))
		head, err := h.store.Acquire(t.Context(), mainKey, conversation.AcquireHow{})
		if err != nil {
			t.Fatal(err)
		}
		summary, _ := h.store.Summary(t.Context(), mainKey)
		if err := h.store.Commit(t.Context(), mainKey, conversation.Commit{
			Epoch: head.Epoch, After: head.Last, ID: "x", Snapshot: []byte("nonsense"), Summary: summary,
		}); err != nil {
			t.Fatal(err)
		}
		h.restart()
		if !h.ok(h.tell(mainKey, say("a", "hello"))).Duplicate {
			t.Error("forgotten")
		}
	})
}

// A sub-session that can never take its objective ends its delegation.
func TestDelegationThatCannotStart(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "find out")))
		call := h.call()
		profile := h.e.rules.Agents[researcher]
		gate := func(conversation.SessionKey, conversation.Commit) bool { return true }
		held := h.store.Hold(0, gate)
		call.Answer(actorstest.Use("x", conversation.ToolDelegate, `{"agent":"researcher","objective":"look"}`))
		<-held.Held()
		delete(h.e.rules.Agents, researcher)
		held.Release()
		if f := h.ended(mainKey); f.Status != conversation.CallFailed {
			t.Errorf("%+v", f)
		}
		h.e.rules.Agents[researcher] = profile
		h.reply(actorstest.Text("it did not work"))
	})
}

// M-29, M-30, N-14: parts are logged, and what happens is counted.
func TestMeasured(t *testing.T) {
	var log bytes.Buffer
	withHarness(t, func(h *harness) { h.log = slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}) }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		h.ok(h.tell(mainKey, say("a", "hello")))
		h.call().Cut()
		synctest.Wait()
		time.Sleep(time.Minute)
		h.reply(actorstest.Use("x", conversation.ToolRespond, `{"message":"one"}`))
		h.reply(actorstest.Text("two"))
		want := map[string]float64{
			"parley_commands_total{code=ok,type=send}":                   2,
			"parley_duplicates_total{type=send}":                         1,
			"parley_parts_total{kind=partial}":                           1,
			"parley_parts_total{kind=final}":                             1,
			"parley_model_calls_total{model=,outcome=cut}":               1,
			"parley_model_calls_total{model=,outcome=ok}":                2,
			"parley_model_retries_total{cause=error,model=}":             1,
			"parley_decisions_total{decision=ANSWER}":                    1,
			"parley_messages_resolved_total{evidence=only,how=answered}": 1,
			"parley_task_status_total{status=COMPLETE}":                  1,
			"parley_messages_accepted_total{disposition=started}":        1,
			"parley_model_tokens_total{direction=output,model=,tenant=}": 10,
			"parley_sessions_active{}":                                   1,
			"parley_commands_waiting{}":                                  0,
			"parley_admission_slots_in_use{}":                            0,
			"parley_session_activations_total{outcome=ok}":               1,
			"parley_source_parts{}":                                      1,
			"parley_command_duration_seconds{type=send}":                 2,
			"parley_message_told_seconds{by=part}":                       1,
			"parley_message_resolved_seconds{how=answered}":              1,
			"parley_task_duration_seconds{status=COMPLETE}":              1,
			"parley_model_first_output_seconds{model=}":                  2,
			"parley_model_calls_running{model=}":                         0,
			"parley_messages_waiting{}":                                  0,
			"parley_tasks_running{}":                                     0,
			"parley_task_steps{}":                                        1,
			"parley_first_part_duration_seconds{}":                       1,
			"parley_message_ack_duration_seconds{}":                      2,
		}
		families, err := h.metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				var labels []string
				for _, label := range m.GetLabel() {
					labels = append(labels, label.GetName()+"="+label.GetValue())
				}
				name := family.GetName() + "{" + strings.Join(labels, ",") + "}"
				got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		for name, n := range want {
			if v, ok := got[name]; !ok || v != n {
				t.Errorf("%s is %v, not %v", name, v, n)
			}
		}
		parts, tasks := 0, 0
		for line := range strings.Lines(log.String()) {
			var entry struct {
				Msg       string `json:"msg"`
				Source    string `json:"source_id"`
				Index     *int   `json:"part_index"`
				MessageID string `json:"message_id"`
			}
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				t.Fatal(err)
			}
			if entry.Msg == "part persisted" {
				if entry.Source != "m1-aaaaaaaaaaaaaaaa" || entry.Index == nil || *entry.Index != parts || entry.MessageID == "" {
					t.Errorf("%s", line)
				}
				parts++
			}
			if entry.Msg == "task ended" {
				tasks++
				var done map[string]any
				if err := json.Unmarshal([]byte(line), &done); err != nil {
					t.Fatal(err)
				}
				for key, want := range map[string]any{
					"level": "INFO", "tenant": "acme", "session": string(mainKey.Session), "task": "t1-aaaaaaaaaaaaaaaa", "agent": "coordinator", "message_id": "m1-aaaaaaaaaaaaaaaa",
					"status": "COMPLETE", "steps": 2.0, "model_calls": 3.0, "tool_calls": 0.0, "delegations": 0.0, "tokens_out": 10.0, "parts": 2.0,
				} {
					if done[key] != want {
						t.Errorf("%s is %v, not %v: %s", key, done[key], want, line)
					}
				}
				if took, _ := done["took"].(float64); took <= 0 {
					t.Errorf("it took no time: %s", line)
				}
			}
			if strings.Contains(line, "hello") || strings.Contains(line, `"two"`) {
				t.Errorf("a text is in the log: %s", line)
			}
		}
		if parts != 2 || tasks != 1 {
			t.Errorf("%d parts and %d tasks are logged", parts, tasks)
		}
	})
}
