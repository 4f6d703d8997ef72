package toolstest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"parley/conversation"
)

// valve is a tool that opens and closes one valve.
type valve struct{ open bool }

var _ conversation.Tool = (*valve)(nil)

func (v *valve) Spec() conversation.ToolSpec {
	return conversation.ToolSpec{
		Name:        "set_valve",
		Description: "Opens or closes the valve.",
		Schema:      json.RawMessage(`{"type":"object","properties":{"open":{"type":"boolean"}},"required":["open"],"additionalProperties":false}`),
		Approval:    true, // it acts on the world: a person must allow each call
		Idempotent:  true, // a second run with the same arguments changes nothing
	}
}

func (v *valve) args(raw json.RawMessage) (open bool, err error) {
	var args struct {
		Open *bool `json:"open"`
	}
	if err := json.Unmarshal(raw, &args); err != nil || args.Open == nil {
		return false, errors.New("the arguments must be an object with open: true or false")
	}
	return *args.Open, nil
}

// Check must not change anything. A model is shown its error.
func (v *valve) Check(args json.RawMessage) error {
	_, err := v.args(args)
	return err
}

func (v *valve) Run(ctx context.Context, call conversation.ToolCall) (string, error) {
	open, err := v.args(call.Args)
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	call.Progress("turning the valve", nil)
	v.open = open
	return fmt.Sprintf("the valve is open: %v", v.open), nil
}

// A tool is a spec, a check of arguments, and a run.
func Example_tool() {
	var tool conversation.Tool = &valve{}
	fmt.Println(tool.Check(json.RawMessage(`{"open":"perhaps"}`)))

	result, err := tool.Run(context.Background(), conversation.ToolCall{
		Call: "c1", Args: json.RawMessage(`{"open":true}`),
		Progress: func(note string, _ *int) { fmt.Println("progress:", note) },
	})
	fmt.Println(result, err)
	// Output:
	// the arguments must be an object with open: true or false
	// progress: turning the valve
	// the valve is open: true <nil>
}
