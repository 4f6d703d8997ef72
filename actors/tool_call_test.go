package actors

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"parley/actors/actorstest"
	"parley/actors/internal/refusal"
	"parley/conversation"
	"parley/conversation/fit"
)

// withTool is a harness whose model has just called the tool "hammer".
func withTool(t *testing.T, spec conversation.ToolSpec, do func(context.Context, conversation.ToolCall) (string, error), f func(*testing.T, *harness, *actorstest.Tool)) {
	t.Helper()
	spec.Name = "hammer"
	tool := &actorstest.Tool{Is: spec, Do: do}
	withHarness(t, func(h *harness) { h.tools = map[string]conversation.Tool{"hammer": tool} }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hit it")))
		h.reply(actorstest.Use("x", "hammer", `{"nail":1}`))
		f(t, h, tool)
	})
}

// finished is the only tool_finished that is stored.
func (h *harness) finished() conversation.ToolFinished {
	h.t.Helper()
	synctest.Wait()
	var all []conversation.ToolFinished
	for _, e := range h.stored(mainKey) {
		if b, ok := e.Body.(conversation.ToolFinished); ok {
			all = append(all, b)
		}
	}
	if len(all) != 1 {
		h.t.Fatalf("%d calls have ended", len(all))
	}
	return all[0]
}

// A session that leaves stops its tools at once, also when messages wait behind it: a
// fenced one must not act any more.
func TestToolStopsWhenSessionLeaves(t *testing.T) {
	stopped := make(chan struct{})
	withTool(t, conversation.ToolSpec{}, func(ctx context.Context, _ conversation.ToolCall) (string, error) {
		<-ctx.Done()
		close(stopped)
		return "", ctx.Err()
	}, func(t *testing.T, h *harness, _ *actorstest.Tool) {
		pid := h.e.registry.Actor(mainKey)
		behind := make(pause)
		h.e.send(pid, &unloadNow{reason: "fenced", err: refusal.Unreachable()})
		h.e.send(pid, behind)
		synctest.Wait()
		select {
		case <-stopped:
		default:
			t.Error("the tool goes on")
		}
		close(behind)
	})
}

func untilCancelled(ctx context.Context, _ conversation.ToolCall) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func TestToolCall(t *testing.T) {
	t.Run("ok", func(t *testing.T) {
		withTool(t, conversation.ToolSpec{}, func(_ context.Context, c conversation.ToolCall) (string, error) {
			time.Sleep(time.Second)
			half := 50
			c.Progress("half", &half)
			return "args " + string(c.Args) + " of " + string(c.Call), nil
		}, func(t *testing.T, h *harness, _ *actorstest.Tool) {
			time.Sleep(2 * time.Second)
			if f := h.finished(); f.Status != conversation.CallOK || f.Summary != `args {"nail":1} of c1` || f.Took != time.Second {
				t.Errorf("%+v", f)
			}
			progress := false
			for _, s := range h.pub.Shown(mainKey) {
				if p, ok := s.What.(conversation.Progress); ok && p.Call == "c1" && p.Note == "half" && *p.Percent == 50 {
					progress = true
				}
			}
			if !progress {
				t.Error("its progress is not shown")
			}
			h.reply(actorstest.Text("done"))
			if h.active(mainKey) && len(h.view(mainKey).Calls) != 0 {
				t.Error("the call is still there")
			}
		})
	})
	t.Run("errors", func(t *testing.T) {
		withTool(t, conversation.ToolSpec{}, func(context.Context, conversation.ToolCall) (string, error) {
			return "", errors.New("the nail is bent")
		}, func(t *testing.T, h *harness, _ *actorstest.Tool) {
			if f := h.finished(); f.Status != conversation.CallError || f.Summary != "the nail is bent" {
				t.Errorf("%+v", f)
			}
			h.reply(actorstest.Text("done"))
		})
	})
	t.Run("panics", func(t *testing.T) {
		withTool(t, conversation.ToolSpec{}, func(context.Context, conversation.ToolCall) (string, error) {
			panic("secret")
		}, func(t *testing.T, h *harness, _ *actorstest.Tool) {
			if f := h.finished(); f.Status != conversation.CallError || strings.Contains(f.Summary, "secret") {
				t.Errorf("%+v", f)
			}
			h.reply(actorstest.Text("done"))
		})
	})
	t.Run("deadline", func(t *testing.T) {
		withTool(t, conversation.ToolSpec{Timeout: 10 * time.Second}, untilCancelled, func(t *testing.T, h *harness, _ *actorstest.Tool) {
			time.Sleep(10*time.Second + time.Millisecond)
			if f := h.finished(); f.Status != conversation.CallTimeout {
				t.Errorf("%+v", f)
			}
			h.reply(actorstest.Text("done"))
		})
	})
	t.Run("ignores its context", func(t *testing.T) {
		withTool(t, conversation.ToolSpec{Timeout: 10 * time.Second}, func(context.Context, conversation.ToolCall) (string, error) {
			time.Sleep(40 * time.Second)
			return "too late", nil
		}, func(t *testing.T, h *harness, _ *actorstest.Tool) {
			time.Sleep(20 * time.Second)
			if f := h.finished(); f.Status != conversation.CallTimeout {
				t.Errorf("%+v", f)
			}
			h.reply(actorstest.Text("done"))
			time.Sleep(30 * time.Second)
			h.finished() // once
		})
	})
	t.Run("N-06 cancelled and awaited", func(t *testing.T) {
		withTool(t, conversation.ToolSpec{}, func(ctx context.Context, _ conversation.ToolCall) (string, error) {
			<-ctx.Done()
			time.Sleep(3 * time.Second) // it cleans up
			return "", ctx.Err()
		}, func(t *testing.T, h *harness, _ *actorstest.Tool) {
			h.ok(h.tell(mainKey, conversation.Cancel{By: conversation.ByUser}))
			if n := h.count(mainKey, conversation.KindToolFinished); n != 0 {
				t.Error("it is not waited for")
			}
			time.Sleep(4 * time.Second)
			if f := h.finished(); f.Status != conversation.CallCancelled {
				t.Errorf("%+v", f)
			}
			if len(h.view(mainKey).Tasks) != 0 {
				t.Error("the task has not ended")
			}
		})
	})
	t.Run("N-06 cancelled and ignores its context", func(t *testing.T) {
		withTool(t, conversation.ToolSpec{}, func(context.Context, conversation.ToolCall) (string, error) {
			time.Sleep(30 * time.Second)
			return "", nil
		}, func(t *testing.T, h *harness, _ *actorstest.Tool) {
			h.ok(h.tell(mainKey, conversation.Cancel{By: conversation.ByUser}))
			time.Sleep(h.cfg.Rules.Policy.CancelGrace + 2*time.Second)
			if f := h.finished(); f.Status != conversation.CallUnknown {
				t.Errorf("%+v", f)
			}
			time.Sleep(30 * time.Second)
		})
	})
	t.Run("long output", func(t *testing.T) {
		long := strings.Repeat("ä", 200<<10) + "end"
		withTool(t, conversation.ToolSpec{}, func(context.Context, conversation.ToolCall) (string, error) {
			return long, nil
		}, func(t *testing.T, h *harness, _ *actorstest.Tool) {
			f := h.finished()
			if len(f.Summary) > h.cfg.ToolOutput || len(f.Summary) < h.cfg.ToolOutput-200 || !utf8.ValidString(f.Summary) ||
				!strings.HasPrefix(f.Summary, "ää") || !strings.HasSuffix(f.Summary, "ääend") || !strings.Contains(f.Summary, "left out") {
				t.Errorf("%d bytes", len(f.Summary))
			}
			h.reply(actorstest.Text("done"))
		})
		if s := fit.Middle("short", 5); s != "short" {
			t.Errorf("%q", s)
		}
	})
}

// N-07: a call that was open in a crash runs again only if that is harmless.
func TestToolAfterCrash(t *testing.T) {
	t.Run("unknown", func(t *testing.T) {
		withTool(t, conversation.ToolSpec{}, untilCancelled, func(t *testing.T, h *harness, tool *actorstest.Tool) {
			h.restart()
			if f := h.finished(); f.Status != conversation.CallUnknown || tool.Runs() != 1 {
				t.Errorf("%+v after %d runs", f, tool.Runs())
			}
			h.reply(actorstest.Text("done"))
		})
	})
	t.Run("idempotent", func(t *testing.T) {
		var args []string
		first := true
		withTool(t, conversation.ToolSpec{Idempotent: true}, func(ctx context.Context, c conversation.ToolCall) (string, error) {
			args = append(args, string(c.Call)+string(c.Args))
			if first {
				first = false
				return untilCancelled(ctx, c)
			}
			return "hit", nil
		}, func(t *testing.T, h *harness, tool *actorstest.Tool) {
			h.restart()
			if f := h.finished(); f.Status != conversation.CallOK || tool.Runs() != 2 || args[0] != args[1] {
				t.Errorf("%+v after %v", f, args)
			}
			h.reply(actorstest.Text("done"))
		})
	})
}
