package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/conversation"
	"parley/conversation/fit"
	"parley/tools/mcp/internal/finite"
	"parley/tools/mcp/internal/form"
)

// A server may ask the user in the middle of a call (elicitation). Up to the version
// 2025-11-25 of the protocol it sends a request of its own, which does not say for which
// call; since then it answers the call with what it wants to know, and the call is made
// again with that.

// maxRounds is how often a call may be answered by wishes for more input.
const maxRounds = 10

// FormOutcomes are what may come of a form that a server wants filled in. Names of a
// closed set: fit for a metric's label.
func FormOutcomes() []string {
	return []string{string(form.Accept), string(form.Decline), string(form.Cancel)}
}

// asker is a call that runs, as one that may ask the user.
type asker struct {
	ctx context.Context // of the call
	ask form.Ask        // nil: nobody can be asked
	mu  sync.Mutex      // held while a form is filled in: one at a time
}

// elicit answers a request of the server that names no call. It belongs to the call that
// runs, if it is the only one of this connection; else nobody can know whose it is: it
// must not come before the user of another session.
func (s *server) elicit(ctx context.Context, l *connection, p *sdk.ElicitParams) (*sdk.ElicitResult, error) {
	l.mu.Lock()
	running := len(l.askers)
	var a *asker
	for a = range l.askers {
	}
	l.mu.Unlock()
	if running != 1 || a.ask == nil {
		s.log.Warn("an MCP server asks the user, and for which call is not known; it is declined", "calls", running)
		s.countForm(string(form.Decline))
		return &sdk.ElicitResult{Action: string(form.Decline)}, nil
	}
	r, err := s.fill(ctx, a, p)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	return r, nil
}

// fill asks the user of a call what a server wants to know.
func (s *server) fill(ctx context.Context, a *asker, p *sdk.ElicitParams) (*sdk.ElicitResult, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.ctx, cancel)()
	who := fmt.Sprintf("The MCP server %q", s.Name)
	clean := func(text string) string { return printable(s.cleaner().clean(text)) }
	text := fit.Middle(clean(p.Message), maxError)
	ask := func(ctx context.Context, q conversation.ToolQuestion) (string, error) { // its schema is the server's, too
		q.Text, q.Choices = clean(q.Text), slices.Clone(q.Choices)
		for i, choice := range q.Choices {
			q.Choices[i] = clean(choice)
		}
		return a.ask(ctx, q)
	}
	var action form.Action
	var content map[string]any
	var err error
	switch {
	case p.Mode == "url" || p.Mode == "" && p.URL != "":
		u, wrong := url.Parse(p.URL)
		if wrong != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return nil, fmt.Errorf("the address is none that a user may be sent to")
		}
		action, err = form.Visit(ctx, a.ask, who, text, u.String())
	case p.RequestedSchema == nil:
		action, content, err = form.Fill(ctx, ask, who, text, nil)
	default:
		var schema json.RawMessage
		if schema, err = json.Marshal(p.RequestedSchema); err == nil {
			var form map[string]any
			_ = json.Unmarshal(schema, &form)
			err = finite.Check(form) // the library checks the answers against it
		}
		if err == nil {
			action, content, err = form.Fill(ctx, ask, who, text, schema)
		}
	}
	if err != nil {
		s.log.Warn("a user could not be asked for an MCP server", "error", s.reason(err))
		return nil, err
	}
	s.countForm(string(action))
	return &sdk.ElicitResult{Action: string(action), Content: content}, nil
}

// inputs asks the user for everything that an answer to a call wants to know.
func (s *server) inputs(ctx context.Context, a *asker, r *sdk.CallToolResult) (sdk.InputResponseMap, error) {
	responses := sdk.InputResponseMap{}
	for _, id := range sorted(r.InputRequests) {
		p, ok := r.InputRequests[id].(*sdk.ElicitParams)
		if !ok || a == nil || !s.Elicitation {
			return nil, fmt.Errorf("the server %s asks for more input, which it cannot be given", s.Name)
		}
		answer, err := s.fill(ctx, a, p)
		if err != nil {
			return nil, err
		}
		responses[id] = answer
	}
	if len(responses) == 0 {
		return nil, fmt.Errorf("the server %s is busy and wants to be called later", s.Name)
	}
	return responses, nil
}

func (s *server) countForm(action string) {
	s.mu.Lock()
	s.forms[action]++
	s.mu.Unlock()
}
