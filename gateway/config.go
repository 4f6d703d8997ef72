package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/option"
	"parley/gateway/auth"
	"parley/gateway/find"
	"parley/gateway/protocol"
	"parley/gateway/render"
	"parley/gateway/service"
)

// Config holds the settings of the gateway; they do not change while it runs.
// DefaultConfig fills in the defaults, New does not: a 0 in New means what the
// field's comment says.
//
// The tags describe a field to the configuration: option.FieldError lists them.
type Config struct {
	Listen         string   `key:"listen"`                  // host:port of sockets, HTTP and page
	AdminListen    string   `key:"admin.listen"`            // host:port of /metrics and pprof; "" = none of its own
	AdminInsecure  bool     `key:"admin.insecure"`          // admin.listen may be public without keys
	AllowedOrigins []string `key:"gateway.allowed_origins"` // origins besides the server's own that pages may connect from: "https://chat.example"
	PublicHosts    []string `key:"gateway.public_hosts"`    // names that this server is reached by, besides what it is bound to: "chat.example"
	TrustedProxies []string `key:"gateway.trusted_proxies"` // addresses and networks of proxies whose X-Forwarded-For counts: "10.0.0.0/8"
	TLS            TLS
	Node           conversation.NodeID
	Version        string
	Model          string // the default model's label, shown in hello
	Offer          protocol.Offer
	Starters       []string `key:"page.starters"` // texts that the page offers to begin a conversation with
	Limits         protocol.Limits
	SignIn         auth.SignInLimits
	Times          service.Times
	Render         render.Bounds // of the HTML of parts
	Find           find.Options  // of searches
}

// TLS is about encryption by the server itself; without files a proxy may do it.
type TLS struct {
	CertFile string        `key:"tls.cert_file"`     // the certificate and those between it and its root, PEM; "" = no TLS
	KeyFile  string        `key:"tls.key_file"`      // its key, PEM
	HSTS     time.Duration `key:"tls.hsts" min:"0s"` // how long browsers shall come by https only; 0 = not said

	ACMEHosts     []string `key:"tls.acme_hosts"`        // names whose certificates are got by ACME; none = no ACME
	ACMEEmail     string   `key:"tls.acme_email"`        // whom the authority writes to; "" = nobody
	ACMEDirectory string   `key:"tls.acme_directory"`    // the authority's address; "" = Let's Encrypt
	ACMECAFile    string   `key:"tls.acme_ca_file"`      // who vouches for that address, PEM; "" = whom the system trusts
	ACMETerms     bool     `key:"tls.acme_accept_terms"` // the operator agrees to the authority's terms
	ACMECache     string   // the directory of what the authority issued, and of the keys
}

// On is true when the server encrypts.
func (t TLS) On() bool { return t.CertFile != "" || t.ACME() }

// ACME is true when the certificates are got from an authority.
func (t TLS) ACME() bool { return len(t.ACMEHosts) > 0 }

// Each hello carries the starters.
const (
	maxStarters = 8
	maxStarter  = 300 // bytes
)

// DefaultConfig returns the settings of an empty configuration.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:8080",
		Node:   "local",
		Limits: protocol.DefaultLimits(),
		SignIn: auth.DefaultSignInLimits(),
		Times:  service.DefaultTimes(),
		TLS:    TLS{HSTS: 365 * 24 * time.Hour},
		Render: render.DefaultBounds(),
		Find:   find.Defaults(),
	}
}

// Validate says what cannot work, by the keys of the configuration.
func (c Config) Validate() []option.FieldError {
	wrong := slices.Concat(option.OutOfBounds(c.Limits), option.OutOfBounds(c.SignIn), option.OutOfBounds(c.Times), option.OutOfBounds(c.TLS), option.OutOfBounds(c.Render), option.OutOfBounds(c.Find))
	refuse := func(key, sentence string) {
		wrong = append(wrong, option.FieldError{Key: key, Sentence: sentence})
	}
	wrong = append(wrong, c.TLS.validate()...)
	if wrong := hostPort(c.Listen); wrong != "" {
		refuse("listen", wrong+`, for example "127.0.0.1:8080"`)
	}
	switch {
	case c.AdminListen == "":
	case hostPort(c.AdminListen) != "":
		refuse("admin.listen", hostPort(c.AdminListen)+`, for example "127.0.0.1:9090", or "" for none`)
	case c.AdminListen == c.Listen && !strings.HasSuffix(c.Listen, ":0"):
		refuse("admin.listen", "must differ from listen")
	}
	if slices.ContainsFunc(c.AllowedOrigins, func(o string) bool { _, ok := parseOrigin(o); return !ok }) {
		refuse("gateway.allowed_origins", `each must be an origin such as "https://app.example.org", without a path`)
	}
	if slices.ContainsFunc(c.PublicHosts, func(h string) bool {
		_, origin := parseOrigin(h)
		return !origin && (h == "" || strings.ContainsAny(h, "/ ?#@"))
	}) {
		refuse("gateway.public_hosts", `each must be a host such as "chat.example.org" or an origin such as "https://chat.example.org"`)
	}
	if _, bad := service.ParseProxies(c.TrustedProxies); bad != "" {
		refuse("gateway.trusted_proxies", `each must be an address or a network such as "10.0.0.0/8"`)
	}
	if len(c.Starters) > maxStarters || slices.ContainsFunc(c.Starters, func(t string) bool { return strings.TrimSpace(t) == "" || len(t) > maxStarter }) {
		refuse("page.starters", fmt.Sprintf("must be at most %d texts of at most %d bytes each", maxStarters, maxStarter))
	}
	l := c.Limits
	if l.FrameBytes > 0 && (l.TextBytes > l.FrameBytes || l.TextBytes == 0) {
		wrong = append(wrong, option.FieldError{Key: "limits.text_bytes", AtMost: "limits.frame_bytes"})
	}
	if l.CommandsPerSecond > 0 && l.CommandsBurst == 0 {
		refuse("limits.commands_burst", "must be at least 1 while limits.commands_per_second is set, else every command would be refused")
	}
	if l.ControlFramesPerSecond > 0 && l.ControlFramesBurst == 0 {
		refuse("limits.control_frames_burst", "must be at least 1 while limits.control_frames_per_second is set, else the first ping would end its connection")
	}
	if l.RequestsPerSecond > 0 && l.RequestsBurst == 0 {
		refuse("limits.requests_burst", "must be at least 1 while limits.requests_per_second is set, else every request would be refused")
	}
	if l.RequestsPerSecondPerAddress > 0 && l.RequestsBurstPerAddress == 0 {
		refuse("limits.requests_burst_per_address", "must be at least 1 while limits.requests_per_second_per_address is set, else every request would be refused")
	}
	if l.HeadBytes != 0 && l.HeadBytes < 1024 {
		refuse("limits.head_bytes", "must be at least 1024, or 0 for the default")
	}
	if c.Times.ReadDeadline <= c.Times.Heartbeat {
		refuse("gateway.read_deadline", "must be more than gateway.heartbeat, or clients that only listen would be cut off")
	}
	return wrong
}

// validate says what cannot work.
func (t TLS) validate() (wrong []option.FieldError) {
	refuse := func(when bool, key, sentence string) {
		if when {
			wrong = append(wrong, option.FieldError{Key: key, Sentence: sentence})
		}
	}
	refuse((t.CertFile == "") != (t.KeyFile == ""), "tls.cert_file", "and tls.key_file are needed together, or neither")
	if !t.ACME() {
		return wrong
	}
	refuse(t.CertFile != "", "tls.acme_hosts", "must be empty while tls.cert_file is set: certificates come from files or from an authority")
	refuse(len(t.ACMEHosts) > mostNames, "tls.acme_hosts", "must be "+strconv.Itoa(mostNames)+" names at most")
	refuse(slices.ContainsFunc(t.ACMEHosts, func(h string) bool { return !isPublicName(h) }), "tls.acme_hosts",
		`each must be a name in lower case such as "chat.example.org" (others as "xn--…"), without port or *; no authority vouches for addresses by this way`)
	refuse(!t.ACMETerms, "tls.acme_accept_terms", "must be true while tls.acme_hosts is set: it says that you agree to the authority's terms of service")
	directory, err := url.Parse(t.ACMEDirectory)
	refuse(t.ACMEDirectory != "" && (err != nil || directory.Scheme != "https" || directory.Host == ""), "tls.acme_directory",
		`must be an https address such as "https://ca.example.org/directory", or "" for Let's Encrypt`)
	refuse(strings.ContainsAny(t.ACMEEmail, " ,:") || t.ACMEEmail != "" && !strings.Contains(t.ACMEEmail, "@"), "tls.acme_email",
		`must be one address such as "admin@example.org", or ""`)
	return wrong
}

// mostNames is how many names may have certificates by ACME: each is asked for by itself.
const mostNames = 100

// isPublicName is true for a name of at least two labels, and no address.
func isPublicName(s string) bool {
	labels := strings.Split(s, ".")
	if len(s) > 253 || len(labels) < 2 || strings.Trim(labels[len(labels)-1], "0123456789") == "" {
		return false
	}
	return !slices.ContainsFunc(labels, func(l string) bool {
		return l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' || strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
	})
}

// validate is Validate as one error, and what no key sets.
func (c Config) validate() error {
	var errs []error
	for _, wrong := range c.Validate() {
		errs = append(errs, wrong)
	}
	if c.Times.Drain <= 0 {
		errs = append(errs, errors.New("the gateway's drain time must be above 0"))
	}
	return errors.Join(errs...)
}

// hostPort is what is wrong with an address to listen at, "" = nothing.
func hostPort(s string) string {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return `must be "host:port"`
	}
	if _, err = strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Sprintf("its port %q must be a number from 0 to 65535", port)
	}
	return ""
}

// administersOnMain says whether metrics, profiles and backups are on the main address
// too: only where no stranger is expected. Where users have to say who they are, so must
// the operator: a proxy of this machine that says nothing of itself may bring strangers.
func (c Config) administersOnMain() bool {
	return loopback(c.Listen) && len(c.PublicHosts) == 0 && !c.TLS.ACME()
}

// loopback is true when addr can be reached from this machine only.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && IsLoopback(host)
}

// IsLoopback is true for a host that can be reached from this machine only.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
