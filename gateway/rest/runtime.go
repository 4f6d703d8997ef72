package rest

import (
	"context"
	"time"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// postPart takes a part from an outside runtime. The same (source, index) again
// is the same message, and so is a plain one under the same Idempotency-Key.
func (s *API) postPart(c *fiber.Ctx) error {
	key, err := writableSession(c)
	if err != nil {
		return err
	}
	b, err := door.Body(c)
	if err != nil {
		return err
	}
	part, bad := protocol.ReadPart(b, s.Limits)
	if bad != nil {
		return bad
	}
	id, err := door.IdempotencyKey(c, "part")
	if err != nil {
		return err
	}
	if part.Source == "" { // a plain message: its Idempotency-Key alone makes it repeatable
		part.ClientMsgID = id
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	who := door.Principal(c)
	as, err := s.WritesAs(ctx, who, key)
	if err != nil {
		return err
	}
	part.Author = who.User
	r, err := s.Tell(ctx, key, as, part)
	if err != nil {
		return err
	}
	if r.Ignored || r.Message == "" { // nothing was said, or a task has ended without a word
		return c.SendStatus(fiber.StatusNoContent)
	}
	status := fiber.StatusCreated
	if r.Duplicate {
		status = fiber.StatusOK
	}
	return reply(c, status, func(o *protocol.Object) { protocol.AppendPartReceipt(o, r) })
}

// postRuntimeStatus takes a runtime's word about a message that it has claimed. It is
// idempotent by effect, so an Idempotency-Key adds nothing to it.
func (s *API) postRuntimeStatus(c *fiber.Ctx) error {
	key, message, err := messageOf(c)
	if err != nil {
		return err
	}
	b, err := door.Body(c)
	if err != nil {
		return err
	}
	says, bad := protocol.ReadRuntimeSays(b)
	if bad != nil {
		return bad
	}
	if _, err := door.IdempotencyKey(c, "runtime"); err != nil {
		return err
	}
	says.Message = message
	ctx, cancel := s.Deadline()
	defer cancel()
	as, err := s.WritesAs(ctx, door.Principal(c), key)
	if err != nil {
		return err
	}
	r, err := s.Tell(ctx, key, as, says)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, func(o *protocol.Object) { protocol.AppendLease(o, r) })
}

// postClaim hands messages to a runtime, or waits for some. A claim whose answer was
// lost is repeated by the next one under the same name, so an Idempotency-Key adds
// nothing to it.
func (s *API) postClaim(c *fiber.Ctx) error {
	b, err := door.Body(c)
	if err != nil {
		return err
	}
	claim, bad := protocol.ReadClaim(b)
	if bad != nil {
		return bad
	}
	if _, err := door.IdempotencyKey(c, "claim"); err != nil {
		return err
	}
	claim.Tenant = door.Principal(c).Tenant
	ctx, cancel := context.WithTimeout(s.Alive, claim.Wait+s.Times.Request)
	defer cancel()
	waiting := &waitingClaim{end: cancel}
	open := s.Connections.Add(waiting)
	defer s.Connections.Remove(waiting)
	if !open {
		return service.ErrDraining
	}
	lease := s.Lease(door.Principal(c), func(*conversation.Error) { cancel() })
	defer lease.Release()
	if over := lease.Over(); over != nil {
		return over
	}
	items, err := s.Sessions.Claim(ctx, claim)
	switch {
	case err == nil:
	case lease.Over() != nil:
		return lease.Over()
	case s.Connections.Draining() && ctx.Err() != nil:
		return service.ErrDraining
	default:
		return err
	}
	return reply(c, fiber.StatusOK, func(o *protocol.Object) { protocol.AppendClaimed(o, items) })
}

// waitingClaim is a claim as a drain sees it: it ends at once.
type waitingClaim struct{ end context.CancelFunc }

// GoAway implements service.Connection: the claim's answer says it.
func (w *waitingClaim) GoAway(int, string, time.Duration) {}

// Close implements service.Connection.
func (w *waitingClaim) Close() { w.end() }

// ForceClose implements service.Connection.
func (w *waitingClaim) ForceClose() { w.end() }
