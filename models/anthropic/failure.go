package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
)

// statusError is a refusal: an HTTP status that is not a success.
type statusError struct {
	status int
	header http.Header
	body   []byte
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP status %d", e.status) }

// apiError is the error object, in bodies and in frames.
type apiError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func (e *apiError) Error() string { return e.Type + ": " + e.Message }

// failure turns whatever went wrong into the context's error or a
// *conversation.ModelError. What the provider said goes to the log only.
func (m *Model) failure(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	var known *conversation.ModelError
	if errors.As(err, &known) {
		return known
	}
	f := &conversation.ModelError{}
	say := func(code conversation.Code, permanent bool, sentence string) {
		f.Failure, f.Permanent = conversation.Failure{Code: code, Message: sentence}, permanent
	}
	var refused *statusError
	var told *apiError
	var network net.Error
	switch {
	case errors.As(err, &refused):
		told = errorIn(refused.body)
		bySay(refused.status, told, say)
		f.RetryAfter = retryAfter(refused.header, time.Now())
	case errors.As(err, &told):
		bySay(statusOf(told), told, say)
	case errors.Is(err, errTooLong):
		say(conversation.TooLarge, true, "the model's answer is longer than the server accepts")
	case errors.Is(err, errCut):
		say(conversation.Unavailable, false, "the model's answer ended in the middle")
	case errors.Is(err, errHTML):
		say(conversation.Unavailable, false, "the model's address answered with a web page")
	case errors.Is(err, errIdle), errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		say(conversation.Timeout, false, "the model did not answer in time")
	default:
		say(conversation.Unavailable, false, "the connection to the model failed")
	}
	f.Err = m.forLog(ctx, err, told)
	return f
}

// bySay chooses the sentence for a status and the provider's own type.
func bySay(status int, told *apiError, say func(code conversation.Code, permanent bool, sentence string)) {
	switch {
	case told.tooLong():
		say(conversation.TooLarge, true, "the conversation is too long for the model")
	case told.Type == "billing_error" || status == http.StatusPaymentRequired:
		say(conversation.RateLimited, true, "the quota at the model's provider is used up")
	case status == http.StatusTooManyRequests:
		say(conversation.RateLimited, false, "the model refused the request because of too many requests (429)")
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		say(conversation.Internal, true, fmt.Sprintf("the model's provider does not accept the server's credentials (%d)", status))
	case status == http.StatusNotFound:
		say(conversation.Internal, true, "the model's provider does not know this model or address (404)")
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		say(conversation.Timeout, false, fmt.Sprintf("the model did not answer in time (%d)", status))
	case status == http.StatusRequestEntityTooLarge:
		say(conversation.TooLarge, true, "the request is too large for the model's provider (413)")
	case status == http.StatusConflict, status == http.StatusTooEarly:
		say(conversation.Unavailable, false, fmt.Sprintf("the model cannot be asked now (%d)", status))
	case status >= 500:
		say(conversation.Unavailable, false, fmt.Sprintf("the model failed (%d)", status))
	case status >= 400:
		say(conversation.BadRequest, true, fmt.Sprintf("the model's provider refused the request (%d)", status))
	default:
		say(conversation.Internal, true, fmt.Sprintf("the model's address does not answer as a model does (%d)", status))
	}
}

// errorIn finds the error object of {"type":"error","error":{…}}. It is never nil.
func errorIn(body []byte) *apiError {
	var in struct {
		Error json.RawMessage `json:"error"`
	}
	_ = json.Unmarshal(body, &in)
	told := &apiError{}
	if json.Unmarshal(in.Error, told) != nil && told.Message == "" {
		_ = json.Unmarshal(in.Error, &told.Message)
	}
	return told
}

// statusOf is the status that would have come with an error inside of a stream.
func statusOf(told *apiError) int {
	switch told.Type {
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

// tooLong knows the sentence of the provider for a full context; there is no
// type of its own for that.
func (e *apiError) tooLong() bool {
	message := strings.ToLower(e.Message)
	return strings.Contains(message, "prompt is too long") || strings.Contains(message, "exceed context limit")
}

// retryAfter reads when the provider wants to be asked again; 0 = it did not say.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return wait(ms, time.Millisecond)
	}
	value := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		return wait(s, time.Second)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// maxRetryAfter keeps nonsense of a provider from overflowing; the engine has a
// lower limit of its own.
const maxRetryAfter = 24 * time.Hour

func wait(n float64, unit time.Duration) time.Duration {
	if !(n > 0) { // NaN too
		return 0
	}
	if n >= float64(maxRetryAfter/unit) {
		return maxRetryAfter
	}
	return time.Duration(n * float64(unit))
}

// forLog says what happened in words for the log: no secret, no URL, nothing
// that leads back to the request with its headers.
func (m *Model) forLog(ctx context.Context, err error, told *apiError) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	text := err.Error()
	if told != nil && told.Message != "" && !strings.Contains(text, told.Message) {
		text += ": " + told.Error()
	}
	const enough = 500
	if text = m.redact(text); len(text) > enough {
		text = strings.ToValidUTF8(text[:enough], "") + "…"
	}
	return &logError{text: text, cause: ctx.Err()}
}

// logError keeps of its cause only that a context ended.
type logError struct {
	text  string
	cause error
}

func (e *logError) Error() string { return e.text }
func (e *logError) Unwrap() error { return e.cause }

// secretsOf are the texts that must appear in no error.
func secretsOf(o Options) []string {
	secrets := []string{o.APIKey}
	for _, value := range o.Headers {
		secrets = append(secrets, value, strings.TrimPrefix(value, "Bearer "))
	}
	if o.Proxy != "" {
		if proxy, err := url.Parse(o.Proxy); err == nil {
			password, _ := proxy.User.Password()
			secrets = append(secrets, password)
		}
	}
	return secrets
}

// redact blackens secrets. Very short ones would blacken half of the text and
// are no secrets.
func (m *Model) redact(text string) string {
	for _, secret := range m.secrets {
		if len(secret) >= 4 {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	return text
}
