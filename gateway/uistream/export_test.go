package uistream

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Rebuilt is the message that a client has after a stream, as JSON: the chunks are read as they
// are on the wire, and put together by the same rules. before is a stream that it has read the
// beginning of.
func Rebuilt(streams ...[]byte) string {
	m := &message{}
	for _, s := range streams {
		for event := range bytes.SplitSeq(s, []byte("\n\n")) {
			_, body, found := bytes.Cut(event, []byte("data: "))
			if !found || string(body) == "[DONE]" {
				continue
			}
			c, err := read(body)
			if err != nil {
				return err.Error() + ": " + string(body)
			}
			m.add(c)
		}
	}
	return string(m.append(nil))
}

var kinds = map[string]string{
	"message-metadata": metadata, "tool-input-start": toolBegins, "tool-input-delta": toolGrows, "tool-input-available": toolInput, "tool-output-available": toolOutput, "tool-output-error": toolError,
	"tool-output-denied": toolDenied, "tool-approval-request": approvalAsked, "tool-approval-response": approvalGiven, "steering-message": steering,
}

// read reads a chunk.
func read(b []byte) (*chunk, error) {
	var w struct {
		Type, MessageID, ID, Delta, ToolCallID, ToolName, ErrorText, ApprovalID, FinishReason, Reason, InputTextDelta string
		Approved, ProviderExecuted, Dynamic, Preliminary                                                              bool
		MessageMetadata, ProviderMetadata, ToolMetadata, Input, Output, Data, Parts                                   json.RawMessage
	}
	if err := json.Unmarshal(b, &w); err != nil {
		return nil, err
	}
	c := &chunk{kind: w.Type, id: w.MessageID + w.ID + w.ApprovalID, call: w.ToolCallID, tool: w.ToolName, text: w.Delta + w.ErrorText + w.FinishReason + w.Reason + w.InputTextDelta}
	c.json = string(w.MessageMetadata) + string(w.ProviderMetadata) + string(w.Input) + string(w.Output) + string(w.Data) + string(w.Parts)
	c.note, c.ours, c.dynamic, c.preliminary, c.approved = string(w.ToolMetadata), w.ProviderExecuted, w.Dynamic, w.Preliminary, w.Approved
	if kind := kinds[w.Type]; kind != "" {
		c.kind = kind
	}
	if name, is := strings.CutPrefix(w.Type, "data-"); is {
		c.kind, c.tool = data, name
	}
	return c, nil
}
