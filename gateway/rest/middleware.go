package rest

import (
	"crypto/rand"
	"errors"
	"slices"
	"strings"

	"parley/conversation"
	"parley/gateway/attach"
	"parley/gateway/door"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// ReadTooLarge times body_bytes is read of a request that is too large. The HTTP
// library closes the connection of one that is larger still (Unread), and then most
// clients, which go on writing, do not get to read why.
const ReadTooLarge = 4

// Observe is around every request: it names it, times it, survives its panic and
// turns its error into a problem.
func (s *API) Observe(c *fiber.Ctx) (err error) {
	start := s.Now()
	id := c.Get(fiber.HeaderXRequestID)
	if !fitRequestID(id) {
		id = rand.Text()[:16]
	}
	c.Locals(localRequestID, id)
	c.Set(fiber.HeaderXRequestID, id)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	c.Set(fiber.HeaderXFrameOptions, "DENY")
	c.Set("Cross-Origin-Resource-Policy", "same-origin")
	c.Set(fiber.HeaderContentSecurityPolicy, "default-src 'none'; frame-ancestors 'none'")
	c.Set(fiber.HeaderCacheControl, "no-store")
	defer func() { limitAnswer(s.Services, c.Context()) }() // after all that may answer
	defer func() {
		if r := recover(); r != nil {
			s.Metrics.Panics.Inc()
			s.Log.Error("panic", "where", c.Method()+" "+c.Path(), "request_id", id, "panic", r, "stack", service.Stack())
			err = s.Problem(c, conversation.Errorf(conversation.Internal, "something went wrong on the server"))
		}
		route, _ := c.Locals(door.LocalRoute).(string)
		if route == "" {
			route = "other"
		}
		line := service.RequestLine{ID: id, Method: c.Method(), Route: route, Status: c.Response().StatusCode(), Took: s.Now().Sub(start)}
		if s.Requests != nil {
			s.describe(c, &line)
		}
		s.Answered(&line)
	}()
	large, _ := door.TooLarge(c)
	if !large && len(c.Request().Body()) > s.Limits.BodyBytes && !attach.IsUpload(c.Method(), c.Path()) {
		large = true
		door.MarkTooLarge(c)
	}
	if large {
		s.Metrics.Refused.WithLabelValues("body_bytes").Inc()
	}
	failed := c.Next()
	if _, refused := door.TooLarge(c); large && !refused { // there is no route, or it was not reached
		failed = fiber.ErrRequestEntityTooLarge
	}
	if failed != nil {
		return s.Problem(c, failed)
	}
	return nil
}

// Unread answers a request that the HTTP library could not read. One whose body is far too large
// is refused where one that is a little too large is: by its route.
func (s *API) Unread(c *fiber.Ctx, err error) error {
	var library *fiber.Error
	if errors.As(err, &library) && library.Code == fiber.StatusRequestEntityTooLarge &&
		slices.Contains(fiber.DefaultMethods, c.Method()) && !attach.IsUpload(c.Method(), c.Path()) {
		door.MarkTooLarge(c)
		return c.RestartRouting()
	}
	return s.Problem(c, err)
}

const localRequestID = "request_id"

// fitRequestID is true for an id that may be repeated in headers and logs.
func fitRequestID(id string) bool {
	if len(id) < 1 || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' || id[i] == '"' || id[i] == '\\' {
			return false
		}
	}
	return true
}

// Problem answers a request with an error, as application/problem+json.
func (s *API) Problem(c *fiber.Ctx, err error) error {
	e, status := s.Refused(err)
	door.SetRefusal(c, status, e.RetryAfter)
	if status == fiber.StatusUpgradeRequired {
		c.Set(fiber.HeaderUpgrade, "websocket")
		c.Set(fiber.HeaderConnection, "Upgrade")
	}
	id, _ := c.Locals(localRequestID).(string)
	if id == "" { // refused by the library before it came to us
		id = rand.Text()[:16]
		c.Set(fiber.HeaderXRequestID, id)
		limitWrite(s.Services, c.Context().Conn(), 0)
	}
	c.Set(fiber.HeaderContentType, "application/problem+json")
	return c.Send(protocol.AppendProblem(nil, e, status, c.Path(), id))
}

// describe completes the line of a request that has been answered.
func (s *API) describe(c *fiber.Ctx, r *service.RequestLine) {
	r.In, r.Out = max(c.Request().Header.ContentLength(), 0), -1
	if !c.Response().IsBodyStream() && r.Status != fiber.StatusSwitchingProtocols {
		r.Out = len(c.Response().Body())
	}
	r.Who, r.Address = door.Principal(c), door.AddressOf(s.Services, c)
	if id, err := door.Param(c, "id"); err == nil && strings.HasPrefix(r.Route, "/api/sessions/:id") {
		r.Session = r.Who.Named(id)
	}
}
