package gateway

import (
	"net/http"

	"parley/conversation"
)

var errDraining = &conversation.Error{Code: conversation.Unavailable, Message: "the server is going away", RetryAfter: 1e9}

// statusOf is the HTTP status of a code.
func statusOf(code conversation.Code) int {
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

// codeOf is the code of a status that the HTTP library has chosen by itself.
func codeOf(status int) (conversation.Code, string) {
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

// appendProblem is an RFC 9457 body.
func appendProblem(dst []byte, e *conversation.Error, status int, instance, requestID string) []byte {
	o := open(dst)
	o.text("type", "about:blank")
	o.text("title", http.StatusText(status))
	o.int("status", int64(status))
	o.text("detail", e.Message)
	o.text("instance", instance)
	o.text("code", string(e.Code))
	o.text("request_id", requestID)
	o.bool("retryable", e.Retryable())
	if e.RetryAfter > 0 {
		o.int("retry_after_ms", max(1, e.RetryAfter.Milliseconds()))
	}
	if e.TaskStatus != 0 {
		o.text("task_status", e.TaskStatus.String())
	}
	return o.close()
}
