package calls

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/conversation"
)

// asking is a tool that does what it likes with its way to the user.
type asking struct {
	runner
	run func(ctx context.Context, call conversation.ToolCall) (string, error)
}

func (a asking) Run(ctx context.Context, call conversation.ToolCall) (string, error) {
	return a.run(ctx, call)
}

// withAsker starts a call of a tool, which has a minute.
func withAsker(t *testing.T, run func(context.Context, conversation.ToolCall) (string, error), f func(t *testing.T, p *parent, pid *actor.PID)) {
	t.Helper()
	withParent(t, nil, func(t *testing.T, p *parent, pid *actor.PID, _ *[]told) {
		p.env.Tools["run"] = asking{run: run}
		p.do(pid, func(of Session) {
			p.set.RunTool(p.env, of, conversation.RunTool{Call: "c1", Tool: "run", Args: `{}`, Deadline: time.Now().Add(time.Minute)})
		})
		f(t, p, pid)
	})
}

func askOnce(ctx context.Context, call conversation.ToolCall) (string, error) {
	return call.Ask(ctx, conversation.ToolQuestion{Text: "For how many?", Choices: []string{"2", "4"}})
}

// heard are the commands that the calls have sent so far.
func (p *parent) heard(pid *actor.PID) (commands []conversation.Command) {
	p.do(pid, func(Session) { commands = slices.Clone(p.ends) })
	return commands
}

// said are their names.
func (p *parent) said(pid *actor.PID) string {
	var names []string
	for _, c := range p.heard(pid) {
		names = append(names, c.Name())
	}
	return strings.Join(names, " ")
}

func (p *parent) last(pid *actor.PID) conversation.Command {
	all := p.heard(pid)
	return all[len(all)-1]
}

// N-04: a tool's question goes to its session, and what the session says of it to the tool.
func TestToolAsks(t *testing.T) {
	answer := conversation.AnswerTool{Call: "c1", Text: "4", Answered: true}
	for _, c := range []struct {
		name   string
		reply  conversation.AnswerTool
		status conversation.CallStatus
		result string
	}{
		{"answered", answer, conversation.CallOK, "4"},
		{"closed", conversation.AnswerTool{Call: "c1"}, conversation.CallError, conversation.ErrNoAnswer.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			withAsker(t, askOnce, func(t *testing.T, p *parent, pid *actor.PID) {
				if asks, ok := p.heard(pid)[0].(conversation.ToolAsks); !ok || asks.Call != "c1" || asks.Text != "For how many?" || !slices.Equal(asks.Choices, []string{"2", "4"}) {
					t.Fatalf("%+v", p.heard(pid))
				}
				if p.set.RunsTools() {
					t.Error("a tool that waits for its user works")
				}
				p.do(pid, func(Session) { p.set.AnswerTool(p.env, c.reply) })
				if end := p.heard(pid)[1].(conversation.ToolDone); end.Status != c.status || end.Result != c.result {
					t.Errorf("%+v", end)
				}
				p.do(pid, func(Session) { p.set.AnswerTool(p.env, c.reply) }) // late: nobody waits
				if len(p.heard(pid)) != 2 || !p.set.RunsTools() {
					t.Errorf("said %s", p.said(pid))
				}
			})
		})
	}
}

// Rule 5.12: the call's time stands still while its question is open, and ends then at the
// deadline that the session says.
func TestTimeOfToolStandsStill(t *testing.T) {
	withAsker(t, func(ctx context.Context, call conversation.ToolCall) (string, error) {
		if _, err := askOnce(ctx, call); err != nil {
			return "", err
		}
		return untilDone(ctx)
	}, func(t *testing.T, p *parent, pid *actor.PID) {
		time.Sleep(time.Hour)
		synctest.Wait()
		if p.said(pid) != "tool_asks" {
			t.Fatalf("its time went on: %s", p.said(pid))
		}
		p.do(pid, func(Session) {
			p.set.AnswerTool(p.env, conversation.AnswerTool{Call: "c1", Answered: true, Deadline: time.Now().Add(30 * time.Second)})
		})
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if p.said(pid) != "tool_asks" {
			t.Fatalf("it ended too early: %+v", p.heard(pid))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if end, ok := p.last(pid).(conversation.ToolDone); !ok || end.Status != conversation.CallTimeout {
			t.Errorf("said %s", p.said(pid))
		}
	})
}

// One question of a call is open at a time: the session answers each once, in their order.
func TestToolAsksTwiceAtOnce(t *testing.T) {
	withAsker(t, func(ctx context.Context, call conversation.ToolCall) (string, error) {
		answers := make(chan string, 2)
		for range 2 {
			go func() { text, _ := askOnce(ctx, call); answers <- text }()
		}
		return <-answers + <-answers, nil
	}, func(t *testing.T, p *parent, pid *actor.PID) {
		for i, want := range []string{"tool_asks", "tool_asks tool_asks", "tool_asks tool_asks tool_done"} {
			if p.said(pid) != want {
				t.Fatalf("said %s, want %s", p.said(pid), want)
			}
			p.do(pid, func(Session) {
				p.set.AnswerTool(p.env, conversation.AnswerTool{Call: "c1", Text: string(rune('a' + i)), Answered: true})
			})
		}
		if end := p.heard(pid)[2].(conversation.ToolDone); end.Result != "ab" {
			t.Errorf("%+v", end)
		}
	})
}

// A tool that gives its question up says so, and asks the next when the session has
// closed the first.
func TestToolGivesItsQuestionUp(t *testing.T) {
	withAsker(t, func(ctx context.Context, call conversation.ToolCall) (string, error) {
		short, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if _, err := askOnce(short, call); !errors.Is(err, context.DeadlineExceeded) {
			return "", err
		}
		return askOnce(ctx, call)
	}, func(t *testing.T, p *parent, pid *actor.PID) {
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if p.said(pid) != "tool_asks tool_ask_ends" {
			t.Fatalf("said %s", p.said(pid))
		}
		p.do(pid, func(Session) { p.set.AnswerTool(p.env, conversation.AnswerTool{Call: "c1"}) })
		if p.said(pid) != "tool_asks tool_ask_ends tool_asks" {
			t.Fatalf("said %s", p.said(pid))
		}
		p.do(pid, func(Session) { p.set.AnswerTool(p.env, conversation.AnswerTool{Call: "c1", Text: "2", Answered: true}) })
		if end := p.heard(pid)[3].(conversation.ToolDone); end.Result != "2" {
			t.Errorf("%+v", end)
		}
	})
}

// A tool that is stopped while it asks hears of that, and its next question is none.
func TestToolIsStoppedWhileItAsks(t *testing.T) {
	withAsker(t, askOnce, func(t *testing.T, p *parent, pid *actor.PID) {
		p.do(pid, func(Session) { p.set.Stop(p.env, "c1") })
		if end, ok := p.last(pid).(conversation.ToolDone); !ok || end.Status != conversation.CallCancelled {
			t.Errorf("said %s", p.said(pid))
		}
	})
}

// What a tool asks is cut as its result is; choices cannot be.
func TestLongQuestions(t *testing.T) {
	long := strings.Repeat("x", 1000)
	withAsker(t, func(ctx context.Context, call conversation.ToolCall) (string, error) {
		if _, err := call.Ask(ctx, conversation.ToolQuestion{Text: "Which?", Choices: []string{"a", long}}); !errors.Is(err, conversation.ErrNoAnswer) {
			return "", err
		}
		return call.Ask(ctx, conversation.ToolQuestion{Text: long})
	}, func(t *testing.T, p *parent, pid *actor.PID) {
		if asks := p.heard(pid)[0].(conversation.ToolAsks); len(p.heard(pid)) != 1 || len(asks.Text) > 200 {
			t.Errorf("%+v", p.heard(pid))
		}
	})
}
