package openai

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/conversation"
	"parley/models/modelstest"
)

// foreign is a request whose first call another model has made, and the second this one.
func foreign(origin string) conversation.Request {
	call := func(id, opaque string) conversation.Entry {
		item := conversation.Item{Kind: conversation.ItemCall, ID: id, Tool: "lookup", Args: "{}"}
		if opaque != "" {
			item.Opaque, item.OpaqueBy, item.OpaqueStays = opaque, origin, true
		}
		return conversation.Entry{Role: conversation.RoleAssistant, Items: []conversation.Item{item}}
	}
	result := func(id string) conversation.Entry {
		return conversation.Entry{Role: conversation.RoleTool, CallID: id, Text: "found"}
	}
	const signed = `{"call":{"extra_content":{"google":{"thought_signature":"own"}}}}`
	return conversation.Request{Entries: []conversation.Entry{
		{Role: conversation.RoleUser, Text: "find it"},
		call("toolu_0123456789abcdef", ""), result("toolu_0123456789abcdef"), call("aB3dE0001", signed), result("aB3dE0001"),
	}}
}

// signaturesSent are those of the calls that a model sends.
func signaturesSent(t *testing.T, o Options) (signatures []string) {
	t.Helper()
	o.API = Chat
	m, asked := serve(t, "application/json", `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`, o)
	if _, _, err := modelstest.Collect(t.Context(), m, foreign(m.Origin())); err != nil {
		t.Fatal(err)
	}
	for _, v := range (*asked)["messages"].([]any) {
		message := v.(map[string]any)
		calls, _ := message["tool_calls"].([]any)
		for _, v := range calls {
			if google, has := v.(map[string]any)["extra_content"].(map[string]any); has {
				signatures = append(signatures, google["google"].(map[string]any)["thought_signature"].(string))
			}
		}
	}
	return signatures
}

// A Gemini gets the signatures of its own calls back, and for calls of others the word that
// it documents for them. Nobody else is told of it.
func TestSignaturesOfOthersCalls(t *testing.T) {
	if got := signaturesSent(t, Options{Connection: Connection{Model: "gemini-3-flash-preview"}}); strings.Join(got, " ") != "skip_thought_signature_validator own" {
		t.Errorf("sent %q", got)
	}
	if got := signaturesSent(t, Options{}); strings.Join(got, " ") != "own" {
		t.Errorf("sent %q", got)
	}
}

// Groq's streams have the usage in a member of their own.
func TestUsageOfGroq(t *testing.T) {
	m, _ := serve(t, "text/event-stream", modelstest.SSE(
		`{"choices":[{"delta":{"content":"a"}}]}`,
		`{"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":11,"completion_tokens":7}}}`,
	), Options{API: Chat, Connection: streaming})
	_, done, err := modelstest.Collect(t.Context(), m, conversation.Request{Stream: true})
	if err != nil || done.Usage.Estimated || done.Usage.InputTokens != 11 || done.Usage.OutputTokens != 7 {
		t.Errorf("%+v %v", done, err)
	}
}

// Gemini's errors stand in a list of one.
func TestErrorInAList(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`[{"error":{"code":400,"message":"Cannot find field.","status":"INVALID_ARGUMENT"}}]`))
	}))
	defer server.Close()
	m, err := New(Options{API: Chat, Connection: Connection{Model: "m", BaseURL: server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	_, _, err = modelstest.Collect(t.Context(), m, conversation.Request{})
	failure, ok := errors.AsType[*conversation.ModelError](err)
	if !ok || !strings.Contains(failure.Err.Error(), "Cannot find field.") {
		t.Errorf("%+v", err)
	}
}
