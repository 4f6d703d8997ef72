package calls

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/internal/shown"
	"parley/conversation"
)

// parent stands for a session: it starts what it is told to start, and keeps what
// its calls tell it.
type parent struct {
	env    *Env
	set    Set
	uplink Uplink
	ends   []conversation.Command
	failed []conversation.CallID
}

func (p *parent) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case func(of Session):
		m(Session{Key: key, Self: ctx.Self(), Spawner: ctx, Published: new(shown.Position)})
	case *End:
		p.ends = append(p.ends, m.Command)
	case *actor.Terminated:
		if call, open := p.set.Terminated(m.Who); open {
			p.failed = append(p.failed, call)
		}
	case *actor.Stopping:
		p.set.StopAll(ctx)
	}
}

// do runs f in the parent, and waits until nothing moves.
func (p *parent) do(pid *actor.PID, f func(of Session)) {
	p.env.Send(pid, f)
	synctest.Wait()
}

var key = conversation.SessionKey{Tenant: "acme", Session: "aaaaaaaaaaaaaaaa/d1"}

// runner is a tool.
type runner func(ctx context.Context) (string, error)

func (runner) Spec() conversation.ToolSpec { return conversation.ToolSpec{Name: "run"} }
func (runner) Check(json.RawMessage) error { return nil }
func (r runner) Run(ctx context.Context, _ conversation.ToolCall) (string, error) {
	return r(ctx)
}

// told is a command that was told to another session.
type told struct {
	key conversation.SessionKey
	cmd conversation.Command
}

func withParent(t *testing.T, tool runner, f func(t *testing.T, p *parent, pid *actor.PID, others *[]told)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
		var others []told
		env := &Env{
			Context: t.Context(), Tools: map[string]conversation.Tool{"run": tool}, Log: slog.New(slog.DiscardHandler),
			Go:   func(_ string, do func(), _ func(error)) { go do() },
			Send: func(pid *actor.PID, m any) { system.Root.Send(pid, m) },
			Tell: func(to conversation.SessionKey, c conversation.Command, done func(error)) {
				others = append(others, told{to, c})
				done(nil)
			},
			Event: func(conversation.SessionKey, conversation.Seq) (conversation.Event, error) {
				return conversation.Event{}, errors.New("there is no log")
			},
			ToolOutput: 100, ToolGrace: time.Second, ToolDeadline: time.Minute, TellEvery: time.Minute, TellRetry: time.Second,
		}
		p := &parent{env: env}
		pid := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return p }, actor.WithSupervisor(StopOnFailure)))
		f(t, p, pid, &others)
		system.Root.Stop(pid)
		time.Sleep(2 * time.Hour) // also tools that ignore their context come to their end
		synctest.Wait()
		if !p.set.Empty() {
			t.Error("calls run after their session has ended")
		}
	})
}

func untilDone(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func TestTool(t *testing.T) {
	start := conversation.RunTool{Call: "c1", Tool: "run", Args: `{}`}
	ended := func(t *testing.T, p *parent, status conversation.CallStatus) {
		t.Helper()
		if len(p.ends) != 1 {
			t.Fatalf("%d ends", len(p.ends))
		}
		if end := p.ends[0].(conversation.ToolDone); end.Call != "c1" || end.Status != status {
			t.Errorf("%+v", end)
		}
	}
	t.Run("runs once", func(t *testing.T) {
		runs := 0
		withParent(t, func(context.Context) (string, error) { runs++; return "done", nil }, func(t *testing.T, p *parent, pid *actor.PID, _ *[]told) {
			for range 3 { // the end is not durable: it is the same call
				p.do(pid, func(of Session) { p.set.RunTool(p.env, of, start) })
			}
			ended(t, p, conversation.CallOK)
			p.do(pid, func(Session) {
				p.set.Ended(p.env, []conversation.Event{{Body: conversation.ToolFinished{Call: "c1"}}})
			})
			if !p.set.Empty() || runs != 1 || len(p.failed) != 0 {
				t.Errorf("%d runs, failed %v", runs, p.failed)
			}
		})
	})
	t.Run("stopped", func(t *testing.T) {
		withParent(t, untilDone, func(t *testing.T, p *parent, pid *actor.PID, _ *[]told) {
			p.do(pid, func(of Session) { p.set.RunTool(p.env, of, start) })
			p.do(pid, func(Session) {
				if !p.set.RunsTools() || p.set.Stop(p.env, "c2") || !p.set.Stop(p.env, "c1") {
					t.Error("only the call that runs is stopped")
				}
			})
			ended(t, p, conversation.CallCancelled)
		})
	})
	t.Run("given up", func(t *testing.T) {
		ignoresContext := func(context.Context) (string, error) { time.Sleep(time.Hour); return "", nil }
		withParent(t, ignoresContext, func(t *testing.T, p *parent, pid *actor.PID, _ *[]told) {
			p.do(pid, func(of Session) { p.set.RunTool(p.env, of, start) })
			time.Sleep(p.env.ToolDeadline + p.env.ToolGrace)
			synctest.Wait()
			ended(t, p, conversation.CallTimeout)
		})
	})
	t.Run("fails at its start", func(t *testing.T) {
		withParent(t, untilDone, func(t *testing.T, p *parent, pid *actor.PID, _ *[]told) {
			p.env.Context = nil
			p.do(pid, func(of Session) { p.set.RunTool(p.env, of, start) })
			if len(p.failed) != 1 || p.failed[0] != "c1" || !p.set.Empty() {
				t.Errorf("failed %v, ends %v", p.failed, p.ends)
			}
		})
	})
	t.Run("fails", func(t *testing.T) {
		withParent(t, untilDone, func(t *testing.T, p *parent, pid *actor.PID, _ *[]told) {
			p.do(pid, func(of Session) { p.set.RunTool(p.env, of, start) })
			p.do(pid, func(Session) { p.env.Send(p.set.children["c1"], (*toolEnd)(nil)) })
			if len(p.failed) != 1 || p.failed[0] != "c1" || !p.set.Empty() || len(p.ends) != 0 {
				t.Errorf("failed %v, ends %v", p.failed, p.ends)
			}
		})
	})
}

// A delegation tells its sub-session the objective again and again, until its end
// is durable.
func TestDelegation(t *testing.T) {
	withParent(t, nil, func(t *testing.T, p *parent, pid *actor.PID, others *[]told) {
		f := conversation.StartDelegation{Call: "d2", Session: key.Session + "/d2", Agent: "researcher", Objective: "look"}
		p.do(pid, func(of Session) {
			p.set.Delegate(p.env, of, conversation.Tell{Owner: "ada", Access: conversation.AccessTenant, Policy: conversation.Overrides{"delegation.max_depth": json.RawMessage("1")}}, f)
		})
		time.Sleep(p.env.TellEvery + time.Second)
		p.do(pid, func(Session) {
			p.set.Answer(p.env, conversation.RouteAnswer{Delegation: "d2", Question: "q1", Text: "red"})
		})
		if n := len(*others); n != 3 || p.set.RunsTools() {
			t.Fatalf("told %+v", *others)
		}
		for i, name := range []string{conversation.Tell{}.Name(), conversation.Tell{}.Name(), conversation.Answer{}.Name()} {
			if one := (*others)[i]; one.key.Session != f.Session || one.cmd.Name() != name {
				t.Errorf("told %+v, not %s", one, name)
			}
			if tell, ok := (*others)[i].cmd.(conversation.Tell); ok && (tell.Owner != "ada" || tell.Access != conversation.AccessTenant || string(tell.Policy["delegation.max_depth"]) != "1") {
				t.Errorf("what its parent passes on is %+v", tell)
			}
		}
		p.do(pid, func(Session) {
			p.set.Ended(p.env, []conversation.Event{{Body: conversation.DelegationFinished{Delegation: "d2"}}})
		})
		time.Sleep(time.Hour)
		if len(*others) != 3 {
			t.Error("told again after its end")
		}
	})
}

// What a sub-session says goes to its parent, by its call there.
func TestUplink(t *testing.T) {
	withParent(t, nil, func(t *testing.T, p *parent, pid *actor.PID, others *[]told) {
		p.do(pid, func(of Session) {
			p.uplink.Report(p.env, of, time.Now(), conversation.Report{Status: conversation.CallOK, Summary: "found"})
		})
		if len(*others) != 1 || (*others)[0].key.Session != "aaaaaaaaaaaaaaaa" {
			t.Fatalf("told %+v", *others)
		}
		if done := (*others)[0].cmd.(conversation.DelegationDone); done.Delegation != "d1" || done.Summary != "found" {
			t.Errorf("%+v", done)
		}
		up := p.uplink.pid
		if p.uplink.Terminated(pid) || !p.uplink.Terminated(up) || p.uplink.Terminated(up) {
			t.Error("only the end of the uplink is one")
		}
		p.env.Send(up, &actor.PoisonPill{})
	})
}
