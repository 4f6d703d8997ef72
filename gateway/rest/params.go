package rest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"parley/conversation"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// body is a request's JSON; nil if there is none. Compressed bodies are refused:
// what they become is bounded by nothing.
func body(c *fiber.Ctx) ([]byte, error) {
	b := c.Request().Body()
	if len(b) == 0 {
		return nil, nil
	}
	kind, _, err := mime.ParseMediaType(c.Get(fiber.HeaderContentType))
	if err != nil || kind != fiber.MIMEApplicationJSON {
		return nil, conversation.Errorf(conversation.UnsupportedMedia, "the body must be application/json")
	}
	if encoding := c.Get(fiber.HeaderContentEncoding); encoding != "" && encoding != "identity" {
		return nil, conversation.Errorf(conversation.UnsupportedMedia, "the body must not be compressed")
	}
	if !utf8.Valid(b) {
		return nil, conversation.Errorf(conversation.InvalidJSON, "the body is not valid UTF-8")
	}
	return b, nil
}

// readBody reads the members of a body, which must be an object if there is one.
func readBody(c *fiber.Ctx, visit func(m protocol.Member) error) error {
	b, err := body(c)
	if err != nil || b == nil {
		return err
	}
	if err := protocol.ReadObject(b, visit); err != nil {
		return protocol.BadInput(err, "the body")
	}
	return nil
}

// asError keeps a nil *conversation.Error from becoming a non-nil error.
func asError(e *conversation.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// param is a part of the path, unescaped: the id of a sub-session holds "%2F".
func param(c *fiber.Ctx, name string) (string, error) {
	v, err := url.PathUnescape(c.Params(name))
	if err != nil || !utf8.ValidString(v) {
		return "", conversation.Errorf(conversation.NotFound, "there is nothing here")
	}
	return v, nil
}

// sessionOf is the session that a request names.
func sessionOf(c *fiber.Ctx) (conversation.SessionKey, error) {
	id, err := param(c, "id")
	if err != nil {
		return conversation.SessionKey{}, err
	}
	key, bad := principal(c).Key(id)
	return key, asError(bad)
}

// writableSession is the session that a request wants to change.
func writableSession(c *fiber.Ctx) (conversation.SessionKey, error) {
	key, err := sessionOf(c)
	if err == nil {
		err = asError(service.Writable(key))
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
		ctx, cancel := s.deadline()
		defer cancel()
		return absent(s.Unseen(ctx, principal(c), key, failed))
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

// idempotencyKey is the request's Idempotency-Key as a client id; "" if there is
// none. The route is part of it, so that one key may be used on several: behind a byte that
// no client can send (protocol.OwnMark), so that none of its own ids is ever the same.
func idempotencyKey(c *fiber.Ctx, route string) (conversation.ClientMsgID, error) {
	key := c.Get("Idempotency-Key")
	if key == "" {
		return "", nil
	}
	if len(key) > 255 {
		return "", conversation.Errorf(conversation.BadRequest, "Idempotency-Key must be at most 255 bytes")
	}
	mark := ""
	if route != "" {
		mark = protocol.OwnMark
		key = route + ":" + key
	}
	if len(mark+key) > protocol.MaxClientMsgID {
		sum := sha256.Sum256([]byte(key))
		key = "sha256:" + hex.EncodeToString(sum[:])
	}
	return conversation.ClientMsgID(mark + key), nil
}

// clientMsgID returns the client's id for its message: in the body, by its
// Idempotency-Key, or not at all (then it cannot be repeated).
func clientMsgID(c *fiber.Ctx, given, route string) (conversation.ClientMsgID, error) {
	if given != "" {
		return conversation.ClientMsgID(given), nil
	}
	key, err := idempotencyKey(c, route)
	if err == nil && key == "" {
		key = conversation.ClientMsgID("srv-" + rand.Text())
	}
	return key, err
}
