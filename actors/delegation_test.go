package actors

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/persistence/persistencetest"
)

var sub = conversation.SessionKey{Tenant: mainKey.Tenant, Session: mainKey.Session + "/d1"}

// delegated brings a harness to where the coordinator has delegated to the
// researcher, whose model is being asked.
func (h *harness) delegated() *actorstest.ModelCall {
	h.t.Helper()
	h.create(mainKey)
	h.ok(h.tell(mainKey, say("a", "find out")))
	h.reply(actorstest.Use("x", conversation.ToolDelegate, `{"agent":"researcher","objective":"look it up"}`))
	call := h.call()
	if call.Request.Agent != researcher || call.Request.Session != sub.Session || call.Request.Depth != 1 {
		h.t.Fatalf("asked %s of %s", call.Request.Agent, call.Request.Session)
	}
	return call
}

// ended is the only delegation_finished of the session.
func (h *harness) ended(key conversation.SessionKey) conversation.DelegationFinished {
	h.t.Helper()
	synctest.Wait()
	var all []conversation.DelegationFinished
	for _, e := range h.stored(key) {
		if b, ok := e.Body.(conversation.DelegationFinished); ok {
			all = append(all, b)
		}
	}
	if len(all) != 1 {
		h.t.Fatalf("%d delegations have ended", len(all))
	}
	return all[0]
}

// N-08, D-20: a delegation is a session of its own, and its answer comes back.
func TestDelegation(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.delegated()
		h.reply(actorstest.Text("it is 42"))
		if f := h.ended(mainKey); f.Status != conversation.CallOK || f.Summary != "it is 42" {
			t.Errorf("%+v", f)
		}
		h.reply(actorstest.Text("the answer is 42"))
		if h.count(mainKey, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(h.stored(mainKey)))
		}
		h.assertComplete(mainKey)
		h.assertComplete(sub)
		before := len(h.store.Commits())
		time.Sleep(5 * time.Minute)
		if n := len(h.store.Commits()); n != before {
			t.Errorf("%d commits after the end", n-before)
		}
		h.refused(h.tell(sub, say("z", "hey")), conversation.Forbidden)
	})
}

// The sub-session's answer arrives although its parent could not take it at once.
func TestReportIsRepeated(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
	}{{"refused", conversation.ErrFull}, {"conflict", conversation.ErrConflict}} {
		t.Run(c.name, func(t *testing.T) {
			withHarness(t, nil, func(t *testing.T, h *harness) {
				h.delegated()
				failures := 0
				h.store.FailCommit(func(_ int, key conversation.SessionKey, commit conversation.Commit) (error, bool) {
					if key == mainKey && failures < 3 && holds(conversation.KindDelegationFinished)(key, commit) {
						failures++
						return c.err, false
					}
					return nil, false
				})
				h.reply(actorstest.Text("it is 42"))
				time.Sleep(h.cfg.TellEvery - time.Second) // it was not told again by then
				if f := h.ended(mainKey); f.Status != conversation.CallOK || failures != 3 {
					t.Errorf("%+v after %d failures", f, failures)
				}
				h.reply(actorstest.Text("42"))
			})
		})
	}
}

// N-02: a crash at any point of a delegation.
func TestDelegationAfterCrash(t *testing.T) {
	t.Run("while it works", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			h.delegated()
			h.restart()
			time.Sleep(time.Minute)
			call := h.call()
			if call.Request.Session != sub.Session || call.Request.Attempt != 2 {
				t.Errorf("%+v", call.Request)
			}
			h.reply(actorstest.Text("42"))
			if f := h.ended(mainKey); f.Summary != "42" {
				t.Errorf("%+v", f)
			}
			h.reply(actorstest.Text("42"))
			if h.count(sub, conversation.KindMessageAccepted) != 1 {
				t.Error("told twice")
			}
		})
	})
	t.Run("before it was told", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			h.create(mainKey)
			h.ok(h.tell(mainKey, say("a", "find out")))
			gate := h.store.Hold(persistencetest.BeforeWrite, func(key conversation.SessionKey, _ conversation.Commit) bool { return key == sub })
			h.reply(actorstest.Use("x", conversation.ToolDelegate, `{"agent":"researcher","objective":"look it up"}`))
			<-gate.Held()
			h.restart()
			call := h.call()
			texts := ""
			for _, e := range call.Request.Entries {
				texts += e.Text
			}
			if !strings.Contains(texts, "look it up") {
				t.Errorf("the objective is lost: %q", texts)
			}
			h.reply(actorstest.Text("42"))
			h.reply(actorstest.Text("42"))
		})
	})
	t.Run("before its answer arrived", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			h.delegated()
			gate := h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindDelegationFinished))
			h.reply(actorstest.Text("42"))
			<-gate.Held()
			h.restart()
			time.Sleep(h.cfg.TellEvery)
			if f := h.ended(mainKey); f.Summary != "42" {
				t.Errorf("%+v", f)
			}
			h.reply(actorstest.Text("42"))
		})
	})
}

// A question of a delegation is the user's to answer; the answer goes down.
func TestDelegationAsks(t *testing.T) {
	for _, crash := range []bool{false, true} {
		name := "live"
		if crash {
			name = "across a crash"
		}
		t.Run(name, func(t *testing.T) {
			withHarness(t, nil, func(t *testing.T, h *harness) {
				h.delegated()
				h.reply(actorstest.Use("y", conversation.ToolAsk, `{"question":"Which one?"}`))
				v := h.view(mainKey)
				if len(v.Questions) != 1 || v.Questions[0].Asked.Question != "d1.q1" || v.Questions[0].Asked.Delegation != "d1" {
					t.Fatalf("%+v", v.Questions)
				}
				if crash {
					h.restart()
				}
				r := h.ok(h.tell(mainKey, conversation.Answer{Author: ada, ClientMsgID: "b", Question: "d1.q1", Text: "that one"}))
				if r.Message == "" {
					t.Errorf("%+v", r)
				}
				if crash {
					h.restart()
				}
				time.Sleep(2 * h.cfg.TellEvery)
				if n := h.count(sub, conversation.KindQuestionAnswered); n != 1 {
					t.Fatalf("answered %d times below: %v", n, kinds(h.stored(sub)))
				}
				h.reply(actorstest.Text("42"))
				if f := h.ended(mainKey); f.Status != conversation.CallOK {
					t.Errorf("%+v", f)
				}
				h.reply(actorstest.Text("done"))
				if n := h.count(mainKey, conversation.KindQuestion); n != 1 {
					t.Errorf("%d questions", n)
				}
			})
		})
	}
}

// D-17: an amendment reaches the running delegation, and its call says how it went.
func TestAmend(t *testing.T) {
	for _, crash := range []bool{false, true} {
		name := "live"
		if crash {
			name = "across a crash"
		}
		t.Run(name, func(t *testing.T) {
			withHarness(t, nil, func(t *testing.T, h *harness) {
				below := h.delegated()
				h.ok(h.tell(mainKey, say("b", "with OAuth")))
				var above *actorstest.ModelCall
				for _, c := range h.model.Open() {
					if c != below {
						above = c
					}
				}
				var gate *persistencetest.Gate
				if crash {
					gate = h.store.Hold(persistencetest.BeforeWrite, func(key conversation.SessionKey, _ conversation.Commit) bool { return key == sub })
				}
				above.Answer(actorstest.Use("y", conversation.ToolAmend, `{"delegation":"d1","text":"with OAuth"}`))
				if crash {
					<-gate.Held()
					h.restart()
					time.Sleep(2 * h.cfg.TellEvery)
				}
				synctest.Wait()
				accepted := 0
				for _, e := range h.stored(sub) {
					if b, ok := e.Body.(conversation.MessageAccepted); ok && b.Text == "with OAuth" {
						accepted++
					}
				}
				if f := h.finished(); accepted != 1 || f.Status != conversation.CallOK {
					t.Errorf("accepted %d times, %+v", accepted, f)
				}
				h.ok(h.tell(mainKey, conversation.Cancel{By: conversation.ByUser}))
				time.Sleep(time.Minute)
				if len(h.view(mainKey).Tasks) != 0 {
					t.Errorf("%+v", h.view(mainKey).Tasks)
				}
			})
		})
	}
}

// N-06: a stop takes the whole tree.
func TestCancelTakesTheTree(t *testing.T) {
	t.Run("two levels", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			h.delegated()
			h.reply(actorstest.Use("y", conversation.ToolDelegate, `{"agent":"researcher","objective":"look deeper"}`))
			deep := conversation.SessionKey{Tenant: mainKey.Tenant, Session: sub.Session + "/d1"}
			if h.call().Request.Session != deep.Session {
				t.Fatal("no second level")
			}
			h.ok(h.tell(mainKey, conversation.Cancel{By: conversation.ByUser}))
			synctest.Wait()
			if len(h.model.Open()) != 0 {
				t.Error("a model call goes on")
			}
			for _, key := range []conversation.SessionKey{mainKey, sub, deep} {
				if v := h.view(key); len(v.Tasks) != 0 {
					t.Errorf("%s: %+v", key, v.Tasks)
				}
			}
			if f := h.ended(mainKey); f.Status != conversation.CallCancelled {
				t.Errorf("%+v", f)
			}
		})
	})
	t.Run("across a crash", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			h.delegated()
			gate := h.store.Hold(persistencetest.BeforeWrite, func(key conversation.SessionKey, _ conversation.Commit) bool { return key == sub })
			h.ok(h.tell(mainKey, conversation.Cancel{By: conversation.ByUser}))
			<-gate.Held()
			h.restart()
			time.Sleep(h.cfg.Rules.Policy.CancelGrace)
			synctest.Wait()
			for _, key := range []conversation.SessionKey{mainKey, sub} {
				if v := h.view(key); len(v.Tasks) != 0 {
					t.Errorf("%s: %+v", key, v.Tasks)
				}
			}
		})
	})
	t.Run("not told yet", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			h.create(mainKey)
			h.ok(h.tell(mainKey, say("a", "find out")))
			gate := h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindDelegationStarted))
			h.reply(actorstest.Use("x", conversation.ToolDelegate, `{"agent":"researcher","objective":"look it up"}`))
			stop := h.tell(mainKey, conversation.Cancel{By: conversation.ByUser})
			h.silent(stop)
			gate.Release()
			h.ok(stop)
			if f := h.ended(mainKey); f.Status != conversation.CallCancelled {
				t.Errorf("%+v", f)
			}
			if _, err := h.store.Head(t.Context(), sub); !errors.Is(err, conversation.ErrNotFound) {
				t.Errorf("a sub-session that was never wanted: %v", err)
			}
		})
	})
}

// N-08: each with its own deadline; a late one does not take its sibling along.
func TestDelegationTimeout(t *testing.T) {
	withHarness(t, func(h *harness) { h.cfg.ModelIdle, h.cfg.ModelLimit = time.Hour, time.Hour }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "find out")))
		h.reply(actorstest.Use("x", conversation.ToolDelegateParallel,
			`{"jobs":[{"agent":"researcher","objective":"slow","deadline":"1m"},{"agent":"researcher","objective":"fast"}]}`))
		open := h.model.Open()
		if len(open) != 2 {
			t.Fatalf("%d open", len(open))
		}
		fast := open[slices.IndexFunc(open, func(c *actorstest.ModelCall) bool { return c.Request.Session == mainKey.Session+"/d2" })]
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if f := h.ended(mainKey); f.Delegation != "d1" || f.Status != conversation.CallTimeout {
			t.Errorf("%+v", f)
		}
		if v := h.view(sub); len(v.Tasks) != 0 {
			t.Errorf("the late one works on: %+v", v.Tasks)
		}
		if fast.Over() {
			t.Error("its sibling was stopped")
		}
		fast.Answer(actorstest.Text("42"))
		h.reply(actorstest.Text("done"))
	})
}
