package shared

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"parley/conversation"
)

// What crosses between nodes, as JSON. Nodes of two versions run beside each other: a name
// keeps its meaning, and what is not known is passed over.

// request is what a node asks the one that runs the server.
type request struct {
	List *listAsked `json:"list,omitempty"`
	Call *callAsked `json:"call,omitempty"`
}

// listAsked asks for the tools, when they are others than those that are known.
type listAsked struct {
	Known string `json:"known"` // the version that is known; "" = none
}

// callAsked asks for a call.
type callAsked struct {
	Tool    string          `json:"tool"`
	Tenant  string          `json:"tenant"`
	Session string          `json:"session"`
	Task    string          `json:"task"`
	Call    string          `json:"call"`
	Args    json.RawMessage `json:"args"`
	Trace   string          `json:"trace,omitempty"` // ToolCall.TraceParent
}

// answer answers a request.
type answer struct {
	List *listed `json:"list,omitempty"`
	Text string  `json:"text,omitempty"`  // a call's result
	Fail string  `json:"error,omitempty"` // why it has none, for the model
}

// listed are the tools that the server has now.
type listed struct {
	Version string      `json:"version"`
	Tools   []toolShown `json:"tools"`
}

// toolShown is a tool as models and users know it.
type toolShown struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Approval    bool            `json:"approval"`
	Idempotent  bool            `json:"idempotent"`
	Timeout     time.Duration   `json:"timeout_ns"`
}

// meanwhile is what is said to the asker of a call before its answer.
type meanwhile struct {
	Progress *progressShown `json:"progress,omitempty"`
	Question *questionAsked `json:"question,omitempty"`
}

type progressShown struct {
	Note    string `json:"note"`
	Percent *int   `json:"percent,omitempty"`
}

type questionAsked struct {
	Text    string   `json:"text"`
	Choices []string `json:"choices,omitempty"`
}

// replied is what became of a question.
type replied struct {
	Text   string `json:"text"`
	Closed bool   `json:"closed,omitempty"` // without an answer
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // arguments were checked, and all else is text
	}
	return b
}

// show lists tools.
func show(tools []conversation.Tool) *listed {
	l := &listed{Tools: []toolShown{}}
	for _, t := range tools {
		s := t.Spec()
		l.Tools = append(l.Tools, toolShown{s.Name, s.Description, s.Schema, s.Approval, s.Idempotent, s.Timeout})
	}
	sum := sha256.Sum256(encode(l.Tools))
	l.Version = hex.EncodeToString(sum[:8])
	return l
}

func (t *toolShown) spec() conversation.ToolSpec {
	return conversation.ToolSpec{
		Name: t.Name, Description: t.Description, Schema: t.Schema, Approval: t.Approval, Idempotent: t.Idempotent, Timeout: t.Timeout,
	}
}
