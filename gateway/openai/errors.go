package openai

import (
	"errors"
	"time"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/openai/internal/request"

	"github.com/gofiber/fiber/v2"
)

// kept is the error of a request whose message is stored all the same. SDKs send a request again
// by themselves after a conflict or an error of the server: it would be said a second time.
type kept struct{ error }

func (k kept) Unwrap() error { return k.error }

// keeps is err for a request whose message is stored; nil stays nil.
func keeps(err error) error {
	if err == nil {
		return nil
	}
	return kept{err}
}

// failure is an error as the API says it.
type failure struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// failed makes of any error what the client is told, and the status.
func failed(x *exchange.Exchange, err error) (f failure, status int, wait time.Duration) {
	var own *request.Refusal
	if errors.As(err, &own) {
		return failure{Message: own.Message, Type: kindOf(own.Status), Param: optional(own.Param), Code: optional(own.Code)}, own.Status, 0
	}
	e, status := x.Refused(err)
	f = failure{Message: e.Message, Type: kindOf(status), Code: pointer(string(e.Code))}
	switch e.Code {
	case conversation.Unauthenticated, conversation.TokenExpired:
		f.Code = pointer("invalid_api_key")
	case conversation.RateLimited, conversation.InboxFull:
		f.Code = pointer("rate_limit_exceeded")
	}
	return f, status, e.RetryAfter
}

// kindOf is the type of an error by its status.
func kindOf(status int) string {
	switch {
	case status == fiber.StatusUnauthorized:
		return "authentication_error"
	case status == fiber.StatusForbidden:
		return "permission_error"
	case status == fiber.StatusNotFound:
		return "not_found_error"
	case status == fiber.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= fiber.StatusInternalServerError:
		return "server_error"
	default:
		return "invalid_request_error"
	}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// problems answers with errors in the API's shape.
func problems(x *exchange.Exchange) fiber.Handler {
	return func(c *fiber.Ctx) error {
		err := c.Next()
		if err == nil {
			return nil
		}
		f, status, wait := failed(x, err)
		door.SetRefusal(c, status, wait)
		if errors.As(err, &kept{}) || status == fiber.StatusGatewayTimeout { // then it may be stored
			c.Set("X-Should-Retry", "false")
		}
		return c.JSON(map[string]any{"error": f})
	}
}
