package rest

import (
	"strconv"
	"strings"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// sessionOf is the session that a request names.
func sessionOf(c *fiber.Ctx) (conversation.SessionKey, error) {
	id, err := door.Param(c, "id")
	if err != nil {
		return conversation.SessionKey{}, err
	}
	key, bad := door.Principal(c).Key(id)
	return key, door.AsError(bad)
}

// writableSession is the session that a request wants to change.
func writableSession(c *fiber.Ctx) (conversation.SessionKey, error) {
	key, err := sessionOf(c)
	if err == nil {
		err = door.AsError(service.Writable(key))
	}
	return key, err
}

// unseen answers as if a session were not there to those who may not see it, whatever else
// is wrong with their request. Good requests cost nothing: the session itself refuses those.
func unseen(s *API, path string, do fiber.Handler) fiber.Handler {
	named, absent := sessionOf, func(err error) error { return err }
	switch {
	case strings.Contains(path, ":taskId"):
		named = func(c *fiber.Ctx) (conversation.SessionKey, error) {
			key, _, err := taskOf(c)
			return key, err
		}
		absent = noTask
	case !strings.Contains(path, ":id"):
		return do
	}
	return func(c *fiber.Ctx) error {
		failed := do(c)
		if failed == nil {
			return nil
		}
		key, err := named(c)
		if err != nil {
			return err
		}
		ctx, cancel := s.Deadline()
		defer cancel()
		return absent(s.Unseen(ctx, door.Principal(c), key, failed))
	}
}

// paging reads the limit and the cursor of a list request.
func paging(c *fiber.Ctx) (limit int, cursor string, err error) {
	limit = 50
	if q := c.Query("limit"); q != "" {
		limit, err = strconv.Atoi(q)
		if err != nil || limit < 1 {
			return 0, "", conversation.Errorf(conversation.BadRequest, "limit must be a whole number of at least 1")
		}
	}
	return min(limit, 200), c.Query("cursor"), nil
}

// maxLooked is how many rows of a tenant one page looks at. Who may see few of many gets
// pages with fewer items than they asked for, or none, and a cursor: so nobody has the server
// read through all that is others'.
const maxLooked = 5000

// sequence reads a seq of the query or a header; ok is false when there is none.
func sequence(value, name string) (seq conversation.Seq, ok bool, err error) {
	if value == "" {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(value, 10, 53)
	if err != nil {
		return 0, false, conversation.Errorf(conversation.BadRequest, "%s must be a whole number of at least 0", name)
	}
	return conversation.Seq(n), true, nil
}
