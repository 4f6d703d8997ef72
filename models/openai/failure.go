package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"parley/models/internal/httpmodel"
)

var _ httpmodel.ProviderError = (*apiError)(nil)

// apiError is the error object of both wire formats, in bodies and in frames.
type apiError struct {
	Code    any    `json:"code"` // a string, a number or null
	Type    string `json:"type"`
	Message string `json:"message"`
}

func (e *apiError) Error() string { return fmt.Sprintf("%v %s: %s", e.Code, e.Type, e.Message) }

// Sentence returns the provider's message.
func (e *apiError) Sentence() string { return e.Message }

// Status returns the HTTP status that fits an error inside of a stream.
func (e *apiError) Status() int {
	if n, ok := e.Code.(float64); ok && n >= 400 && n < 600 {
		return int(n)
	}
	switch {
	case e.is("rate_limit_exceeded", "rate_limit_error", "too_many_requests"):
		return http.StatusTooManyRequests
	case e.is("invalid_prompt", "invalid_request_error", "invalid_request"):
		return http.StatusBadRequest
	case e.is("invalid_api_key", "authentication_error"):
		return http.StatusUnauthorized
	default:
		return http.StatusInternalServerError
	}
}

// QuotaExceeded reports whether the account has no money left.
func (e *apiError) QuotaExceeded() bool {
	return e.is("insufficient_quota", "billing_hard_limit_reached")
}

// Withheld reports whether a filter of the provider's has refused what was asked or
// answered. It recognises the codes of OpenAI, Azure, Qwen and Zhipu.
func (e *apiError) Withheld() bool {
	return e.is("content_filter", "content_policy_violation", "data_inspection_failed", "DataInspectionFailed", "1301")
}

// ContextExceeded reports whether the context is full. It recognises OpenAI's code,
// llama.cpp's type, and the sentence of vLLM and its relatives.
func (e *apiError) ContextExceeded() bool {
	message := strings.ToLower(e.Message)
	return e.is("context_length_exceeded", "exceed_context_size_error") ||
		strings.Contains(message, "maximum context length") || strings.Contains(message, "context window") && strings.Contains(message, "exceed")
}

func (e *apiError) is(codes ...string) bool {
	code, _ := e.Code.(string)
	for _, c := range codes {
		if code == c || e.Type == c {
			return true
		}
	}
	return false
}

// parseError finds the error object of a body: {"error": {…}}, {"error": "…"}, the object
// itself, or a list of one of these. The result is never nil.
func parseError(body []byte) *apiError {
	var in struct {
		Error json.RawMessage `json:"error"`
	}
	if list := elements(body); len(list) > 0 {
		body = list[0] // Gemini's error stands in a list of one
	}
	_ = json.Unmarshal(body, &in)
	apiErr := &apiError{}
	if len(in.Error) == 0 {
		in.Error = body
	}
	if json.Unmarshal(in.Error, apiErr) != nil && apiErr.Message == "" {
		_ = json.Unmarshal(in.Error, &apiErr.Message)
	}
	return apiErr
}
