package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/tokens"
)

// The policies that the configuration has no value for, only ceilings: what a session
// brings along.
const (
	keyCaller       = "tools.caller"
	keyInstructions = "instructions"
)

// Own is what a session brings for the requests to its model, beside the conversation:
// tools that its caller runs, and instructions. Only a root session has it, its
// delegations do not. It is never written to once it is made. nil = nothing.
type Own struct {
	Tools        []ToolRule // Callers
	Instructions string     // a wish of the session's owner; "" = none

	toolTokens int
}

// Tokens are those of the tools and the instructions.
func (o *Own) Tokens() int { return o.toolTokens + tokens.Of(o.Instructions) }

// Tool is the rule of a tool that the session's caller runs.
func (o *Own) Tool(name string) (ToolRule, bool) {
	if o != nil {
		for i := range o.Tools {
			if o.Tools[i].Spec.Name == name {
				return o.Tools[i], true
			}
		}
	}
	return ToolRule{}, false
}

// Beside is what an agent is always shown in the session: what it is shown anyway, without
// the tools that one of the caller hides, and then the caller's. An agent whose backend
// cannot call tools is shown none of them. What is given is not written to.
// Rule 5.13.
func (o *Own) Beside(always Always, agent Profile) Always {
	if o == nil || len(o.Tools) == 0 || !agent.EngineTools {
		return always
	}
	all := Always{Tools: make([]conversation.ToolSpec, 0, len(always.Tools)+len(o.Tools)), Tokens: always.Tokens + o.toolTokens}
	for i := range always.Tools {
		if _, hidden := o.Tool(always.Tools[i].Name); hidden {
			all.Tokens -= conversation.ToolTokens(always.Tools[i : i+1])
			continue
		}
		all.Tools = append(all.Tools, always.Tools[i])
	}
	for i := range o.Tools {
		all.Tools = append(all.Tools, o.Tools[i].Spec)
	}
	return all
}

// bytes is the size of the tools, as tools.max_caller_bytes counts it: names,
// descriptions and parameters without the space between their tokens.
func (o *Own) bytes() (n int) {
	if o != nil {
		for i := range o.Tools {
			s := &o.Tools[i].Spec
			n += len(s.Name) + len(s.Description) + len(s.Schema)
		}
	}
	return n
}

// with is o after a change; nil if nothing is left.
func (o *Own) with(change func(*Own)) *Own {
	var next Own
	if o != nil {
		next = *o
	}
	if change(&next); len(next.Tools) == 0 && next.Instructions == "" {
		return nil
	}
	specs := make([]conversation.ToolSpec, len(next.Tools))
	for i := range next.Tools {
		specs[i] = next.Tools[i].Spec
	}
	next.toolTokens = conversation.ToolTokens(specs)
	return &next
}

// CheckOwn refuses overrides that take so much of each request that a conversation with the
// agent has no room beside them: more than a third of what the agent's model is shown.
func (r *Rules) CheckOwn(agent conversation.AgentName, o conversation.Overrides) *conversation.Error {
	if o[keyCaller] == nil && o[keyInstructions] == nil {
		return nil // as in most sessions
	}
	var p Policy
	for _, key := range []string{keyCaller, keyInstructions} {
		if value := o[key]; value != nil {
			_ = overridable[key].set(&p, value) // what is wrong with it was said before, or it counts for nothing
		}
	}
	limits, _ := r.ContextOf(agent)
	if p.Own == nil || limits.Budget <= 0 || p.Own.Tokens() <= limits.Budget/3 {
		return nil
	}
	key := keyCaller
	if len(p.Own.Tools) == 0 {
		key = keyInstructions
	}
	return conversation.Errorf(conversation.BadRequest, "policy %s: the session's own tools and instructions take %d tokens of each request, and may take %d at most: a third of what the agent %q is shown",
		key, p.Own.Tokens(), limits.Budget/3, agent)
}

// What no administrator may exceed either: each request carries it, and each snapshot.
const (
	mostCaller       = 1024
	mostCallerBytes  = 1 << 20
	mostInstructions = 256 << 10
)

var caller = override{
	set: func(own *Policy, raw json.RawMessage) error {
		tools, err := callerTools(raw)
		if err != nil {
			return err
		}
		next := own.Own.with(func(o *Own) { o.Tools = tools })
		if next.bytes() > mostCallerBytes {
			return fmt.Errorf("must have at most %d bytes", mostCallerBytes)
		}
		own.Own = next
		return nil
	},
	above: func(own, configured *Policy) error {
		switch n, size := len(own.Own.Callers()), own.Own.bytes(); {
		case n > 0 && configured.MaxCaller == 0:
			return errors.New("no session may bring tools of its caller (tools.max_caller is 0)")
		case n > configured.MaxCaller:
			return fmt.Errorf("must have at most %d tools (tools.max_caller), and has %d", configured.MaxCaller, n)
		case size > configured.MaxCallerBytes:
			return fmt.Errorf("must have at most %d bytes of names, descriptions and parameters (tools.max_caller_bytes), and has %d", configured.MaxCallerBytes, size)
		}
		return nil
	},
}

// Callers are the tools that the session's caller runs, in the order in which they were given.
func (o *Own) Callers() []ToolRule {
	if o == nil {
		return nil
	}
	return o.Tools
}

// callerTools reads the value of tools.caller.
func callerTools(raw json.RawMessage) ([]ToolRule, error) {
	var list []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	d := json.NewDecoder(bytes.NewReader(canonical(raw))) // of two spellings of a name the same one counts as in the log
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil || list == nil {
		return nil, errors.New(`must be a list of tools, each with "name", and perhaps with "description" and "parameters"`)
	}
	if len(list) > mostCaller {
		return nil, fmt.Errorf("must have at most %d tools", mostCaller)
	}
	var tools []ToolRule
	for i, t := range list {
		if !toolName(t.Name) {
			return nil, fmt.Errorf("tool %d of the list: its name must have 1 to %d letters of ASCII, digits, _ and -", i+1, maxToolName)
		}
		if engineTool(t.Name) {
			return nil, fmt.Errorf("tool %d of the list: %s is the name of one of the engine's own tools, as all that begin with delegate are", i+1, t.Name)
		}
		if slices.ContainsFunc(tools, func(other ToolRule) bool { return other.Spec.Name == t.Name }) {
			return nil, fmt.Errorf("tool %d of the list: there is another one of the name %s", i+1, t.Name)
		}
		schema, err := parameters(t.Parameters)
		if err != nil {
			return nil, fmt.Errorf("tool %d of the list, %s: %w", i+1, t.Name, err)
		}
		if strings.IndexByte(t.Description, 0) >= 0 {
			return nil, fmt.Errorf("tool %d of the list, %s: its description must have no NUL", i+1, t.Name)
		}
		tools = append(tools, ToolRule{Spec: conversation.ToolSpec{Name: t.Name, Description: t.Description, Schema: schema}})
	}
	return tools, nil
}

// maxToolName is the longest name of a tool that all providers take.
const maxToolName = 64

func toolName(name string) bool {
	return name != "" && len(name) <= maxToolName && !strings.ContainsFunc(name, func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-')
	})
}

// engineTool is true for the names of the engine's own tools, also for those that an agent
// which is added one day would bring.
func engineTool(name string) bool {
	switch name {
	case conversation.ToolRespond, conversation.ToolAsk, conversation.ToolCover, conversation.ToolAmend:
		return true
	}
	return strings.HasPrefix(name, conversation.ToolDelegate)
}

// parameters is the schema of a tool's arguments, in the form in which each provider takes
// it: an object that says so, with properties, be it none. It is written the same way
// whether it comes from a client or from the log.
func parameters(raw json.RawMessage) (json.RawMessage, error) {
	schema := map[string]any{}
	if len(raw) > 0 && string(raw) != "null" {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber() // numbers keep their digits
		if err := d.Decode(&schema); err != nil || schema == nil {
			return nil, errors.New("its parameters must be a JSON object")
		}
		if json.Unmarshal(raw, new(map[string]any)) != nil { // models read them so
			return nil, errors.New("its parameters hold a number that is too large")
		}
	}
	switch schema["type"] {
	case nil:
		schema["type"] = "object"
	case "object":
	default:
		return nil, errors.New(`its parameters must be a schema of the type "object"`)
	}
	switch schema["properties"].(type) {
	case nil: // some providers insist on it
		schema["properties"] = map[string]any{}
	case map[string]any:
	default:
		return nil, errors.New("the properties of its parameters must be a JSON object")
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(schema); err != nil {
		return nil, errors.New("its parameters must be a JSON object")
	}
	return bytes.TrimSpace(text.Bytes()), nil
}

var instructions = override{
	set: func(own *Policy, raw json.RawMessage) error {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil || string(raw) == "null" || strings.IndexByte(s, 0) >= 0 {
			return errors.New("must be a text without NUL")
		}
		if len(s) > mostInstructions {
			return fmt.Errorf("must have at most %d bytes", mostInstructions)
		}
		own.Own = own.Own.with(func(o *Own) { o.Instructions = strings.TrimSpace(s) })
		return nil
	},
	above: func(own, configured *Policy) error {
		switch {
		case own.Own == nil || own.Own.Instructions == "":
			return nil
		case configured.MaxInstructions == 0:
			return errors.New("no session may bring instructions (session.max_instructions is 0)")
		case len(own.Own.Instructions) > configured.MaxInstructions:
			return fmt.Errorf("must have at most %d bytes (session.max_instructions), and has %d", configured.MaxInstructions, len(own.Own.Instructions))
		}
		return nil
	},
}

// Inherited are the overrides that a delegation takes with it: all but what the session
// brings for its own requests.
func Inherited(o conversation.Overrides) conversation.Overrides {
	if o[keyCaller] == nil && o[keyInstructions] == nil {
		return o
	}
	passed := conversation.Overrides{}
	for key, value := range o {
		if key != keyCaller && key != keyInstructions {
			passed[key] = value
		}
	}
	return passed
}
