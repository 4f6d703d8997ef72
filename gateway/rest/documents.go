package rest

import (
	"parley/gateway/assets"
	"parley/gateway/protocol"

	"github.com/gofiber/fiber/v2"
)

// documents serves the documents of the protocol to everybody: a client must be
// able to read them before it has a credential.
func (s *API) documents() {
	for _, name := range []string{"openapi.yaml", "asyncapi.yaml"} {
		file := assets.NewFile(protocol.Document(name), "application/yaml")
		s.route(fiber.MethodGet, "/"+name, func(c *fiber.Ctx) error { return sendFile(c, file, false) })
	}
}
