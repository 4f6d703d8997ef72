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

var sub = conversation.SessionKey{Tenant: talk.Tenant, Session: talk.Session + "/d1"}

// delegated brings a world to where the coordinator has delegated to the
// researcher, whose model is being asked.
func (w *world) delegated() *actorstest.Call {
	w.t.Helper()
	w.create(talk)
	w.ok(w.tell(talk, say("a", "find out")))
	w.reply(actorstest.Use("x", conversation.ToolDelegate, `{"agent":"researcher","objective":"look it up"}`))
	call := w.call()
	if call.Request.Agent != researcher || call.Request.Session != sub.Session || call.Request.Depth != 1 {
		w.t.Fatalf("asked %s of %s", call.Request.Agent, call.Request.Session)
	}
	return call
}

// ended is the only delegation_finished of the session.
func (w *world) ended(key conversation.SessionKey) conversation.DelegationFinished {
	w.t.Helper()
	synctest.Wait()
	var all []conversation.DelegationFinished
	for _, e := range w.stored(key) {
		if b, ok := e.Body.(conversation.DelegationFinished); ok {
			all = append(all, b)
		}
	}
	if len(all) != 1 {
		w.t.Fatalf("%d delegations have ended", len(all))
	}
	return all[0]
}

// N-08, D-20: a delegation is a session of its own, and its answer comes back.
func TestDelegation(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.delegated()
		w.reply(actorstest.Text("it is 42"))
		if f := w.ended(talk); f.Status != conversation.CallOK || f.Summary != "it is 42" {
			t.Errorf("%+v", f)
		}
		w.reply(actorstest.Text("the answer is 42"))
		if w.count(talk, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(w.stored(talk)))
		}
		w.whole(talk)
		w.whole(sub)
		before := len(w.store.Commits())
		time.Sleep(5 * time.Minute)
		if n := len(w.store.Commits()); n != before {
			t.Errorf("%d commits after the end", n-before)
		}
		w.refused(w.tell(sub, say("z", "hey")), conversation.Forbidden)
	})
}

// The sub-session's answer arrives although its parent could not take it at once.
func TestReportIsRepeated(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
	}{{"refused", conversation.ErrFull}, {"conflict", conversation.ErrConflict}} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, nil, func(t *testing.T, w *world) {
				w.delegated()
				failures := 0
				w.store.FailCommit(func(_ int, key conversation.SessionKey, commit conversation.Commit) (error, bool) {
					if key == talk && failures < 3 && holds(conversation.KindDelegationFinished)(key, commit) {
						failures++
						return c.err, false
					}
					return nil, false
				})
				w.reply(actorstest.Text("it is 42"))
				time.Sleep(w.cfg.TellEvery - time.Second) // nobody has told again by then
				if f := w.ended(talk); f.Status != conversation.CallOK || failures != 3 {
					t.Errorf("%+v after %d failures", f, failures)
				}
				w.reply(actorstest.Text("42"))
			})
		})
	}
}

// N-02: a crash at any point of a delegation.
func TestDelegationAfterCrash(t *testing.T) {
	t.Run("while it works", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.delegated()
			w.restart()
			time.Sleep(time.Minute)
			call := w.call()
			if call.Request.Session != sub.Session || call.Request.Attempt != 2 {
				t.Errorf("%+v", call.Request)
			}
			w.reply(actorstest.Text("42"))
			if f := w.ended(talk); f.Summary != "42" {
				t.Errorf("%+v", f)
			}
			w.reply(actorstest.Text("42"))
			if w.count(sub, conversation.KindMessageAccepted) != 1 {
				t.Error("told twice")
			}
		})
	})
	t.Run("before it was told", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.create(talk)
			w.ok(w.tell(talk, say("a", "find out")))
			gate := w.store.Hold(persistencetest.BeforeWrite, func(key conversation.SessionKey, _ conversation.Commit) bool { return key == sub })
			w.reply(actorstest.Use("x", conversation.ToolDelegate, `{"agent":"researcher","objective":"look it up"}`))
			<-gate.Held()
			w.restart()
			call := w.call()
			texts := ""
			for _, e := range call.Request.Entries {
				texts += e.Text
			}
			if !strings.Contains(texts, "look it up") {
				t.Errorf("the objective is lost: %q", texts)
			}
			w.reply(actorstest.Text("42"))
			w.reply(actorstest.Text("42"))
		})
	})
	t.Run("before its answer arrived", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.delegated()
			gate := w.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindDelegationFinished))
			w.reply(actorstest.Text("42"))
			<-gate.Held()
			w.restart()
			time.Sleep(w.cfg.TellEvery)
			if f := w.ended(talk); f.Summary != "42" {
				t.Errorf("%+v", f)
			}
			w.reply(actorstest.Text("42"))
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
			inWorld(t, nil, func(t *testing.T, w *world) {
				w.delegated()
				w.reply(actorstest.Use("y", conversation.ToolAsk, `{"question":"Which one?"}`))
				v := w.view(talk)
				if len(v.Questions) != 1 || v.Questions[0].Asked.Question != "d1.q1" || v.Questions[0].Asked.Delegation != "d1" {
					t.Fatalf("%+v", v.Questions)
				}
				if crash {
					w.restart()
				}
				r := w.ok(w.tell(talk, conversation.Answer{Author: ada, ClientMsgID: "b", Question: "d1.q1", Text: "that one"}))
				if r.Message == "" {
					t.Errorf("%+v", r)
				}
				if crash {
					w.restart()
				}
				time.Sleep(2 * w.cfg.TellEvery)
				if n := w.count(sub, conversation.KindQuestionAnswered); n != 1 {
					t.Fatalf("answered %d times below: %v", n, kinds(w.stored(sub)))
				}
				w.reply(actorstest.Text("42"))
				if f := w.ended(talk); f.Status != conversation.CallOK {
					t.Errorf("%+v", f)
				}
				w.reply(actorstest.Text("done"))
				if n := w.count(talk, conversation.KindQuestion); n != 1 {
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
			inWorld(t, nil, func(t *testing.T, w *world) {
				below := w.delegated()
				w.ok(w.tell(talk, say("b", "with OAuth")))
				var above *actorstest.Call
				for _, c := range w.model.Open() {
					if c != below {
						above = c
					}
				}
				var gate *persistencetest.Gate
				if crash {
					gate = w.store.Hold(persistencetest.BeforeWrite, func(key conversation.SessionKey, _ conversation.Commit) bool { return key == sub })
				}
				above.Answer(actorstest.Use("y", conversation.ToolAmend, `{"delegation":"d1","text":"with OAuth"}`))
				if crash {
					<-gate.Held()
					w.restart()
					time.Sleep(2 * w.cfg.TellEvery)
				}
				synctest.Wait()
				accepted := 0
				for _, e := range w.stored(sub) {
					if b, ok := e.Body.(conversation.MessageAccepted); ok && b.Text == "with OAuth" {
						accepted++
					}
				}
				if f := w.finished(); accepted != 1 || f.Status != conversation.CallOK {
					t.Errorf("accepted %d times, %+v", accepted, f)
				}
				w.ok(w.tell(talk, conversation.Cancel{By: conversation.ByUser}))
				time.Sleep(time.Minute)
				if len(w.view(talk).Tasks) != 0 {
					t.Errorf("%+v", w.view(talk).Tasks)
				}
			})
		})
	}
}

// N-06: a stop takes the whole tree.
func TestCancelTakesTheTree(t *testing.T) {
	t.Run("two levels", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.delegated()
			w.reply(actorstest.Use("y", conversation.ToolDelegate, `{"agent":"researcher","objective":"look deeper"}`))
			deep := conversation.SessionKey{Tenant: talk.Tenant, Session: sub.Session + "/d1"}
			if w.call().Request.Session != deep.Session {
				t.Fatal("no second level")
			}
			w.ok(w.tell(talk, conversation.Cancel{By: conversation.ByUser}))
			synctest.Wait()
			if len(w.model.Open()) != 0 {
				t.Error("a model call goes on")
			}
			for _, key := range []conversation.SessionKey{talk, sub, deep} {
				if v := w.view(key); len(v.Tasks) != 0 {
					t.Errorf("%s: %+v", key, v.Tasks)
				}
			}
			if f := w.ended(talk); f.Status != conversation.CallCancelled {
				t.Errorf("%+v", f)
			}
		})
	})
	t.Run("across a crash", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.delegated()
			gate := w.store.Hold(persistencetest.BeforeWrite, func(key conversation.SessionKey, _ conversation.Commit) bool { return key == sub })
			w.ok(w.tell(talk, conversation.Cancel{By: conversation.ByUser}))
			<-gate.Held()
			w.restart()
			time.Sleep(w.cfg.Rules.Policy.CancelGrace)
			synctest.Wait()
			for _, key := range []conversation.SessionKey{talk, sub} {
				if v := w.view(key); len(v.Tasks) != 0 {
					t.Errorf("%s: %+v", key, v.Tasks)
				}
			}
		})
	})
	t.Run("not told yet", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.create(talk)
			w.ok(w.tell(talk, say("a", "find out")))
			gate := w.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindDelegationStarted))
			w.reply(actorstest.Use("x", conversation.ToolDelegate, `{"agent":"researcher","objective":"look it up"}`))
			stop := w.tell(talk, conversation.Cancel{By: conversation.ByUser})
			w.silent(stop)
			gate.Release()
			w.ok(stop)
			if f := w.ended(talk); f.Status != conversation.CallCancelled {
				t.Errorf("%+v", f)
			}
			if _, err := w.store.Head(t.Context(), sub); !errors.Is(err, conversation.ErrNotFound) {
				t.Errorf("a sub-session that was never wanted: %v", err)
			}
		})
	})
}

// N-08: each with its own deadline; a late one does not take its sibling along.
func TestDelegationTimeout(t *testing.T) {
	inWorld(t, func(w *world) { w.cfg.ModelIdle, w.cfg.ModelLimit = time.Hour, time.Hour }, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "find out")))
		w.reply(actorstest.Use("x", conversation.ToolDelegateParallel,
			`{"jobs":[{"agent":"researcher","objective":"slow","deadline":"1m"},{"agent":"researcher","objective":"fast"}]}`))
		open := w.model.Open()
		if len(open) != 2 {
			t.Fatalf("%d open", len(open))
		}
		fast := open[slices.IndexFunc(open, func(c *actorstest.Call) bool { return c.Request.Session == talk.Session+"/d2" })]
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if f := w.ended(talk); f.Delegation != "d1" || f.Status != conversation.CallTimeout {
			t.Errorf("%+v", f)
		}
		if v := w.view(sub); len(v.Tasks) != 0 {
			t.Errorf("the late one works on: %+v", v.Tasks)
		}
		if fast.Over() {
			t.Error("its sibling was stopped")
		}
		fast.Answer(actorstest.Text("42"))
		w.reply(actorstest.Text("done"))
	})
}
