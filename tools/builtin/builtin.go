package builtin

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"parley/conversation"
)

// Options are the options of the tools.
type Options struct {
	// Now is the clock; nil = time.Now.
	Now func() time.Time
	// Log is read by search_session; nil leaves that tool out.
	Log Log
}

// New makes the tools: clock, calculate, wait and search_session.
func New(o Options) []conversation.Tool {
	if o.Now == nil {
		o.Now = time.Now
	}
	tools := []conversation.Tool{newClock(o.Now), newCalculate(), newWait()}
	if o.Log != nil {
		tools = append(tools, newSearch(o.Log))
	}
	return tools
}

// argSchema is the part that all tools share: a spec and the check of its schema.
type argSchema struct {
	spec   conversation.ToolSpec
	schema *jsonschema.Resolved
}

// newArgSchema compiles the schema. A mistake in it is one of this program, found
// by any test, so it panics.
func newArgSchema(spec conversation.ToolSpec) argSchema {
	var schema jsonschema.Schema
	if err := json.Unmarshal(spec.Schema, &schema); err != nil {
		panic(fmt.Sprintf("the schema of %s: %v", spec.Name, err))
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		panic(fmt.Sprintf("the schema of %s: %v", spec.Name, err))
	}
	return argSchema{spec: spec, schema: resolved}
}

// Spec describes the tool.
func (c argSchema) Spec() conversation.ToolSpec { return c.spec }

// decode checks arguments against the schema and reads them. No arguments are
// an empty object. The error is fit for a model.
func (c argSchema) decode(args json.RawMessage, into any) error {
	if strings.TrimSpace(string(args)) == "" {
		args = json.RawMessage("{}")
	}
	var value any
	if err := json.Unmarshal(args, &value); err != nil {
		return fmt.Errorf("the arguments of %s are not JSON: %s", c.spec.Name, excerpt(err.Error()))
	}
	if err := c.schema.Validate(value); err != nil {
		return fmt.Errorf("the arguments do not fit %s: %s", c.spec.Name, excerpt(strings.TrimPrefix(err.Error(), "validating root: ")))
	}
	if err := json.Unmarshal(args, into); err != nil {
		return fmt.Errorf("the arguments do not fit %s: %s", c.spec.Name, excerpt(err.Error()))
	}
	return nil
}

// excerpt keeps what others wrote small and whole: libraries quote the input.
func excerpt(text string) string {
	return conversation.Excerpt(strings.ToValidUTF8(text, "�"), 300)
}
