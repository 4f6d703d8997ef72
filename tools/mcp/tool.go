package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"parley/conversation"
)

// tool is a tool of a server. What models and people were told of it stays as
// it was at the start, whatever the server says later: an approval must not come
// to mean something else.
type tool struct {
	server   *server
	name     string // the server's
	spec     conversation.ToolSpec
	contract contract
	print    [32]byte
}

var _ conversation.Tool = (*tool)(nil)

func newTool(s *server, name, as string, f found) *tool {
	return &tool{server: s, name: name, contract: f.contract, print: f.print, spec: conversation.ToolSpec{
		Name:        as,
		Description: f.description,
		Schema:      f.contract.shown,
		Approval:    s.asks(name),
		Idempotent:  all(s.Idempotent, name),
		Timeout:     s.Timeout,
	}}
}

// Spec describes the tool.
func (t *tool) Spec() conversation.ToolSpec { return t.spec }

// Check refuses arguments that the schema refuses.
func (t *tool) Check(args json.RawMessage) error {
	_, err := t.contract.check(t.spec.Name, args)
	return err
}

// Run calls the server once. It never calls again by itself: what came of a call
// without an answer is not known.
func (t *tool) Run(ctx context.Context, call conversation.ToolCall) (string, error) {
	args, err := t.contract.check(t.spec.Name, call.Args)
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	answer, outcome, err := t.call(ctx, args, call.Progress)
	t.server.count(outcome)
	return answer, err
}

func (t *tool) call(ctx context.Context, args json.RawMessage, progress func(string, *int)) (string, Outcome, error) {
	s := t.server
	l, redact, err := s.reach(t.name)
	if err != nil {
		return "", CallUnavailable, err
	}
	var show func(string, *int)
	if progress != nil {
		show = func(note string, percent *int) { progress(short(printable(redact.clean(note))), percent) }
	}
	result, err := l.call(ctx, t.name, args, show)
	if err != nil {
		outcome, err := t.failure(ctx, redact, err)
		return "", outcome, err
	}
	if result.NeedsInput() {
		return "", CallError, fmt.Errorf("the server %s asks for more input, which it cannot be given", s.Name)
	}
	answer := redact.clean(text(result))
	if result.IsError {
		return "", CallError, errors.New(conversation.CutMiddle(answer, maxError))
	}
	return conversation.CutMiddle(answer, s.o.Limits.Result), CallOK, nil
}

// undelivered is the message of the library's own error for a request that a
// transport did not take; it looks like one of the server.
const undelivered = "rejected by transport"

// failure says in words for a model why a call has no result.
func (t *tool) failure(ctx context.Context, redact redactor, err error) (Outcome, error) {
	var refused *jsonrpc.Error
	switch {
	case ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded):
		return CallTimeout, err
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return CallCancelled, err
	case errors.As(err, &refused) && refused.Message != undelivered:
		return CallError, errors.New(conversation.CutMiddle(fmt.Sprintf("the server %s refused the call: %s", t.server.Name, redact.clean(or(strings.TrimSpace(refused.Message), "it gives no reason"))), maxError))
	}
	t.server.log.Warn("a call of an MCP server's tool has no result", "tool", t.spec.Name, "err", t.server.reason(err))
	return CallUnanswered, fmt.Errorf("the server %s gave no answer to the call; whether it was carried out is not known", t.server.Name)
}
