package httpmodel

import (
	"context"
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

// Errors of a call, before failure turns them into a ModelError.
var (
	// ErrCut is the error of an answer that ended too early. Adapters return it, too.
	ErrCut     = errors.New("the stream ended without its terminal event")
	errIdle    = errors.New("not a byte came within the idle timeout")
	errTooLong = errors.New("the answer is longer than the limit")
	errHTML    = errors.New("the answer is a page of HTML")
)

// statusError is an HTTP status that is not a success.
type statusError struct {
	status int
	header http.Header
	body   []byte
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP status %d", e.status) }

// ProviderError is the error object of a provider, from a body or from a frame.
type ProviderError interface {
	error
	Sentence() string      // what the provider says to people; "" = nothing
	Status() int           // the status that goes with it, for one inside of a stream
	ContextExceeded() bool // the conversation does not fit into the model's context
	QuotaExceeded() bool   // the quota or the money is used up
	Withheld() bool        // a filter has refused what was asked or answered
}

// failure turns any error into the context's error or a *conversation.ModelError. The
// provider's own words go only to the log.
func (c *Client) failure(ctx context.Context, err error) error {
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
	var provided ProviderError
	var network net.Error
	switch {
	case errors.As(err, &refused):
		provided = c.provider.ParseError(refused.body)
		sayByStatus(refused.status, provided, say)
		f.RetryAfter = retryAfter(refused.header, time.Now())
	case errors.As(err, &provided):
		sayByStatus(provided.Status(), provided, say)
	case errors.Is(err, errTooLong):
		say(conversation.TooLarge, true, "the model's answer is longer than the server accepts")
	case errors.Is(err, ErrCut):
		say(conversation.Unavailable, false, "the model's answer ended in the middle")
	case errors.Is(err, errHTML):
		say(conversation.Unavailable, false, "the model's address answered with a web page")
	case errors.Is(err, errIdle), errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		say(conversation.Timeout, false, "the model did not answer in time")
	default:
		say(conversation.Unavailable, false, "the connection to the model failed")
	}
	f.Err = c.forLog(ctx, err, provided)
	return f
}

// Withheld is the sentence for an answer that a filter of the provider's has refused.
const Withheld = "the model's provider withheld the answer (content filter)"

// sayByStatus chooses code and sentence for a status and the provider's error.
func sayByStatus(status int, provided ProviderError, say func(code conversation.Code, permanent bool, sentence string)) {
	switch {
	case provided.ContextExceeded():
		say(conversation.TooLarge, true, "the conversation is too long for the model")
	case provided.QuotaExceeded() || status == http.StatusPaymentRequired:
		say(conversation.RateLimited, true, "the quota at the model's provider is used up")
	case provided.Withheld():
		say(conversation.Forbidden, true, Withheld)
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

// retryAfter reads how long the provider wants to be left alone; 0 = it did not say.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return bounded(ms, time.Millisecond)
	}
	value := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		return bounded(s, time.Second)
	}
	if at, err := http.ParseTime(value); err == nil {
		return bounded(at.Sub(now).Seconds(), time.Second)
	}
	return 0
}

// maxRetryAfter keeps nonsense of a provider from overflowing; the engine has a
// lower limit of its own.
const maxRetryAfter = 24 * time.Hour

func bounded(n float64, unit time.Duration) time.Duration {
	if !(n > 0) { // NaN too
		return 0
	}
	if n >= float64(maxRetryAfter/unit) {
		return maxRetryAfter
	}
	return time.Duration(n * float64(unit))
}

// forLog says what happened in words for the log, with the host: no secret, no other part
// of the URL, nothing that leads back to the request with its headers.
func (c *Client) forLog(ctx context.Context, err error, provided ProviderError) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	text := err.Error()
	if provided != nil && provided.Sentence() != "" && !strings.Contains(text, provided.Sentence()) {
		text += ": " + provided.Error()
	}
	text = c.base.Host + ": " + text
	const enough = 500
	if text = c.redact(text); len(text) > enough {
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

// redact blackens secrets. Very short ones would blacken half of the text and
// are no secrets.
func (c *Client) redact(text string) string {
	for _, secret := range c.secrets {
		if len(secret) >= 4 {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	return text
}
