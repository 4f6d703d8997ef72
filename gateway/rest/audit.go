package rest

import (
	"parley/gateway/door"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// listActs serves GET /api/audit: what administrators of one's tenant did, newest first.
func listActs(s *API, c *fiber.Ctx) error {
	limit, cursor, err := paging(c)
	if err != nil {
		return err
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	acts, next, err := s.Audit.Acts(ctx, door.Principal(c).Tenant, cursor, limit)
	if err != nil {
		return err
	}
	page := newList(s.Services, limit)
	page.bytes = 0 // an act is bounded already, and the cursor is not one of rows
	for _, a := range acts {
		page.add(func(dst []byte) []byte { return appendAct(dst, a) })
	}
	return page.send(c, next)
}

func appendAct(dst []byte, a service.Act) []byte {
	o := protocol.NewObject(dst)
	o.Time("at", a.At)
	o.Text("act", a.Act)
	o.Optional("user", string(a.User))
	o.Optional("credential", a.Credential)
	o.Optional("address", a.Address)
	o.Optional("object", a.Object)
	o.Optional("detail", a.Detail)
	return o.Close()
}
