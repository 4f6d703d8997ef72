package rest

import (
	"parley/gateway/protocol"

	"github.com/gofiber/fiber/v2"
)

// documents serves the documents of the protocol to everybody: a client must be
// able to read them before it has a credential.
func (s *API) documents() {
	for _, name := range []string{"openapi.yaml", "asyncapi.yaml"} {
		file := newPageFile(protocol.Document(name), "application/yaml")
		s.route(fiber.MethodGet, "/"+name, func(c *fiber.Ctx) error {
			c.Set(fiber.HeaderCacheControl, "no-cache")
			c.Set(fiber.HeaderETag, file.tag)
			if c.Get(fiber.HeaderIfNoneMatch) == file.tag {
				return c.SendStatus(fiber.StatusNotModified)
			}
			c.Set(fiber.HeaderContentType, file.kind)
			return c.Send(file.data)
		})
	}
}
