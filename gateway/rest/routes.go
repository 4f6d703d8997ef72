package rest

import (
	"parley/gateway/admin"
	"parley/gateway/assets"
	"parley/gateway/door"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// API is the HTTP side of the protocol.
type API struct {
	*door.HTTP
	page   *assets.Page
	router fiber.Router
}

// New makes the routes. page is the web page.
func New(d *door.HTTP, page *assets.Page) *API {
	return &API{HTTP: d, page: page}
}

// Register is the protocol's table of routes. With operator they include /metrics,
// pprof and backups behind guard.
func (s *API) Register(router fiber.Router, operator *admin.Routes, guard admin.Guard) {
	s.router = router
	s.route(fiber.MethodGet, "/livez", s.livez)
	s.route(fiber.MethodGet, "/readyz", s.readyz)
	s.route(fiber.MethodGet, "/version", s.version)
	s.documents()

	chat, runtime := s.Authenticated(service.ScopeChat), s.Authenticated(service.ScopeRuntime)
	reader := s.Authenticated(service.ScopeChat, service.ScopeRuntime)
	s.route(fiber.MethodPost, "/api/sessions", chat, s.createSession)
	s.route(fiber.MethodGet, "/api/sessions", chat, s.listSessions)
	s.route(fiber.MethodGet, "/api/sessions/:id", reader, s.readSession)
	s.route(fiber.MethodPatch, "/api/sessions/:id", chat, s.patchSession)
	s.route(fiber.MethodDelete, "/api/sessions/:id", chat, s.deleteSession)
	s.route(fiber.MethodPost, "/api/sessions/:id/messages", chat, s.postMessage)
	s.route(fiber.MethodGet, "/api/sessions/:id/messages", reader, s.listMessages)
	s.route(fiber.MethodPatch, "/api/sessions/:id/messages/:message", chat, s.editMessage)
	s.route(fiber.MethodDelete, "/api/sessions/:id/messages/:message", chat, s.withdrawMessage)
	s.route(fiber.MethodPost, "/api/sessions/:id/blobs", chat, func(c *fiber.Ctx) error { return postBlob(s, c) })
	s.route(fiber.MethodGet, "/api/blobs/:hash", reader, func(c *fiber.Ctx) error { return getBlob(s, c) })
	s.route(fiber.MethodPost, "/api/sessions/:id/parts", runtime, s.postPart)
	s.route(fiber.MethodPost, "/api/sessions/:id/messages/:message/runtime", runtime, s.postRuntimeStatus)
	s.route(fiber.MethodPost, "/api/runtime/claim", runtime, s.postClaim)
	s.route(fiber.MethodGet, "/api/sessions/:id/events", reader, s.listEvents)
	s.route(fiber.MethodGet, "/api/sessions/:id/stream", s.AuthenticatedBy(door.TicketOf, service.ScopeChat, service.ScopeRuntime), s.stream)
	s.route(fiber.MethodPost, "/api/tickets", s.Authenticated(service.ScopeChat, service.ScopeRuntime, service.ScopeChats), func(c *fiber.Ctx) error { return postTicket(s.Services, c) })
	s.route(fiber.MethodGet, "/api/sessions/:id/calls/:call", chat, s.readCall)
	s.route(fiber.MethodPost, "/api/sessions/:id/cancel", chat, s.cancelSession)
	s.route(fiber.MethodPost, "/api/sessions/:id/clear", chat, func(c *fiber.Ctx) error { return clearSession(s, c) })
	s.route(fiber.MethodGet, "/api/sessions/:id/questions", chat, s.listQuestions)
	s.route(fiber.MethodPost, "/api/sessions/:id/questions/:question/answer", chat, s.postAnswer)
	members(s, reader, chat)
	channels(s)
	s.route(fiber.MethodPost, "/api/tasks", chat, s.postTask)
	s.route(fiber.MethodGet, "/api/tasks", chat, s.listTasks)
	s.route(fiber.MethodGet, "/api/tasks/:taskId", chat, s.readTask)
	s.route(fiber.MethodPost, "/api/tasks/:taskId/reply", chat, s.postReply)
	s.route(fiber.MethodPost, "/api/tasks/:taskId/cancel", chat, s.cancelTask)
	s.route(fiber.MethodGet, "/api/chats", s.Authenticated(service.ScopeChats), func(c *fiber.Ctx) error { return listChats(s, c) })
	s.route(fiber.MethodGet, "/api/chats/stream", s.AuthenticatedBy(door.TicketOf, service.ScopeChats), func(c *fiber.Ctx) error { return streamChats(s, c) })

	s.route(fiber.MethodGet, "/api/audit", s.Authenticated(service.ScopeAdmin), func(c *fiber.Ctx) error { return listActs(s, c) })
	s.route(fiber.MethodGet, "/api/cluster", s.Authenticated(service.ScopeAdmin), func(c *fiber.Ctx) error { return cluster(s, c) })
	if operator != nil {
		s.administration(operator, guard)
	}
	if !s.page.Empty() {
		s.route(fiber.MethodGet, "/", s.index)
		s.route(fiber.MethodGet, "/assets/*", s.asset)
	}
}

// route registers a handler under its name in the metrics. GET answers HEAD too.
func (s *API) route(method, path string, handlers ...fiber.Handler) {
	last := len(handlers) - 1
	handlers[last] = unseen(s, path, handlers[last])
	chain := append([]fiber.Handler{s.Named(path), door.Sized}, handlers...)
	if method == fiber.MethodGet {
		s.router.Get(path, chain...)
		return
	}
	s.router.Add(method, path, chain...)
}
