package rest

import (
	"strconv"

	"parley/gateway/door"
	"parley/gateway/protocol"

	"github.com/gofiber/fiber/v2"
)

// listEvents is the log as pages: the same frames that sockets get.
func (s *API) listEvents(c *fiber.Ctx) error {
	key, err := sessionOf(c)
	if err != nil {
		return err
	}
	limit, cursor, err := paging(c)
	if err != nil {
		return err
	}
	since, _, err := sequence(cursor, "cursor")
	if err != nil {
		return err
	}
	if begin, given, err := sequence(c.Query("since"), "since"); err != nil {
		return err
	} else if given {
		since = begin
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	who := door.Principal(c)
	if _, err := s.Visible(ctx, who, key); err != nil {
		return err
	}
	page, next, last := newList(s.Services, limit), "", since
	for e, err := range s.Events(ctx, key, since, 0) {
		if err != nil {
			return err
		}
		if !page.add(func(b []byte) []byte { return protocol.AppendEvent(b, key.Session, e, who.Redact()) }) {
			next = strconv.FormatUint(uint64(last), 10)
			break
		}
		last = e.Seq
	}
	return page.send(c, next)
}
