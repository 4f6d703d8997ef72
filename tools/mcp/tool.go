package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/conversation"
	"parley/conversation/fit"
)

// tool is a tool of a server. Its description and schema stay as they were when it was
// first seen, even if the server changes them later: an approval must keep its meaning.
type tool struct {
	server      *server
	name        string // the server's
	spec        conversation.ToolSpec
	schema      argSchema
	fingerprint [32]byte
	read        reader // of a tool of ours; nil: the server's own
}

var _ conversation.Tool = (*tool)(nil)

func newTool(s *server, name, as string, f remoteTool) *tool {
	return &tool{server: s, name: name, schema: f.schema, fingerprint: f.fingerprint, read: f.read, spec: conversation.ToolSpec{
		Name:        as,
		Description: f.description,
		Schema:      f.schema.shown,
		Approval:    s.needsApproval(name),
		Idempotent:  f.read != nil || matchesAny(s.Idempotent, name),
		Timeout:     s.Timeout,
	}}
}

// Spec describes the tool.
func (t *tool) Spec() conversation.ToolSpec { return t.spec }

// Check refuses arguments that the schema refuses.
func (t *tool) Check(args json.RawMessage) error {
	_, err := t.schema.check(t.spec.Name, args)
	return err
}

// Run calls the server once. It never repeats a call whose answer was lost: whether it
// was carried out is not known. One that the server certainly did not take, because it
// does not know the session any more, is made once more, in a new one.
func (t *tool) Run(ctx context.Context, call conversation.ToolCall) (string, error) {
	args, err := t.schema.check(t.spec.Name, call.Args)
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	answer, outcome, err := t.call(ctx, args, call)
	t.server.count(outcome)
	return answer, err
}

func (t *tool) call(ctx context.Context, args json.RawMessage, call conversation.ToolCall) (string, Outcome, error) {
	s := t.server
	l, redact, err := s.connectionFor(t.name)
	if err != nil {
		return "", CallUnavailable, err
	}
	if t.read != nil {
		return t.readFrom(ctx, l, args)
	}
	var show func(string, *int)
	if call.Progress != nil {
		show = func(note string, percent *int) { call.Progress(excerpt(printable(redact.clean(note))), percent) }
	}
	var a *asker
	if call.Ask != nil {
		asking, cancel := context.WithCancel(ctx)
		defer cancel() // what is still asked when the call has ended helps nobody
		a = &asker{ctx: asking, ask: call.Ask}
	}
	params := &sdk.CallToolParams{Meta: sdk.Meta{}, Name: t.name, Arguments: args}
	if call.TraceParent != "" { // where the protocol has it, whatever it is spoken over
		params.Meta["traceparent"] = call.TraceParent
	}
	result, err := l.call(ctx, params, a, show)
	if errors.Is(err, errNotTaken) {
		switch l, redact, err = s.connectionAfter(ctx, t.name, l); {
		case err == nil:
			result, err = l.call(ctx, params, a, show)
		case ctx.Err() == nil:
			return "", CallUnavailable, err
		}
	}
	for round := 0; err == nil && result.NeedsInput(); round++ {
		if round == maxRounds {
			return "", CallError, fmt.Errorf("the server %s does not stop asking", s.Name)
		}
		if params.InputResponses, err = s.inputs(ctx, a, result); err != nil && ctx.Err() == nil {
			return "", CallError, err
		} else if err == nil {
			params.RequestState = result.RequestState
			result, err = l.call(ctx, params, a, show)
		}
	}
	if err != nil {
		outcome, err := t.failure(ctx, redact, err)
		return "", outcome, err
	}
	answer := redact.clean(resultText(result))
	if result.IsError {
		return "", CallError, errors.New(fit.Middle(answer, maxError))
	}
	return fit.Middle(answer, s.o.Limits.Result), CallOK, nil
}

// readFrom runs a tool of ours.
func (t *tool) readFrom(ctx context.Context, l *connection, args json.RawMessage) (string, Outcome, error) {
	limits := &t.server.o.Limits
	read := func() (string, error) {
		defer l.mayAsk(ctx, &asker{ctx: ctx})()
		return t.read(ctx, l, args, limits)
	}
	text, err := read()
	redact := t.server.cleaner()
	if errors.Is(err, errNotTaken) {
		switch l, redact, err = t.server.connectionAfter(ctx, t.name, l); {
		case err == nil:
			text, err = read()
		case ctx.Err() == nil:
			return "", CallUnavailable, err
		}
	}
	switch {
	case errors.Is(err, errWantsInput):
		return "", CallError, err
	case err != nil:
		outcome, err := t.failure(ctx, redact, err)
		return "", outcome, err
	}
	return fit.Middle(redact.clean(text), limits.Result), CallOK, nil
}

// undelivered is the message of the library's error for a request that could not be
// sent. The library gives it the type of an error of the server.
const undelivered = "rejected by transport"

// failure says why a call has no result: as an outcome, and as an error written for
// the model.
func (t *tool) failure(ctx context.Context, redact redactor, err error) (Outcome, error) {
	var refused *jsonrpc.Error
	switch {
	case ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded):
		return CallTimeout, err
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return CallCancelled, err
	case errors.Is(err, errNotTaken):
		return CallUnavailable, fmt.Errorf("the server %s did not take the call; it was not carried out", t.server.Name)
	case errors.As(err, &refused) && refused.Message != undelivered:
		return CallError, errors.New(fit.Middle(fmt.Sprintf("the server %s refused the call: %s", t.server.Name, redact.clean(orElse(strings.TrimSpace(refused.Message), "it gives no reason"))), maxError))
	}
	t.server.log.Warn("a call of an MCP server's tool has no result", "tool", t.spec.Name, "error", t.server.reason(err))
	return CallUnanswered, fmt.Errorf("the server %s gave no answer to the call; whether it was carried out is not known", t.server.Name)
}
