package anthropic

import (
	"encoding/json"
	"net/http"
	"strings"

	"parley/models/internal/httpmodel"
)

var _ httpmodel.ProviderError = (*apiError)(nil)

// apiError is the error object, in bodies and in frames.
type apiError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func (e *apiError) Error() string { return e.Type + ": " + e.Message }

// Sentence returns the provider's message.
func (e *apiError) Sentence() string { return e.Message }

// Status returns the HTTP status that fits an error inside of a stream.
func (e *apiError) Status() int {
	switch e.Type {
	case "invalid_request_error":
		return http.StatusBadRequest
	case "authentication_error":
		return http.StatusUnauthorized
	case "permission_error":
		return http.StatusForbidden
	case "not_found_error":
		return http.StatusNotFound
	case "request_too_large":
		return http.StatusRequestEntityTooLarge
	case "rate_limit_error":
		return http.StatusTooManyRequests
	case "timeout_error":
		return http.StatusGatewayTimeout
	case "overloaded_error":
		return statusOverloaded
	default:
		return http.StatusInternalServerError
	}
}

// statusOverloaded is the provider's own status for overload.
const statusOverloaded = 529

// QuotaExceeded reports whether the account has no money left.
func (e *apiError) QuotaExceeded() bool { return e.Type == "billing_error" }

// Withheld reports whether a filter of the provider's has refused what was asked or
// answered. There is no error type for that, either.
func (e *apiError) Withheld() bool {
	return strings.Contains(strings.ToLower(e.Message), "content filtering policy")
}

// ContextExceeded reports whether the context is full. The provider has no error type
// for that, so its sentence is recognised.
func (e *apiError) ContextExceeded() bool {
	message := strings.ToLower(e.Message)
	return strings.Contains(message, "prompt is too long") || strings.Contains(message, "exceed context limit")
}

// parseError finds the error object of {"type":"error","error":{…}}. The result is never nil.
func parseError(body []byte) *apiError {
	var in struct {
		Error json.RawMessage `json:"error"`
	}
	_ = json.Unmarshal(body, &in)
	apiErr := &apiError{}
	if json.Unmarshal(in.Error, apiErr) != nil && apiErr.Message == "" {
		_ = json.Unmarshal(in.Error, &apiErr.Message)
	}
	return apiErr
}
