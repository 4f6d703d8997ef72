package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"parley/conversation/member"
	"parley/conversation/search"
	"parley/gateway/a2a"
	"parley/gateway/acp"
	"parley/gateway/admin"
	"parley/gateway/agui"
	"parley/gateway/assets"
	"parley/gateway/attach"
	"parley/gateway/auth"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/fanout"
	"parley/gateway/feed"
	"parley/gateway/find"
	"parley/gateway/list"
	"parley/gateway/listener"
	"parley/gateway/mcp"
	"parley/gateway/openai"
	"parley/gateway/push"
	"parley/gateway/render"
	"parley/gateway/rest"
	"parley/gateway/service"
	"parley/gateway/uistream"
	"parley/gateway/ws"
	"parley/metrics"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// Deps holds the parts that the gateway works with.
type Deps struct {
	Sessions      service.Sessions      // required
	Hub           *fanout.Hub           // required; the same one that the engine publishes to
	Authenticator service.Authenticator // nil = NoAuth
	Page          fs.FS                 // index.html and its assets; nil = no page
	Logger        *slog.Logger          // nil = nothing is logged
	Requests      *service.RequestLog   // nil = requests have no lines in the log
	Metrics       *metrics.Gateway      // nil = counts are thrown away
	Gatherer      prometheus.Gatherer   // what /metrics shows; nil = no /metrics
	Backup        service.Backup        // copies the store; nil = no /admin/backup
	Audit         service.Audit         // keeps what administrators do; nil = in memory
	Tickets       member.Tickets        // of all nodes; nil = in memory
	Inlets        map[string]Inlet      // of channels to chat platforms, by name; nil = there are none
	Files         *attach.Files         // what is attached to messages; nil = nothing can be
	Feeds         *feed.Feeds           // what happens in chats of platforms; nil = there are none
	Pushes        *push.Pushes          // tells clients of their tasks at addresses of their own; nil = nobody does
	Index         search.Index          // of what is said in sessions; nil = searches read the logs
	Searches      *metrics.Search       // nil = counts are thrown away
	Lists         *list.Board           // who watches a list of sessions; nil = that is not possible
	Members       func() []member.Peer  // of the cluster, as this node knows them; nil = it is alone
	Secret        []byte                // what all nodes of these sessions know, also after a restart, and nobody else; nil = random
	CommandLine   []string              // the process's, without secrets, for /debug/pprof/cmdline
}

// Server serves one address, and another one for administration if wanted.
type Server struct {
	services *service.Services
	cfg      Config
	hosts    hostPolicy
	ws       *ws.Sockets
	rest     *rest.API
	operator *admin.Routes
	app      *fiber.App
	endAll   context.CancelFunc // ends services.Alive

	stopWaiting context.CancelFunc // ends services.Serving

	drained chan struct{}
	drain   sync.Once

	mu    sync.Mutex
	main  *listener.Bounded
	admin net.Listener
	extra *http.Server
}

// New checks the configuration and prepares the server; nothing listens yet.
func New(cfg Config, d Deps) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if d.Sessions == nil || d.Hub == nil {
		return nil, errors.New("gateway: Sessions and Hub are required")
	}
	if d.Authenticator == nil {
		d.Authenticator = service.NoAuth{}
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Metrics == nil {
		d.Metrics = metrics.NewGateway(prometheus.NewRegistry())
	}
	if d.Searches == nil {
		d.Searches = metrics.NewSearch(prometheus.NewRegistry())
	}
	if d.Audit == nil {
		d.Audit = &service.MemoryAudit{}
	}
	if d.Authenticator.Mode() == auth.ModeNone && (!loopback(cfg.Listen) || len(cfg.PublicHosts) > 0) {
		return nil, fmt.Errorf("auth.mode is none, so everybody who reaches %s could read and write everything: either listen on a loopback address "+
			"(--listen 127.0.0.1:8080) without gateway.public_hosts, or set auth.mode to keys, jwt or proxy", strings.Join(append([]string{cfg.Listen}, cfg.PublicHosts...), ", "))
	}
	if d.Authenticator.Mode() == "none" && cfg.AdminListen != "" && !loopback(cfg.AdminListen) && !cfg.AdminInsecure {
		return nil, fmt.Errorf("auth.mode is none, so everybody who reaches admin.listen (%s) could read metrics and profiles and make backups: "+
			"listen on a loopback address, set auth.mode so that requests carry a key with the scope admin, or say admin.insecure = true", cfg.AdminListen)
	}
	if cfg.Limits.HeadBytes == 0 {
		cfg.Limits.HeadBytes = 4 << 10
	}
	if cfg.Limits.Connections == 0 {
		cfg.Limits.Connections = listener.Auto()
	}
	page, err := assets.New(d.Page)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, hosts: newHostPolicy(cfg), drained: make(chan struct{})}
	s.services = &service.Services{
		Limits: cfg.Limits, Times: cfg.Times, Node: cfg.Node, Version: cfg.Version, Model: cfg.Model, Offer: cfg.Offer,
		Sessions: d.Sessions, Hub: d.Hub, Auth: auth.NewDoor(d.Authenticator, cfg.SignIn, d.Tickets, d.Logger, d.Metrics), Connections: service.NewConnections(),
		Log: d.Logger, Requests: d.Requests, Metrics: d.Metrics, Now: time.Now, Backup: d.Backup, Audit: d.Audit, Members: d.Members,
		Inlets: d.Inlets, Feeds: d.Feeds, Files: d.Files, Lists: d.Lists, Cursors: service.NewCursors(d.Secret), Find: find.New(d.Sessions, d.Index, cfg.Find, d.Searches),
	}
	s.services.Proxies, _ = service.ParseProxies(cfg.TrustedProxies) // validated above
	d.Hub.RenderWith(render.NewPool(cfg.Render, d.Metrics))
	s.services.Alive, s.endAll = context.WithCancel(context.Background())
	s.services.Serving, s.stopWaiting = context.WithCancel(s.services.Alive)
	s.ws = ws.New(s.services)
	way := door.New(s.services)
	s.rest = rest.New(way, page)
	s.operator = admin.New(s.services, d.Gatherer, d.CommandLine)
	taken := newUploads(s.services, d.Authenticator)
	s.app = fiber.New(fiber.Config{
		AppName:                      "parley",
		DisableStartupMessage:        true,
		Immutable:                    true, // strings of a request outlive it: they go to sessions
		BodyLimit:                    rest.ReadTooLarge * cfg.Limits.BodyBytes,
		ReadTimeout:                  15 * time.Second,
		IdleTimeout:                  60 * time.Second,
		WriteTimeout:                 0, // it would cut streams: rest.Observe limits each answer by its size
		ReadBufferSize:               cfg.Limits.HeadBytes,
		ErrorHandler:                 taken.problem(s.rest.Unread),
		CaseSensitive:                true,
		UnescapePath:                 false, // ids of sub-sessions hold an escaped slash
		DisablePreParseMultipartForm: true,
	})
	s.app.Server().KeepHijackedConns = true // see upgrade
	s.app.Server().HeaderReceived = taken.begin
	s.app.Server().ExpectHandler = rest.Expect(s.services)
	s.app.Use(taken.around, s.rest.Observe, s.guard, way.LimitAddress())
	s.app.Get("/ws", s.rest.Named("/ws"), door.Sized, s.upgrade())
	var operator *admin.Routes // nil: strangers could come here
	if cfg.administersOnMain() {
		operator = s.operator
	}
	s.rest.Register(s.app, operator, adminGuard(cfg, cfg.Listen))
	others := exchange.New(way)
	openai.Register(others, s.app)
	uistream.Register(others, s.app)
	agui.Register(others, s.app)
	acp.Register(others, s.app)
	mcp.Register(others, s.app)
	a2a.Register(others, s.app, d.Pushes)
	return s, nil
}

// AdminAddr is the address of the administration listener; nil = there is none.
func (s *Server) AdminAddr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.admin == nil {
		return nil
	}
	return s.admin.Addr()
}

// Run serves until ctx ends and drains then, or until Drain was called. It
// returns when every socket, stream and request has ended.
func (s *Server) Run(ctx context.Context) error {
	if _, err := s.Listen(); err != nil {
		return err
	}
	failed := make(chan error, 2)
	var served sync.WaitGroup
	served.Go(func() {
		if err := s.app.Listener(s.main); err != nil && !errors.Is(err, net.ErrClosed) && !s.services.Connections.Draining() {
			failed <- fmt.Errorf("serve: %w", err)
		}
	})
	if s.admin != nil {
		s.extra = s.operator.Server(adminGuard(s.cfg, s.cfg.AdminListen), !loopback(s.cfg.AdminListen) && !s.cfg.AdminInsecure)
		served.Go(func() {
			if err := s.extra.Serve(s.admin); err != nil && !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serve administration: %w", err)
			}
		})
	}
	served.Go(func() { s.services.Find.Run(s.services.Serving) })
	served.Go(func() { s.services.Files.Run(s.services.Alive) })
	s.services.Log.Info("gateway listens", "address", s.main.Addr().String(), "auth", s.services.Auth.Mode())
	var err error
	select {
	case <-ctx.Done():
	case <-s.drained:
	case err = <-failed:
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.services.Times.Drain)
	defer cancel()
	err = errors.Join(err, s.Drain(end))
	served.Wait()
	return err
}
