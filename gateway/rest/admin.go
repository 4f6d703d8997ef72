package rest

import (
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"parley/conversation"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// livez says that the process runs, readyz that it wants work.
func (s *API) livez(c *fiber.Ctx) error {
	return reply(c, fiber.StatusOK, func(o *protocol.Object) { o.Text("status", "alive") })
}

func (s *API) readyz(c *fiber.Ctx) error {
	if s.Connections.Draining() {
		return service.ErrDraining
	}
	if err := s.Sessions.Ready(); err != nil {
		e := s.Refusal(err)
		return &conversation.Error{Code: conversation.Unavailable, Message: e.Message, Err: e.Err}
	}
	return reply(c, fiber.StatusOK, func(o *protocol.Object) {
		if s.Sessions.Health() == nil {
			o.Text("status", "ready")
			return
		}
		// It still wants work: most sessions can be served, and another process on the
		// same store would be no better. What is wrong may name files: the log has it.
		o.Text("status", "degraded")
		o.Text("reason", "something that is stored cannot be read: see the server's log")
	})
}

func (s *API) version(c *fiber.Ctx) error {
	return reply(c, fiber.StatusOK, func(o *protocol.Object) {
		o.Text("name", "parley")
		o.Text("version", s.Services.Version)
		o.Text("node", string(s.Node))
		o.Text("model", s.Model)
		o.Int("proto", 1)
	})
}

// adminMux serves /metrics, pprof and backups. guard is for what changes something.
func (s *API) adminMux(guard Guard) *http.ServeMux {
	mux := http.NewServeMux()
	if s.Backup != nil {
		mux.HandleFunc("POST /admin/backup", s.backup(guard))
	}
	if s.gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(s.gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// administration serves the same on the main address. Only for loopback.
func (s *API) administration(guard Guard) {
	handler := adaptor.HTTPHandler(s.adminMux(guard))
	open := func(c *fiber.Ctx) error {
		c.Response().Header.Del(fiber.HeaderContentSecurityPolicy) // pprof's index has a style of its own
		return handler(c)
	}
	if s.gatherer != nil {
		s.route(fiber.MethodGet, "/metrics", open)
	}
	if s.Backup != nil {
		s.route(fiber.MethodPost, "/admin/backup", open)
	}
	s.route(fiber.MethodGet, "/debug/pprof/*", open)
}

// AdminServer serves administration on an address of its own.
func (s *API) AdminServer(guard Guard) *http.Server {
	return &http.Server{Handler: s.adminMux(guard), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 60 * time.Second}
}

func (s *API) index(c *fiber.Ctx) error { return s.sendFile(c, "index.html") }

func (s *API) asset(c *fiber.Ctx) error {
	return s.sendFile(c, strings.TrimPrefix(c.Params("*"), "/"))
}

func (s *API) sendFile(c *fiber.Ctx, name string) error {
	f, ok := s.page.files[name]
	if !ok {
		return fiber.ErrNotFound
	}
	c.Set(fiber.HeaderContentSecurityPolicy, pagePolicy)
	c.Set("Cross-Origin-Opener-Policy", "same-origin")
	c.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	c.Set(fiber.HeaderCacheControl, "no-cache")
	c.Set(fiber.HeaderETag, f.tag)
	if c.Get(fiber.HeaderIfNoneMatch) == f.tag {
		return c.SendStatus(fiber.StatusNotModified)
	}
	c.Set(fiber.HeaderContentType, f.kind)
	return c.Send(f.data)
}
