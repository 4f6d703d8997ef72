package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"parley/conversation"
	"parley/tools/mcp/internal/finite"
)

// argSchema is the schema of a tool's arguments, in the form that models are shown
// and compiled.
type argSchema struct {
	shown   json.RawMessage
	compile *jsonschema.Resolved
	places  map[string]any // the schema as it is compiled
}

// newArgSchema makes a server's schema fit for models. A schema that the
// providers of models would refuse is an error: it would fail every request
// that carries it.
func newArgSchema(input any, limit int) (argSchema, error) {
	raw, err := json.Marshal(input)
	if err != nil {
		return argSchema{}, fmt.Errorf("its schema is not JSON: %w", err)
	}
	var schema map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil {
		return argSchema{}, errors.New("its schema is not an object")
	}
	if schema == nil {
		schema = map[string]any{}
	}
	switch schema["type"] {
	case nil:
		schema["type"] = "object"
	case "object":
	default:
		return argSchema{}, errors.New("its schema is not of type object")
	}
	if schema["properties"] == nil { // some providers insist on it
		schema["properties"] = map[string]any{}
	}
	shown, err := json.Marshal(schema)
	if err != nil {
		return argSchema{}, fmt.Errorf("its schema is not JSON: %w", err)
	}
	if len(shown) > limit {
		return argSchema{}, fmt.Errorf("its schema has %d bytes, more than %d", len(shown), limit)
	}
	if err := finite.Check(schema); err != nil {
		return argSchema{}, err
	}
	compiled, err := compile(shown)
	if err != nil {
		// Schemas are written for other regular expressions than Go's. Such a
		// pattern is left to the server, the rest is still checked here.
		dropPatterns(schema)
		lenient, _ := json.Marshal(schema)
		if compiled, err = compile(lenient); err != nil {
			return argSchema{}, fmt.Errorf("its schema cannot be compiled: %w", err)
		}
	}
	return argSchema{shown, compiled, schema}, nil
}

// Checker is the Check of a tool that runs elsewhere, whose schema is known from there.
func Checker(schema json.RawMessage, limit int) (func(tool string, args json.RawMessage) error, error) {
	s, err := newArgSchema(schema, limit)
	if err != nil {
		return nil, err
	}
	return func(tool string, args json.RawMessage) error { _, err := s.check(tool, args); return err }, nil
}

func compile(raw []byte) (*jsonschema.Resolved, error) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, err
	}
	return schema.Resolve(nil) // without a loader nothing is fetched from elsewhere
}

// dropPatterns removes patterns that are not regular expressions of Go.
func dropPatterns(node any) {
	switch node := node.(type) {
	case []any:
		for _, child := range node {
			dropPatterns(child)
		}
	case map[string]any:
		if text, ok := node["pattern"].(string); ok && !compiles(text) {
			delete(node, "pattern")
		}
		if patterns, ok := node["patternProperties"].(map[string]any); ok {
			for text := range patterns {
				if !compiles(text) {
					delete(patterns, text)
					// Properties that this pattern allowed must not be refused now.
					delete(node, "additionalProperties")
				}
			}
		}
		for key, child := range node {
			switch key {
			case "const", "enum", "default", "examples": // values, not schemas
			default:
				dropPatterns(child)
			}
		}
	}
}

func compiles(pattern string) bool {
	_, err := regexp.Compile(pattern)
	return err == nil
}

// checkSteps is how many steps a check may take: some tenths of a second.
const checkSteps = 200_000

// check refuses arguments that do not fit, in words for a model, and gives the
// rest in the form that is sent: no arguments are an empty object.
func (c argSchema) check(tool string, args json.RawMessage) (json.RawMessage, error) {
	if strings.TrimSpace(string(args)) == "" {
		args = json.RawMessage("{}")
	}
	var value any
	if err := json.Unmarshal(args, &value); err != nil {
		return nil, fmt.Errorf("the arguments of %s are not JSON: %s", tool, excerpt(err.Error()))
	}
	if finite.Nested(value) > finite.MaxNested {
		return nil, fmt.Errorf("the arguments of %s are nested more than %d deep", tool, finite.MaxNested)
	}
	// More is allowed for long arguments: each of their values takes some steps.
	if limit := checkSteps + 5*len(args); finite.Steps(c.places, value, limit) > limit {
		return nil, fmt.Errorf("the arguments of %s are too involved to be checked: nest them less deep", tool)
	}
	if err := c.compile.Validate(value); err != nil {
		return nil, fmt.Errorf("the arguments do not fit %s: %s", tool, excerpt(strings.TrimPrefix(err.Error(), "validating root: ")))
	}
	return args, nil
}

// excerpt cuts a text of others to 300 characters of valid UTF-8: errors of libraries
// quote the input.
func excerpt(text string) string {
	return conversation.Excerpt(strings.ToValidUTF8(text, "\uFFFD"), 300)
}
