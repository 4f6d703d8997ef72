package shared

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/member"
)

// Answer answers a node, where Run runs. It is false if nothing was done: the server does not
// run here.
func (s *Single) Answer(ctx context.Context, body []byte, back Back) (reply []byte, taken bool) {
	var r request
	if err := json.Unmarshal(body, &r); err != nil {
		return encode(answer{Fail: "the node that runs the server cannot read the request"}), true
	}
	switch {
	case r.List != nil:
		return s.answerList(ctx, r.List.Known)
	case r.Call != nil:
		return s.answerCall(ctx, r.Call, back)
	}
	return encode(answer{Fail: "the node that runs the server does not know the request"}), true
}

// answerList shows the tools, when they are others than those that are known, or after a while.
func (s *Single) answerList(ctx context.Context, known string) ([]byte, bool) {
	over := time.NewTimer(longPoll)
	defer over.Stop()
	for ended := false; ; {
		s.mu.Lock()
		list, changed := s.list, s.changed
		s.mu.Unlock()
		if list == nil {
			return nil, false
		}
		if ended || list.Version != known {
			return encode(answer{List: list}), true
		}
		select {
		case <-changed:
		case <-over.C:
			ended = true
		case <-ctx.Done():
			ended = true
		}
	}
}

// answerCall makes a call.
func (s *Single) answerCall(ctx context.Context, c *callAsked, back Back) ([]byte, bool) {
	servers := s.enter()
	if servers == nil {
		return nil, false
	}
	defer s.leave()
	var tool conversation.Tool
	for _, t := range servers.Tools() {
		if t.Spec().Name == c.Tool {
			tool = t
		}
	}
	if tool == nil {
		return encode(answer{Fail: fmt.Sprintf("the server %s does not have this tool any more", s.o.Name)}), true
	}
	text, err := tool.Run(ctx, conversation.ToolCall{
		Key:  conversation.SessionKey{Tenant: conversation.TenantID(c.Tenant), Session: conversation.SessionID(c.Session)},
		Task: conversation.TaskID(c.Task), Call: conversation.CallID(c.Call), Args: c.Args, TraceParent: c.Trace,
		Progress: func(note string, percent *int) {
			back.Tell(encode(meanwhile{Progress: &progressShown{note, percent}}))
		},
		Ask: func(ctx context.Context, q conversation.ToolQuestion) (string, error) {
			out, err := back.Ask(ctx, encode(meanwhile{Question: &questionAsked{q.Text, q.Choices}}))
			var r replied
			switch {
			case err != nil && ctx.Err() != nil:
				return "", ctx.Err()
			case err != nil || json.Unmarshal(out, &r) != nil || r.Closed:
				return "", conversation.ErrNoAnswer
			}
			return r.Text, nil
		},
	})
	if err != nil {
		return encode(answer{Fail: err.Error()}), true
	}
	return encode(answer{Text: text}), true
}

// remote is a tool of the server, on any node.
type remote struct {
	server *Single
	spec   conversation.ToolSpec
	check  func(tool string, args json.RawMessage) error
}

var _ conversation.Tool = (*remote)(nil)

// Spec describes the tool as it was first seen.
func (t *remote) Spec() conversation.ToolSpec { return t.spec }

// Check refuses arguments that the schema refuses.
func (t *remote) Check(args json.RawMessage) error { return t.check(t.spec.Name, args) }

// Run has the call made on the node that runs the server.
func (t *remote) Run(ctx context.Context, c conversation.ToolCall) (string, error) {
	s := t.server
	if err := t.Check(c.Args); err != nil {
		return "", err
	}
	args := c.Args
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	out, err := s.o.Ask(ctx, encode(request{Call: &callAsked{
		Tool: t.spec.Name, Tenant: string(c.Key.Tenant), Session: string(c.Key.Session), Task: string(c.Task), Call: string(c.Call), Args: args, Trace: c.TraceParent,
	}}), askWait, func(ctx context.Context, body []byte) ([]byte, error) { return hear(ctx, c, body) })
	var a answer
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, member.ErrNotRunning):
		return "", fmt.Errorf("the server %s runs on no node at the moment; the call was not made, and may be made again", s.o.Name)
	case errors.Is(err, member.ErrUnanswered), err == nil && json.Unmarshal(out, &a) != nil:
		s.log.Warn("a call of a tool on another node has no result", "tool", t.spec.Name, "error", err)
		return "", fmt.Errorf("the server %s gave no answer to the call; whether it was carried out is not known", s.o.Name)
	case err != nil:
		return "", fmt.Errorf("the call of the server %s was not made: %w", s.o.Name, err)
	case a.Fail != "":
		return "", errors.New(a.Fail)
	}
	return a.Text, nil
}

// hear takes what the other node says and asks during a call.
func hear(ctx context.Context, c conversation.ToolCall, body []byte) ([]byte, error) {
	var m meanwhile
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, err
	}
	switch {
	case m.Progress != nil:
		c.Progress(m.Progress.Note, m.Progress.Percent)
		return nil, nil
	case m.Question != nil:
		text, err := c.Ask(ctx, conversation.ToolQuestion{Text: m.Question.Text, Choices: m.Question.Choices})
		switch {
		case errors.Is(err, conversation.ErrNoAnswer):
			return encode(replied{Closed: true}), nil
		case err != nil:
			return nil, err
		}
		return encode(replied{Text: text}), nil
	}
	return nil, errors.New("it is not known what the other node wants")
}
