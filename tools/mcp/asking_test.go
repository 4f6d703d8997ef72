package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/conversation"
)

var orderForm = &sdk.ElicitParams{
	Message: "Which pizza?\x00",
	RequestedSchema: map[string]any{"type": "object", "required": []string{"size"}, "properties": map[string]any{
		"size": map[string]any{"type": "string", "oneOf": []map[string]any{{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}}},
		"many": map[string]any{"type": "integer", "minimum": 1},
	}},
}

// shop is a peer that asks in the middle of a call: by a request of its own, or by what
// it answers to the call, as the version of the protocol demands.
func shop(p *peer, form *sdk.ElicitParams, byAnswer bool) {
	add(p, "order", "Orders.", func(ctx context.Context, r *sdk.CallToolRequest, _ noArgs) (*sdk.CallToolResult, error) {
		var answer *sdk.ElicitResult
		if byAnswer {
			if len(r.Params.InputResponses) == 0 {
				return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": form}, RequestState: "half"}, nil
			}
			if answer, _ = r.Params.InputResponses["q"].(*sdk.ElicitResult); answer == nil || r.Params.RequestState != "half" {
				return nil, errors.New("that is no answer")
			}
		} else {
			p.started <- struct{}{}
			var err error
			if answer, err = r.Session.Elicit(ctx, form); err != nil {
				return nil, err
			}
		}
		return said(fmt.Sprint(answer.Action, " ", answer.Content["size"], " ", answer.Content["many"])), nil
	})
}

// asked is a call whose user gives these answers.
func asked(args string, questions *[]conversation.ToolQuestion, answers ...string) conversation.ToolCall {
	c := call(args)
	c.Ask = func(ctx context.Context, q conversation.ToolQuestion) (string, error) {
		*questions = append(*questions, q)
		if len(answers) < len(*questions) {
			return "", conversation.ErrNoAnswer
		}
		return answers[len(*questions)-1], nil
	}
	return c
}

// A server's question in the middle of a call is a question to the user, one for each
// field, whichever way the server asks.
func TestServerAsksTheUser(t *testing.T) {
	for way, byAnswer := range map[string]bool{"2025-11-25": false, "2025-06-18": false, "": true} {
		t.Run("protocol "+way, func(t *testing.T) {
			p := newPeer()
			shop(p, orderForm, byAnswer)
			w := inMemory(t, single(p, func(o *Options) { o.Servers[0].Protocol = way }), always(p)).open()
			for _, c := range []struct {
				answers, want string
				asked         int
			}{
				{"large|2", "accept l 2", 2}, {"Large|skip", "accept l <nil>", 2}, {"decline", "decline <nil> <nil>", 1},
				{"Large", "cancel <nil> <nil>", 2}, {"huge|Small|0|1", "accept s 1", 4},
			} {
				var questions []conversation.ToolQuestion
				got, err := w.tool("peer_order").Run(t.Context(), asked(`{}`, &questions, strings.Split(c.answers, "|")...))
				if err != nil || got != c.want || len(questions) != c.asked {
					t.Errorf("%s: %q, %v after %d questions", c.answers, got, err, len(questions))
				}
				if q := questions[0]; !strings.HasPrefix(q.Text, "The MCP server \"peer\" asks: Which pizza?\n") || !slices.Equal(q.Choices, []string{"Small", "Large", "decline"}) {
					t.Errorf("the question is %q", q)
				}
			}
			w.counted(map[Outcome]int{CallOK: 5})
			if got := w.Status()[0].Forms; !maps.Equal(got, map[string]int{"accept": 3, "decline": 1, "cancel": 1}) {
				t.Errorf("the forms are counted as %v", got)
			}
		})
	}
}

func TestServerSendsTheUserToAnAddress(t *testing.T) {
	for address, want := range map[string]string{"https://example.org/sign?in=1": "accept <nil> <nil>", "javascript:alert(1)": "!none that a user may be sent to"} {
		for way, byAnswer := range map[string]bool{"2025-11-25": false, "": true} {
			p := newPeer()
			shop(p, &sdk.ElicitParams{Mode: "url", Message: "Sign in", URL: address, ElicitationID: "e1"}, byAnswer)
			w := inMemory(t, single(p, func(o *Options) { o.Servers[0].Protocol = way }), always(p)).open()
			var questions []conversation.ToolQuestion
			got, err := w.tool("peer_order").Run(t.Context(), asked(`{}`, &questions, "done"))
			if failure, ok := strings.CutPrefix(want, "!"); ok {
				if err == nil || !strings.Contains(err.Error(), failure) || len(questions) > 0 {
					t.Errorf("%q: %q, %v", address, got, err)
				}
			} else if err != nil || got != want || !strings.Contains(questions[0].Text, address) {
				t.Errorf("%q: %q, %v, %q", address, got, err, questions)
			}
		}
	}
}

// Of two calls that run on one connection nobody knows which one asks; alone it is known.
func TestServerAsksDuringTwoCalls(t *testing.T) {
	p := newPeer()
	shop(p, orderForm, false)
	w := inMemory(t, single(p, func(o *Options) { o.Servers[0].Protocol = "2025-11-25" }), always(p)).open()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	go func() {
		_, err := w.tool("peer_slow").Run(ctx, asked(`{}`, new([]conversation.ToolQuestion)))
		ended <- err
	}()
	<-p.started
	var questions []conversation.ToolQuestion
	got, err := w.tool("peer_order").Run(t.Context(), asked(`{}`, &questions, "Large", "1"))
	if err != nil || got != "decline <nil> <nil>" || len(questions) > 0 || !strings.Contains(w.log.String(), "for which call is not known") {
		t.Errorf("%q, %v, %q", got, err, questions)
	}
	<-p.started
	cancel()
	<-ended
}

// A server may go on with a call that was stopped, and ask for that: it is not the user of
// another call who answers. After a while that call is forgotten.
func TestServerAsksForACallThatWasStopped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPeer()
		shop(p, orderForm, false)
		told := make(chan string, 1)
		add(p, "stubborn", "Goes on.", func(ctx context.Context, r *sdk.CallToolRequest, _ noArgs) (*sdk.CallToolResult, error) {
			p.started <- struct{}{}
			<-p.release
			answer, err := r.Session.Elicit(context.WithoutCancel(ctx), orderForm)
			if err == nil {
				told <- answer.Action
			}
			return said("done"), err
		})
		w := inMemory(t, single(p, func(o *Options) { o.Servers[0].Protocol = "2025-11-25" }), always(p)).open()
		start := func(tool string, questions *[]conversation.ToolQuestion) (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if got, err := w.tool(tool).Run(ctx, asked(`{}`, questions, "Large", "1")); !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %q, %v", tool, got, err)
				}
			}()
			<-p.started
			return func() { cancel(); <-ended }
		}
		var mine, theirs []conversation.ToolQuestion
		start("peer_stubborn", &theirs)()
		stop := start("peer_slow", &mine)
		p.release <- struct{}{}
		if action := <-told; action != "decline" || len(mine)+len(theirs) > 0 {
			t.Errorf("%s, asked %q and %q", action, mine, theirs)
		}
		stop()
		<-time.After(lingers)
		synctest.Wait()
		if got, err := w.tool("peer_order").Run(t.Context(), asked(`{}`, &mine, "Large", "1")); err != nil || got != "accept l 1" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// Nor is it the user of a call that runs while another reads from the server.
func TestServerAsksDuringAReading(t *testing.T) {
	p := newPeer()
	shop(p, orderForm, false)
	entered, leave := make(chan struct{}), make(chan struct{})
	p.AddResource(&sdk.Resource{URI: "book://1", Name: "book"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		close(entered)
		<-leave
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "book://1", Text: "text"}}}, nil
	})
	w := inMemory(t, single(p, func(o *Options) { o.Servers[0].Protocol = "2025-11-25" }), always(p)).open()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run("peer_read_resource", `{"uri":"book://1"}`, "text")
	}()
	<-entered
	var questions []conversation.ToolQuestion
	got, err := w.tool("peer_order").Run(t.Context(), asked(`{}`, &questions, "Large", "1"))
	if err != nil || got != "decline <nil> <nil>" || len(questions) > 0 {
		t.Errorf("%q, %v, %q", got, err, questions)
	}
	close(leave)
	<-ended
}

// A question ends with its call, and a server that is not to ask cannot.
func TestAskingEnds(t *testing.T) {
	for way, byAnswer := range map[string]bool{"2025-11-25": false, "": true} {
		t.Run("the call is cancelled, "+way, func(t *testing.T) {
			p := newPeer()
			shop(p, orderForm, byAnswer)
			w := inMemory(t, single(p, func(o *Options) { o.Servers[0].Protocol = way }), always(p)).open()
			ctx, cancel := context.WithCancel(t.Context())
			c := call(`{}`)
			var wg sync.WaitGroup
			wg.Add(1)
			c.Ask = func(ctx context.Context, _ conversation.ToolQuestion) (string, error) {
				defer wg.Done()
				cancel()
				<-ctx.Done()
				return "", ctx.Err()
			}
			if got, err := w.tool("peer_order").Run(ctx, c); !errors.Is(err, context.Canceled) {
				t.Errorf("%q, %v", got, err)
			}
			wg.Wait()
			w.counted(map[Outcome]int{CallCancelled: 1})
		})
		t.Run("it must not ask, "+way, func(t *testing.T) {
			p := newPeer()
			shop(p, orderForm, byAnswer)
			w := inMemory(t, single(p, func(o *Options) { o.Servers[0].Protocol, o.Servers[0].Elicitation = way, false }), always(p)).open()
			var questions []conversation.ToolQuestion
			if got, err := w.tool("peer_order").Run(t.Context(), asked(`{}`, &questions, "Large", "1")); err == nil || len(questions) > 0 {
				t.Errorf("%q, %v, %q", got, err, questions)
			}
		})
	}
	t.Run("it does not stop", func(t *testing.T) {
		p := newPeer()
		add(p, "more", "Wants more and more.", func(context.Context, *sdk.CallToolRequest, noArgs) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": &sdk.ElicitParams{Message: "More?"}}}, nil
		})
		w := inMemory(t, single(p), always(p)).open()
		var questions []conversation.ToolQuestion
		_, err := w.tool("peer_more").Run(t.Context(), asked(`{}`, &questions, slices.Repeat([]string{"accept"}, 99)...))
		if err == nil || !strings.Contains(err.Error(), "does not stop asking") || len(questions) != maxRounds {
			t.Errorf("%v after %d questions", err, len(questions))
		}
	})
	for name, form := range map[string]sdk.InputRequest{"a form that is none": &sdk.ElicitParams{RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "object"}}}}, "nothing": nil} {
		t.Run(name, func(t *testing.T) {
			p := newPeer()
			add(p, "odd", "Wants something else.", func(context.Context, *sdk.CallToolRequest, noArgs) (*sdk.CallToolResult, error) {
				wants := sdk.InputRequestMap{}
				if form != nil {
					wants["q"] = form
				}
				return &sdk.CallToolResult{InputRequests: wants}, nil
			})
			w := inMemory(t, single(p), always(p)).open()
			w.run("peer_odd", `{}`, "!the server peer ")
			w.counted(map[Outcome]int{CallError: 1})
		})
	}
}

// Whatever a form shows is the server's word, which may hold a secret that it was given.
func TestFormsWithSecrets(t *testing.T) {
	p := newPeer()
	shop(p, &sdk.ElicitParams{Message: "The key is sesame-1", RequestedSchema: map[string]any{"type": "object", "required": []string{"size"}, "properties": map[string]any{
		"size": map[string]any{"type": "string", "title": "For sesame-1", "description": "\x1b[2Jnot sesame-1", "enum": []string{"sesame-1", "l"}},
	}}}, true)
	w := withSecret(inMemory(t, single(nil), always(p)), "sesame-1").open()
	var questions []conversation.ToolQuestion
	got, err := w.tool("peer_order").Run(t.Context(), asked(`{}`, &questions, "l"))
	want := "The MCP server \"peer\" asks: The key is [secret]\nFor [secret]: [2Jnot [secret]"
	if err != nil || got != "accept l <nil>" || len(questions) != 1 || questions[0].Text != want || !slices.Equal(questions[0].Choices, []string{"[secret]", "l", "decline"}) {
		t.Errorf("%q, %v, asked %q", got, err, questions)
	}
}

// The library checks what a user has filled in against the form's schema.
func TestEndlessForms(t *testing.T) {
	for way, byAnswer := range map[string]bool{"2025-11-25": false, "": true} {
		p := newPeer()
		shop(p, &sdk.ElicitParams{Message: "?", RequestedSchema: map[string]any{"type": "object", "allOf": []any{map[string]any{"$ref": "#"}}}}, byAnswer)
		w := inMemory(t, single(p, func(o *Options) { o.Servers[0].Protocol = way }), always(p)).open()
		var questions []conversation.ToolQuestion
		if got, err := w.tool("peer_order").Run(t.Context(), asked(`{}`, &questions, "accept")); err == nil || !strings.Contains(err.Error(), "without end") || len(questions) > 0 {
			t.Errorf("%q, %v, asked %q", got, err, questions)
		}
	}
}
