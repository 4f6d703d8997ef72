package rest

import (
	"strings"

	"parley/gateway/assets"

	"github.com/gofiber/fiber/v2"
)

// pagePolicy lets the page load its own files and talk to its own server, nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// What may change is asked for again each time; what is at a place that names its
// content is kept.
const (
	askAgain = "no-cache"
	forEver  = "public, max-age=31536000, immutable"
)

func (s *API) index(c *fiber.Ctx) error { return sendPage(c, s.page.Index(), false) }

func (s *API) asset(c *fiber.Ctx) error {
	f, fixed := s.page.Find(strings.TrimPrefix(c.Params("*"), "/"))
	return sendPage(c, f, fixed)
}

func sendPage(c *fiber.Ctx, f *assets.File, fixed bool) error {
	if f == nil {
		return fiber.ErrNotFound
	}
	c.Set(fiber.HeaderContentSecurityPolicy, pagePolicy)
	c.Set("Cross-Origin-Opener-Policy", "same-origin")
	c.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	return sendFile(c, f, fixed)
}

// sendFile sends the whole file, also to one who asks for a range of it: RFC 9110 allows
// that, and no file is so large that a part of it would be worth more.
func sendFile(c *fiber.Ctx, f *assets.File, fixed bool) error {
	body, coding, tag := f.Body(c.Get(fiber.HeaderAcceptEncoding))
	c.Set(fiber.HeaderCacheControl, askAgain)
	if fixed {
		c.Set(fiber.HeaderCacheControl, forEver)
	}
	if f.Varies() {
		c.Vary(fiber.HeaderAcceptEncoding)
	}
	c.Set(fiber.HeaderETag, tag)
	if assets.Has(c.Get(fiber.HeaderIfNoneMatch), tag) {
		return c.SendStatus(fiber.StatusNotModified)
	}
	c.Set(fiber.HeaderContentType, f.Kind)
	if coding != "" {
		c.Set(fiber.HeaderContentEncoding, coding)
	}
	return c.Send(body)
}
