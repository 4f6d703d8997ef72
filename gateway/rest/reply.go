package rest

import (
	"parley/gateway/protocol"

	"github.com/gofiber/fiber/v2"
)

// reply answers a request with a JSON object.
func reply(c *fiber.Ctx, status int, data func(o *protocol.Object)) error {
	scratch := protocol.GetBuffer()
	defer protocol.PutBuffer(scratch)
	o := protocol.NewObject((*scratch)[:0])
	data(&o)
	*scratch = o.Close()
	c.Status(status)
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(append([]byte(nil), *scratch...))
}

// items answers a request with a list. An empty cursor is the end of it.
func items(c *fiber.Ctx, list []byte, next string) error {
	return reply(c, fiber.StatusOK, func(o *protocol.Object) {
		o.Key("items")
		o.Bytes = append(o.Bytes, '[')
		o.Bytes = append(o.Bytes, list...)
		o.Bytes = append(o.Bytes, ']')
		o.Key("next_cursor")
		if next == "" {
			o.Bytes = append(o.Bytes, "null"...)
		} else {
			o.Bytes = protocol.AppendString(o.Bytes, next)
		}
	})
}
