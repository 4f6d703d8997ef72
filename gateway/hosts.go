package gateway

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
	"parley/gateway/admin"

	"github.com/gofiber/fiber/v2"
)

// Any page on the web can make a browser open ws://127.0.0.1 or post to it, so
// Origin and Host are checked on every route, also on loopback. Host is checked
// because a name that is made to point here (DNS rebinding) would be its own origin.

// hostPolicy knows by which names the server may be called and from where.
type hostPolicy struct {
	scheme  string          // that the server itself speaks
	hosts   map[string]bool // what it is bound to; lower case, without port
	anyIP   bool            // bound to all addresses: any address is a good name: an address cannot be rebound
	public  map[string]bool // names that a proxy serves it under, by either scheme
	sites   map[string]bool // the same, where the operator says by which scheme and port: as parseOrigin spells them
	named   map[string]bool // the names of sites
	origins map[string]bool // of other sites, as parseOrigin spells them
}

func newHostPolicy(cfg Config) hostPolicy {
	d := hostPolicy{
		scheme: "http",
		hosts:  map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true},
		public: make(map[string]bool), sites: make(map[string]bool), named: make(map[string]bool), origins: make(map[string]bool),
	}
	if cfg.TLS.On() {
		d.scheme = "https"
	}
	if host, _, err := net.SplitHostPort(cfg.Listen); err == nil {
		ip, err := netip.ParseAddr(host)
		switch {
		case host == "", err == nil && ip.IsUnspecified():
			d.anyIP = true
		default:
			d.hosts[strings.ToLower(host)] = true
		}
	}
	for _, h := range cfg.TLS.ACMEHosts { // it speaks https under these names itself
		d.hosts[h] = true
	}
	for _, h := range cfg.PublicHosts {
		if site, ok := parseOrigin(h); ok {
			d.sites[site.String()], d.named[site.host] = true, true
			continue
		}
		name, _ := splitHost(h)
		d.public[name] = true
	}
	for _, o := range cfg.AllowedOrigins {
		if origin, ok := parseOrigin(o); ok {
			d.origins[origin.String()] = true
		}
	}
	return d
}

// knowsHost is true when a request may be addressed to host.
func (d hostPolicy) knowsHost(host string) bool {
	name, _ := splitHost(host)
	return name != "" && (d.public[name] || d.named[name] || d.bound(name))
}

// KnowsHost is true when a server of this configuration takes requests that are addressed to
// host, which may have a port.
func (c Config) KnowsHost(host string) bool { return newHostPolicy(c).knowsHost(host) }

// bound is true for a name of the address itself.
func (d hostPolicy) bound(name string) bool {
	if d.hosts[name] {
		return true
	}
	_, err := netip.ParseAddr(name)
	return d.anyIP && err == nil
}

// admits is true when a page of origin may talk to the server called host. No
// origin at all is a program, not a page. A page that came by another scheme than the
// server speaks is another origin: who is between may have changed an unencrypted one. Only
// where a proxy serves the server under a name is its scheme the proxy's business.
func (d hostPolicy) admits(origin, host string) bool {
	if origin == "" {
		return true
	}
	o, ok := parseOrigin(origin)
	if !ok {
		return false
	}
	name, port := splitHost(host)
	switch {
	case d.origins[o.String()], d.sites[o.String()] && o.host == name:
		return true
	case port == "":
		port = o.defaultPort()
	}
	if o.host != name || o.port != port {
		return false
	}
	return (o.scheme == d.scheme && d.bound(name)) || (d.public[name] && (d.scheme == "http" || o.scheme == "https"))
}

// originOf is a parsed Origin header, its port filled in.
type originOf struct{ scheme, host, port string }

func (o originOf) String() string { return o.scheme + "://" + o.host + ":" + o.port }

func (o originOf) defaultPort() string {
	if o.scheme == "https" {
		return "443"
	}
	return "80"
}

// parseOrigin reads "scheme://host[:port]"; anything else, "null" included, is none.
func parseOrigin(s string) (originOf, bool) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || rest == "" || strings.ContainsAny(rest, "/?#@\\ ") {
		return originOf{}, false
	}
	o := originOf{scheme: strings.ToLower(scheme)}
	if o.scheme != "http" && o.scheme != "https" {
		return originOf{}, false
	}
	o.host, o.port = splitHost(rest)
	if o.port == "" {
		o.port = o.defaultPort()
	}
	return o, o.host != ""
}

// splitHost splits "host[:port]" and "[v6][:port]"; the host is lower case,
// without brackets and without a trailing dot.
func splitHost(s string) (host, port string) {
	host = s
	if h, p, err := net.SplitHostPort(s); err == nil {
		host, port = h, p
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, ".")), port
}

// adminGuard checks requests that administer: no page of another origin may make one, an
// allowed one neither, and none that a browser makes for another site, not even by a link.
func adminGuard(cfg Config, listen string) admin.Guard {
	policy := newHostPolicy(Config{Listen: listen, PublicHosts: cfg.PublicHosts})
	return func(host, origin, site string) *conversation.Error {
		if !policy.knowsHost(host) {
			return conversation.Errorf(conversation.Forbidden, "this address is not called %q; see gateway.public_hosts", conversation.Excerpt(host, 80))
		}
		if !policy.admits(origin, host) {
			return conversation.Errorf(conversation.Forbidden, "pages of %q may not administer this server", conversation.Excerpt(origin, 80))
		}
		if foreign(site) {
			return conversation.Errorf(conversation.Forbidden, "pages of other sites may not administer this server")
		}
		return nil
	}
}

// foreign is true for a Sec-Fetch-Site by which a browser says that a page of another site
// has made it ask.
func foreign(site string) bool { return site == "cross-site" || site == "same-site" }

// embedded is true for what a page of another site asks without saying so in Origin, as for
// an image or a frame. A person who follows a link to here is welcome.
func embedded(c *fiber.Ctx) bool {
	return foreign(c.Get("Sec-Fetch-Site")) && c.Get(fiber.HeaderOrigin) == "" &&
		(c.Get("Sec-Fetch-Mode") != "navigate" || c.Get("Sec-Fetch-Dest") != "document")
}

// guard checks Host and Origin on every route, before anything else happens.
func (s *Server) guard(c *fiber.Ctx) error {
	host := string(c.Context().Host())
	if age := s.cfg.TLS.HSTS; age > 0 && c.Context().IsTLS() {
		c.Set(fiber.HeaderStrictTransportSecurity, "max-age="+strconv.Itoa(int(age/time.Second)))
	}
	if wrong := framing(c.Request().Header.RawHeaders()); wrong != "" {
		c.Context().SetConnectionClose()
		return conversation.Errorf(conversation.BadRequest, "%s", wrong)
	}
	switch {
	case !s.hosts.knowsHost(host):
		s.refuseSocket(c)
		return conversation.Errorf(conversation.Forbidden, "this server is not called %q; see gateway.public_hosts", conversation.Excerpt(host, 80))
	case !s.hosts.admits(c.Get(fiber.HeaderOrigin), host):
		s.refuseSocket(c)
		return conversation.Errorf(conversation.Forbidden, "pages of %q may not use this server; see gateway.allowed_origins", conversation.Excerpt(c.Get(fiber.HeaderOrigin), 80))
	}
	if embedded(c) {
		s.refuseSocket(c)
		return conversation.Errorf(conversation.Forbidden, "pages of other sites may not embed what is here; a page of gateway.allowed_origins asks with its Origin (fetch with mode cors)")
	}
	return s.allowOrigin(c)
}

// allowOrigin lets a page of another, allowed origin read what it is answered
// (CORS), and answers the question that its browser asks first.
func (s *Server) allowOrigin(c *fiber.Ctx) error {
	c.Vary(fiber.HeaderOrigin)
	origin := c.Get(fiber.HeaderOrigin)
	if o, ok := parseOrigin(origin); !ok || !s.hosts.origins[o.String()] {
		return c.Next()
	}
	c.Set(fiber.HeaderAccessControlAllowOrigin, origin)
	c.Set(fiber.HeaderAccessControlExposeHeaders, "X-Request-Id, Location, Content-Location, Retry-After, RateLimit, RateLimit-Policy, Mcp-Session-Id, X-Should-Retry, X-Parley-Code")
	if c.Method() == fiber.MethodOptions && c.Get(fiber.HeaderAccessControlRequestMethod) != "" {
		c.Set(fiber.HeaderAccessControlAllowMethods, "GET, HEAD, POST, PUT, PATCH, DELETE")
		// SDKs of other protocols send headers of their own, and ever new ones. An origin that the
		// operator has named may send any; none of them is a credential that a browser adds by itself.
		allowed := c.Get(fiber.HeaderAccessControlRequestHeaders)
		if !headerNames(allowed) {
			allowed = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Request-Id"
		}
		c.Set(fiber.HeaderAccessControlAllowHeaders, allowed)
		c.Set(fiber.HeaderAccessControlMaxAge, "600")
		return c.SendStatus(fiber.StatusNoContent)
	}
	return c.Next()
}

// headerNames is true for a list of names of headers.
func headerNames(list string) bool {
	return list != "" && !strings.ContainsFunc(list, func(r rune) bool {
		return r != '-' && r != '_' && r != ',' && r != ' ' && !('a' <= r && r <= 'z') && !('A' <= r && r <= 'Z') && !('0' <= r && r <= '9')
	})
}

func (s *Server) refuseSocket(c *fiber.Ctx) {
	if c.Path() == "/ws" {
		s.services.Metrics.Handshakes.WithLabelValues("forbidden").Inc()
	}
}
