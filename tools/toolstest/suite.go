package toolstest

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"parley/conversation"
)

// Cases are arguments to try a tool with.
type Cases struct {
	Good []string // accepted, and run without an error
	Bad  []string // refused by Check
	Slow string   // accepted; runs until its context ends. "" = the tool is never slow
}

// Limits of the texts that a tool may bring into a model's context, in bytes.
const (
	maxResult      = 64 << 10
	maxError       = 2 << 10
	maxDescription = 1 << 10
)

// toolName matches the names that the providers of models accept.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Run runs the suite.
func Run(t *testing.T, tool conversation.Tool, c Cases) {
	if len(c.Good) == 0 || len(c.Bad) == 0 {
		t.Fatal("the suite needs arguments that are good and some that are bad")
	}
	t.Run("spec", func(t *testing.T) { runSpec(t, tool, c) })
	t.Run("good", func(t *testing.T) {
		for _, args := range c.Good {
			if err := tool.Check(json.RawMessage(args)); err != nil {
				t.Errorf("%s is refused: %v", args, err)
				continue
			}
			result, err := tool.Run(t.Context(), call(args))
			if err != nil {
				t.Errorf("%s: %v", args, err)
			}
			if !utf8.ValidString(result) || len(result) > maxResult || strings.TrimSpace(result) == "" {
				t.Errorf("%s: a result of %d bytes that is blank, too long or not UTF-8: %.100q", args, len(result), result)
			}
		}
	})
	t.Run("bad", func(t *testing.T) {
		bad := append([]string{`{`, `null`, `[]`, `"text"`, `7`, `{"no_such_argument":1}`}, c.Bad...)
		for _, args := range bad {
			err := tool.Check(json.RawMessage(args))
			if err == nil {
				t.Errorf("%s is accepted", args)
				continue
			}
			if text := err.Error(); !utf8.ValidString(text) || len(text) > maxError || strings.TrimSpace(text) == "" {
				t.Errorf("%.100s: the error is blank, too long or not UTF-8: %.100q", args, text)
			}
			// A refused call must do nothing, even if it is run.
			if result, err := tool.Run(t.Context(), call(args)); err == nil {
				t.Errorf("%.100s is refused by Check, and Run answers %q", args, result)
			}
		}
	})
	// N-06: a stop always works.
	t.Run("cancelled", func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := tool.Run(ended, call(c.Good[0])); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended Run returns %v", err)
		}
		if c.Slow == "" {
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := tool.Run(ctx, call(c.Slow))
			done <- err
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled Run returns %v", err)
		}
	})
}

func runSpec(t *testing.T, tool conversation.Tool, c Cases) {
	spec := tool.Spec()
	if !toolName.MatchString(spec.Name) {
		t.Errorf("the name %q does not match %s", spec.Name, toolName)
	}
	if spec.Description == "" || len(spec.Description) > maxDescription {
		t.Errorf("the description has %d bytes", len(spec.Description))
	}
	if spec.Timeout < 0 || spec.Timeout > time.Hour {
		t.Errorf("the timeout is %s", spec.Timeout)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(spec.Schema, &schema); err != nil {
		t.Fatalf("the schema cannot be read: %v", err)
	}
	if schema.Type != "object" {
		t.Errorf("the schema is of type %q: arguments are objects", schema.Type)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatalf("the schema cannot be compiled: %v", err)
	}
	for _, args := range c.Good {
		var value any
		if err := json.Unmarshal([]byte(args), &value); err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		if err := resolved.Validate(value); err != nil {
			t.Errorf("the schema refuses %s: %v", args, err)
		}
	}
	for name, property := range schema.Properties {
		if property.Description == "" {
			t.Errorf("the argument %s has no description", name)
		}
	}
}

func call(args string) conversation.ToolCall {
	return conversation.ToolCall{
		Key:      conversation.SessionKey{Tenant: "default", Session: "s1"},
		Call:     "c1",
		Args:     json.RawMessage(args),
		Progress: func(string, *int) {},
	}
}
