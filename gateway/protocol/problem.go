package protocol

import (
	"net/http"

	"parley/conversation"
)

// The headers that say how many requests a client may still make, as
// draft-ietf-httpapi-ratelimit-headers-10 has them.
const (
	HeaderRateLimit       = "RateLimit"
	HeaderRateLimitPolicy = "RateLimit-Policy"
)

// StatusOf is the HTTP status of a code.
func StatusOf(code conversation.Code) int {
	switch code {
	case conversation.BadRequest, conversation.InvalidJSON, conversation.UnknownType:
		return http.StatusBadRequest
	case conversation.Unauthenticated, conversation.TokenExpired:
		return http.StatusUnauthorized
	case conversation.Forbidden:
		return http.StatusForbidden
	case conversation.NotFound:
		return http.StatusNotFound
	case conversation.MethodNotAllowed:
		return http.StatusMethodNotAllowed
	case conversation.Conflict, conversation.SessionBusy, conversation.TaskNotAwaiting, conversation.QuestionNotOpen:
		return http.StatusConflict
	case conversation.SessionIsClosed:
		return http.StatusGone
	case conversation.TooLarge:
		return http.StatusRequestEntityTooLarge
	case conversation.UnsupportedMedia:
		return http.StatusUnsupportedMediaType
	case conversation.UpgradeRequired:
		return http.StatusUpgradeRequired
	case conversation.InboxFull, conversation.RateLimited:
		return http.StatusTooManyRequests
	case conversation.Overloaded, conversation.Unavailable:
		return http.StatusServiceUnavailable
	case conversation.Timeout:
		return http.StatusGatewayTimeout
	case conversation.StorageFull:
		return http.StatusInsufficientStorage
	default:
		return http.StatusInternalServerError
	}
}

// CodeOf is the code of a status that the HTTP library has chosen by itself.
func CodeOf(status int) (conversation.Code, string) {
	switch status {
	case http.StatusNotFound:
		return conversation.NotFound, "there is nothing here"
	case http.StatusMethodNotAllowed:
		return conversation.MethodNotAllowed, "this route does not know that method"
	case http.StatusRequestEntityTooLarge:
		return conversation.TooLarge, "the request is too large"
	case http.StatusRequestHeaderFieldsTooLarge:
		return conversation.TooLarge, "the request's head is too large"
	case http.StatusUnsupportedMediaType:
		return conversation.UnsupportedMedia, "the body must be application/json"
	case http.StatusUpgradeRequired:
		return conversation.UpgradeRequired, "this route is a WebSocket"
	case http.StatusRequestTimeout:
		return conversation.Timeout, "the request did not come in time"
	case http.StatusForbidden:
		return conversation.Forbidden, "forbidden"
	case http.StatusUnauthorized:
		return conversation.Unauthenticated, "not authenticated"
	case http.StatusServiceUnavailable:
		return conversation.Unavailable, "not available"
	default:
		if status >= 400 && status < 500 {
			return conversation.BadRequest, "the request could not be read"
		}
		return conversation.Internal, "something went wrong on the server"
	}
}

// AppendProblem is an RFC 9457 body.
func AppendProblem(dst []byte, e *conversation.Error, status int, instance, requestID string) []byte {
	o := NewObject(dst)
	o.Text("type", "about:blank")
	o.Text("title", http.StatusText(status))
	o.Int("status", int64(status))
	o.Text("detail", e.Message)
	o.Text("instance", instance)
	o.Text("code", string(e.Code))
	o.Text("request_id", requestID)
	o.Bool("retryable", e.Retryable())
	if e.RetryAfter > 0 {
		o.Int("retry_after_ms", max(1, e.RetryAfter.Milliseconds()))
	}
	appendConflict(&o, e)
	return o.Close()
}
