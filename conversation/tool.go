package conversation

import (
	"context"
	"encoding/json"
	"time"
)

// ToolSpec describes a tool to the machine and to models.
type ToolSpec struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments, an object
	Approval    bool            // a person must allow each call
	Idempotent  bool            // may run again with the same call id after a crash
	Timeout     time.Duration   // 0 = tools.timeout
}

// Tool acts on the world. One Tool serves all sessions at once, so its methods may
// be called from any goroutine. Spec says whether it
// may run twice: a tool that is not Idempotent is never run again after a crash.
type Tool interface {
	Spec() ToolSpec
	// Check validates arguments without running anything; its error is shown to the model.
	Check(args json.RawMessage) error
	// Run runs once. An error is a result for the model (status error, or timeout
	// and cancelled when ctx ended); its text must be fit for a model and a client.
	Run(ctx context.Context, c ToolCall) (string, error)
}

// ToolCall describes one call to its tool.
type ToolCall struct {
	Key      SessionKey
	Task     TaskID
	Call     CallID
	Args     json.RawMessage
	Progress func(note string, percent *int) // never nil; may be called from any goroutine
}
