package door

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net/url"
	"slices"
	"unicode/utf8"

	"parley/conversation"
	"parley/gateway/protocol"

	"github.com/gofiber/fiber/v2"
)

// Body is a request's JSON; nil if there is none. Compressed bodies are refused:
// what they become is bounded by nothing. A protocol may have media types of its own besides.
func Body(c *fiber.Ctx, types ...string) ([]byte, error) {
	b := c.Request().Body()
	if len(b) == 0 {
		return nil, nil
	}
	kind, _, err := mime.ParseMediaType(c.Get(fiber.HeaderContentType))
	if err != nil || kind != fiber.MIMEApplicationJSON && !slices.Contains(types, kind) {
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

// A body above limits.body_bytes is known before the route of its request is. The route refuses
// it: each protocol has its own words for that.
const localTooLarge = "door.too_large"

// MarkTooLarge says that a request's body is too large. Its route refuses it then.
func MarkTooLarge(c *fiber.Ctx) { c.Locals(localTooLarge, new(bool)) }

// TooLarge is true for a request that is marked; refused says whether its route has heard of it.
func TooLarge(c *fiber.Ctx) (is, refused bool) {
	heard, is := c.Locals(localTooLarge).(*bool)
	return is, is && *heard
}

// Sized refuses a request that is marked. Authenticated does that too.
func Sized(c *fiber.Ctx) error {
	if err := refuseTooLarge(c); err != nil {
		return err
	}
	return c.Next()
}

func refuseTooLarge(c *fiber.Ctx) error {
	heard, is := c.Locals(localTooLarge).(*bool)
	if !is {
		return nil
	}
	*heard = true
	return fiber.ErrRequestEntityTooLarge
}

// ReadBody reads the members of a body, which must be an object if there is one.
func ReadBody(c *fiber.Ctx, visit func(m protocol.Member) error) error {
	b, err := Body(c)
	if err != nil || b == nil {
		return err
	}
	if err := protocol.ReadObject(b, visit); err != nil {
		return protocol.BadInput(err, "the body")
	}
	return nil
}

// AsError keeps a nil *conversation.Error from becoming a non-nil error.
func AsError(e *conversation.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// Param is a part of the path, unescaped: the id of a sub-session holds "%2F".
func Param(c *fiber.Ctx, name string) (string, error) {
	v, err := url.PathUnescape(c.Params(name))
	if err != nil || !utf8.ValidString(v) {
		return "", conversation.Errorf(conversation.NotFound, "there is nothing here")
	}
	return v, nil
}

// IdempotencyKey is the request's Idempotency-Key as a client id; "" if there is
// none. The route is part of it, so that one key may be used on several: behind a byte that
// no client can send (protocol.OwnMark), so that none of its own ids is ever the same.
func IdempotencyKey(c *fiber.Ctx, route string) (conversation.ClientMsgID, error) {
	key := c.Get("Idempotency-Key")
	if key == "" {
		return "", nil
	}
	if len(key) > 255 {
		return "", conversation.Errorf(conversation.BadRequest, "Idempotency-Key must be at most 255 bytes")
	}
	if route != "" {
		return OwnID(route + ":" + key), nil
	}
	return conversation.ClientMsgID(fit(key, protocol.MaxClientMsgID)), nil
}

// OwnID is a client id that no client can send itself, of a text that says what is done: the same
// for the same text.
func OwnID(text string) conversation.ClientMsgID {
	return conversation.ClientMsgID(protocol.OwnMark + fit(text, protocol.MaxClientMsgID-len(protocol.OwnMark)))
}

// fit is text, or its hash where that is too long.
func fit(text string, most int) string {
	if len(text) <= most {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ClientMsgID returns the client's id for its message: in the body, by its
// Idempotency-Key, or not at all (then it cannot be repeated).
func ClientMsgID(c *fiber.Ctx, given, route string) (conversation.ClientMsgID, error) {
	if given != "" {
		return conversation.ClientMsgID(given), nil
	}
	key, err := IdempotencyKey(c, route)
	if err == nil && key == "" {
		key = RandomID()
	}
	return key, err
}

// RandomID is a client id for what cannot be repeated.
func RandomID() conversation.ClientMsgID { return conversation.ClientMsgID("srv-" + rand.Text()) }
