package agui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// event is an event as a client reads it, with the id that it was sent with ("" = none).
type event struct {
	id string
	m  map[string]any
}

func (e event) text(member string) string { s, _ := e.m[member].(string); return s }

// parse reads a stream.
func parse(stream []byte) (all []event, err error) {
	for block := range bytes.SplitSeq(bytes.TrimSpace(stream), []byte("\n\n")) {
		var e event
		for line := range bytes.SplitSeq(block, []byte("\n")) {
			if id, is := bytes.CutPrefix(line, []byte("id: ")); is {
				e.id = string(id)
			} else if data, is := bytes.CutPrefix(line, []byte("data: ")); is {
				if err := json.Unmarshal(data, &e.m); err != nil {
					return nil, fmt.Errorf("%s: %w", data, err)
				}
			}
		}
		if e.m != nil {
			all = append(all, e)
		}
	}
	return all, nil
}

// members are those that each event may have, and those that it must have, of schema.json 1.0. An
// event has no other ones: a client would take them away, and warn.
var members = map[string]string{
	runStarted: "threadId! runId! protocolVersion parentRunId input", runFinished: "threadId! runId! result outcome usage", runError: "message! code usage",
	textStart: "messageId! role name subagentRunId", textContent: "messageId! delta! subagentRunId", textEnd: "messageId! subagentRunId",
	toolStart: "toolCallId! toolCallName! parentMessageId subagentRunId", toolArgs: "toolCallId! delta! subagentRunId", toolEnd: "toolCallId! subagentRunId",
	toolResult:      "messageId! toolCallId! content! role subagentRunId",
	subagentStarted: "subagentRunId! name! description parentSubagentRunId parentToolCallId parentMessageId", subagentFinished: "subagentRunId! result outcome",
	subagentError: "subagentRunId! message! code", messagesSnapshot: "messages!", custom: "name! value! subagentRunId",
}

// verifier holds the rules of the protocol for the order of events, as verifyEvents of
// @ag-ui/client does. The judge asks that one, and this one is asked a million times.
type verifier struct {
	begun, finished, failed      bool
	texts, calls, agents, closed map[string]bool
	started                      []string // calls of this run
	answered                     map[string]bool
	list                         []shownMessage
}

// shownMessage is a message in a client's list.
type shownMessage struct {
	ID, Role, Content string
	Calls             []string
}

func newVerifier(list ...shownMessage) *verifier {
	return &verifier{texts: map[string]bool{}, calls: map[string]bool{}, agents: map[string]bool{}, closed: map[string]bool{}, answered: map[string]bool{}, list: list}
}

// add takes an event as a client does that begins with this list of messages.
func (v *verifier) add(e event) error {
	kind := e.text("type")
	fields, known := members[kind]
	if !known {
		return fmt.Errorf("%s is no event", kind)
	}
	fields = " type! timestamp rawEvent metadata " + fields + " "
	for name, value := range e.m {
		if !strings.Contains(fields, " "+name+" ") && !strings.Contains(fields, " "+name+"! ") || value == nil {
			return fmt.Errorf("%s has the member %s: %v", kind, name, value)
		}
	}
	for name := range strings.FieldsSeq(fields) {
		if must, is := strings.CutSuffix(name, "!"); is && e.m[must] == nil {
			return fmt.Errorf("%s has no %s", kind, must)
		}
	}
	switch {
	case v.failed || v.finished:
		return fmt.Errorf("%s comes after the end", kind)
	case !v.begun && kind != runStarted && kind != runError:
		return fmt.Errorf("%s comes first", kind)
	case v.begun && kind == runStarted:
		return fmt.Errorf("%s comes twice", kind)
	}
	id, call, agent := e.text("messageId"), e.text("toolCallId"), e.text("subagentRunId")
	message := slices.IndexFunc(v.list, func(m shownMessage) bool { return m.ID == id })
	open := func(set map[string]bool, id string, want bool) error {
		if set[id] != want {
			return fmt.Errorf("%s of %s, and open is %t", kind, id, set[id])
		}
		return nil
	}
	switch kind {
	case runStarted:
		v.begun = true
	case textStart:
		if err := open(v.texts, id, false); err != nil {
			return err
		}
		v.texts[id] = true
		if message >= 0 {
			return fmt.Errorf("%s of %s, which the client has: its text would come twice", kind, id)
		}
		v.list = append(v.list, shownMessage{ID: id, Role: e.text("role")})
	case textContent:
		if err := open(v.texts, id, true); err != nil {
			return err
		}
		v.list[message].Content += e.text("delta")
	case textEnd:
		if err := open(v.texts, id, true); err != nil {
			return err
		}
		delete(v.texts, id)
	case toolStart:
		if err := open(v.calls, call, false); err != nil {
			return err
		}
		v.calls[call] = true
		if slices.Contains(v.started, call) {
			return fmt.Errorf("%s of %s again: its arguments would come twice", kind, call)
		}
		v.started = append(v.started, call)
		v.list = append(v.list, shownMessage{ID: call, Role: "assistant", Calls: []string{call}})
	case toolArgs:
		return open(v.calls, call, true)
	case toolEnd:
		if err := open(v.calls, call, true); err != nil {
			return err
		}
		delete(v.calls, call)
	case toolResult:
		if v.answered[call] {
			return fmt.Errorf("%s of %s again", kind, call)
		}
		v.answered[call] = true
		v.list = append(v.list, shownMessage{ID: id, Role: "tool", Content: e.text("content")})
	case subagentStarted:
		if v.agents[agent] || v.closed[agent] {
			return fmt.Errorf("%s of %s again", kind, agent)
		}
		v.agents[agent] = true
	case subagentFinished, subagentError:
		if !v.agents[agent] {
			return fmt.Errorf("%s of %s, which has not begun", kind, agent)
		}
		delete(v.agents, agent)
		v.closed[agent] = true
	case messagesSnapshot:
		v.snapshot(e.m["messages"].([]any))
	case runFinished:
		v.finished = true
		if len(v.texts)+len(v.calls)+len(v.agents) > 0 {
			return fmt.Errorf("%s with texts %v, calls %v, agents %v open", kind, v.texts, v.calls, v.agents)
		}
		return v.pending(e)
	case runError:
		v.failed = true
	}
	return nil
}

// pending holds the rules of the outcome.
func (v *verifier) pending(e event) error {
	outcome, _ := e.m["outcome"].(map[string]any)
	var open []string
	for _, call := range v.started {
		if !v.answered[call] {
			open = append(open, call)
		}
	}
	switch outcome["type"] {
	case "success":
		named, _ := outcome["pendingToolCallIds"].([]any)
		for _, id := range named {
			i := slices.Index(open, id.(string))
			if i < 0 && slices.Contains(v.started, id.(string)) {
				return fmt.Errorf("%s is said to wait, and has a result", id)
			}
			if i >= 0 {
				open = slices.Delete(open, i, i+1)
			}
		}
	case "interrupt":
		if list, _ := outcome["interrupts"].([]any); len(list) == 0 {
			return fmt.Errorf("an interrupt that asks nothing")
		}
	case "cancelled":
	default:
		return fmt.Errorf("the outcome is %v", outcome)
	}
	return nil
}

// snapshot is what a client makes of a list: it takes away what is not in it, changes what is,
// and puts what it lacks at the end.
func (v *verifier) snapshot(list []any) {
	have := v.list
	v.list = nil
	in := map[string]shownMessage{}
	for _, m := range list {
		s := shown(m.(map[string]any))
		in[s.ID] = s
	}
	for _, m := range have {
		if s, is := in[m.ID]; is {
			v.list = append(v.list, s)
		}
	}
	for _, m := range list {
		s := shown(m.(map[string]any))
		if !slices.ContainsFunc(v.list, func(o shownMessage) bool { return o.ID == s.ID }) {
			v.list = append(v.list, s)
		}
	}
}

func shown(m map[string]any) shownMessage {
	content, _ := m["content"].(string)
	id, _ := m["id"].(string)
	role, _ := m["role"].(string)
	s := shownMessage{ID: id, Role: role, Content: content}
	calls, _ := m["toolCalls"].([]any)
	for _, c := range calls {
		s.Calls = append(s.Calls, c.(map[string]any)["id"].(string))
	}
	return s
}
