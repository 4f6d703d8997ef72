package openai

import (
	"fmt"
	"strings"

	"parley/conversation"
	"parley/models/internal/httpmodel"
)

// stopOf says what the provider's word for the end of an answer means. An error says
// that there is no answer: the provider failed, or has withheld all of it.
func stopOf(reason string, hasItems bool) (conversation.StopReason, error) {
	// Gemini writes "content_filter: RECITATION".
	reason, _, _ = strings.Cut(strings.ToLower(reason), ":")
	switch reason {
	case "length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded":
		return conversation.StopLength, nil
	case "content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii", "sensitive", "refusal":
		if !hasItems {
			return 0, errWithheld
		}
		return conversation.StopFiltered, nil
	case "error", "network_error", "insufficient_system_resource", "abort":
		return 0, errFailed
	case "function_call_filter", "malformed_function_call": // a call that could not be read, left out
		if !hasItems {
			return 0, fmt.Errorf("the answer is incomplete: %s", reason)
		}
	}
	return 0, nil
}

// errWithheld is the error for an answer of which nothing is left.
var errWithheld = &conversation.ModelError{Permanent: true, Failure: conversation.Failure{
	Code: conversation.Forbidden, Message: httpmodel.Withheld,
}}

// errFailed is the error for an answer that says that it failed.
var errFailed = &apiError{Type: "server_error", Message: "the answer says that it failed"}
