package conversation

import (
	"context"
	"encoding/json"
	"errors"
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
	Key  SessionKey
	Task TaskID
	Call CallID
	Args json.RawMessage
	// TraceParent goes to whoever does it as the W3C's header; "" = the task has no trace.
	TraceParent string
	Progress    func(note string, percent *int) // never nil; may be called from any goroutine
	// Ask asks the session's user and waits for the answer; meanwhile the call's time
	// stands still. Its error is ErrNoAnswer, or the context's. Never nil; one question
	// of a call at a time.
	Ask func(ctx context.Context, q ToolQuestion) (string, error)
}

// ToolQuestion is what a tool asks in the middle of a call.
type ToolQuestion struct {
	Text    string
	Choices []string // the answer is one of them; none = any text
}

// ErrNoAnswer says that a tool's question was closed without an answer.
var ErrNoAnswer = errors.New("the question was closed without an answer")
