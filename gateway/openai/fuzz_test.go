package openai

import (
	"errors"
	"strings"
	"testing"

	"parley/conversation"
	"parley/gateway/openai/internal/request"
)

// refused is false for an error that is not the client's.
func refused(err error) bool {
	var own *request.Refusal
	return errors.As(err, &own) && own.Status >= 400 && own.Status < 500 && own.Message != ""
}

// Whatever a request is, it is read or refused with a sentence, and what is read says something.
func FuzzReadCreate(f *testing.F) {
	for _, seed := range []string{
		`{"input":"hello","model":"parley"}`, `{"input":[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:image/png;base64,AA=="}]}]}`,
		`{"input":[{"role":"user","content":"a"},{"type":"function_call","call_id":"call_c1-t1-S"},{"type":"function_call_output","call_id":"call_c1-t1-S","output":[{"type":"input_text","text":"x"}]}]}`,
		`{"input":[{"type":"mcp_approval_response","approval_request_id":"mcpr_q1-t1-S","approve":true}],"previous_response_id":"resp_t1-S"}`,
		`{"input":[{"role":"system","content":"b"},{"role":"assistant","content":[{"type":"output_text","text":"c"}]},{"role":"user","content":"d"}],"instructions":"e"}`,
		`{"input":"a","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"tool_choice":"none","metadata":{"mode":"steer","session":"s"}}`,
		`{"input":"a","conversation":{"id":"conv_S"},"text":{"format":{"type":"text"}}}`, `{"input":null}`, `{"input":{}}`, `[`, ``, `{"input":"a"}{}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, w, err := request.ReadNewResponse(body)
		held(t, w, err)
		if err == nil && w.Where.Conversation != "" && r.Previous != "" {
			t.Error("two places for one message")
		}
	})
}

// The same of Chat Completions.
func FuzzReadCompletion(f *testing.F) {
	for _, seed := range []string{
		`{"model":"parley","messages":[{"role":"user","content":"hello"}]}`,
		`{"messages":[{"role":"system","content":"a"},{"role":"user","content":"b"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_c1-t1-S","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_c1-t1-S","content":"c"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}},{"type":"file","file":{"file_data":"data:text/plain;base64,AA==","filename":"a"}}]}],"stream":true,"stream_options":{"include_usage":true}}`,
		`{"messages":[],"n":2}`, `{"messages":[{"role":"user","content":[]}],"user":"u"}`, `{"messages":null}`, `{`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_, w, err := request.ReadCompletion(body)
		held(t, w, err)
	})
}

// held fails unless a request was refused, or is one that the session can be told.
func held(t *testing.T, w request.Intent, err error) {
	t.Helper()
	if err != nil {
		if !refused(err) {
			t.Errorf("it is not refused as a client's error: %v", err)
		}
		return
	}
	for _, tool := range w.Tools {
		if callersTools([]conversation.ToolSpec{tool}) == nil {
			t.Error("tools that are none")
		}
	}
	if task, err := answered(&w); err == nil && len(w.Answers) > 0 {
		if _, ok := task.Session(); !ok {
			t.Errorf("answers for the task %q", task)
		}
	}
}

// What is read of a steer, of a conversation and of a message of the socket.
func FuzzReadOthers(f *testing.F) {
	for _, seed := range []string{`{"metadata":{"title":"a"}}`, `{"items":[1]}`, `{"type":"response.steer","input":"x"}`, `{"metadata":{"a":1}}`, `null`, `{}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := request.ReadConversation(body); err != nil && !refused(err) {
			t.Errorf("it is not refused as a client's error: %v", err)
		}
		var r steerRequest
		if err := request.Decode(body, &r); err != nil && !refused(err) {
			t.Errorf("it is not refused as a client's error: %v", err)
		}
	})
}

// An id that is read is the one that is written again: nothing has two names.
func FuzzIDs(f *testing.F) {
	for _, seed := range []string{"resp_t1-S", "resp_t1-S.12", "resp_t1-S.012", "resp_t1-S.", "resp_", "call_c1-t1-S", "call_-t1-S", "mcpr_d1.q2-t1-S", "conv_S", "conv_", "resp_t01-S", "chatcmpl-t1-S"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if ref, ok := readReference(id); ok && ref.id() != id {
			t.Errorf("%q is %q", id, ref.id())
		}
		if task, call, ok := readCallID(id, callPrefix); ok && callID(task, conversation.CallID(call)) != id {
			t.Errorf("%q is %q", id, callID(task, conversation.CallID(call)))
		}
		if task, q, ok := readCallID(id, approvalPrefix); ok && (approvalID(task, conversation.QuestionID(q)) != id || strings.Contains(q, "-")) {
			t.Errorf("%q is %q", id, approvalID(task, conversation.QuestionID(q)))
		}
	})
}
