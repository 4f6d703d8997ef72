package rest

import (
	"parley/conversation"
	"parley/conversation/attached"
	"parley/gateway/assets"
	"parley/gateway/attach"
	"parley/gateway/door"
	"parley/gateway/protocol"

	"github.com/gofiber/fiber/v2"
)

// postBlob takes a file for the messages of a session.
func postBlob(s *API, c *fiber.Ctx) error {
	key, err := writableSession(c)
	if err != nil {
		return err
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	if err := s.Uploads(ctx, door.Principal(c), key); err != nil {
		return err
	}
	f, added, err := s.Files.Upload(ctx, key, attach.Upload{
		Name: c.Query("name"), Type: c.Get(fiber.HeaderContentType), Encoding: c.Get(fiber.HeaderContentEncoding), Body: c.Request().Body(),
	})
	if err != nil {
		return err
	}
	status := fiber.StatusOK
	if added {
		status = fiber.StatusCreated
	}
	return send(c, status, protocol.AppendFile(nil, f))
}

// getBlob shows a file to who may read a session that has it.
func getBlob(s *API, c *fiber.Ctx) error {
	ctx, cancel := s.Deadline()
	defer cancel()
	o, err := s.File(ctx, door.Principal(c), attached.Hash(c.Params("hash")), conversation.SessionID(c.Query("session")))
	if err != nil {
		return err
	}
	attach.Head(o, c.Set)
	switch {
	case assets.Has(c.Get(fiber.HeaderIfNoneMatch), c.GetRespHeader(fiber.HeaderETag)):
		return c.SendStatus(fiber.StatusNotModified)
	case c.Method() == fiber.MethodHead:
		c.Response().SkipBody = true
		c.Response().Header.SetContentLength(int(o.Size))
	default:
		c.Locals(localSize, int(o.Size))
		c.Context().SetBodyStream(s.Files.Reader(s.Alive, o), int(o.Size))
	}
	return nil
}

// localSize is the size of a file that is sent as a stream, for the time that it may take.
const localSize = "size"
