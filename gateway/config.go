package gateway

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"parley/conversation"
	"parley/gateway/protocol"
	"parley/gateway/service"
)

// Config is what the gateway is told once. Zero values are filled in by
// DefaultConfig, not by New: 0 means what the comment says.
//
// The tags describe a field to the configuration: conversation.FieldError lists them.
type Config struct {
	Listen         string   `key:"listen"`                  // host:port of sockets, HTTP and page
	AdminListen    string   `key:"admin.listen"`            // host:port of /metrics and pprof; "" = none of its own
	AllowedOrigins []string `key:"gateway.allowed_origins"` // origins besides the server's own that pages may connect from: "https://chat.example"
	PublicHosts    []string `key:"gateway.public_hosts"`    // names that this server is reached by, besides what it is bound to: "chat.example"
	Node           conversation.NodeID
	Version        string
	Model          string // the default model's label, shown in hello
	Limits         protocol.Limits
	Times          service.Times
}

// DefaultConfig is what a configuration that says nothing means.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:8080",
		Node:   "local",
		Limits: protocol.DefaultLimits(),
		Times: service.Times{
			Hello: 5 * time.Second, Heartbeat: 25 * time.Second, ReadDeadline: 35 * time.Second,
			Write: 10 * time.Second, Close: 2 * time.Second, Request: 30 * time.Second, WaitMax: 5 * time.Minute,
			Comment: 20 * time.Second, DrainSpread: 5 * time.Second, Drain: 10 * time.Second,
		},
	}
}

// validate refuses what cannot work, with the key's name.
func (c Config) validate() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("listen %q: must be host:port", c.Listen)
	}
	if c.AdminListen != "" {
		if _, _, err := net.SplitHostPort(c.AdminListen); err != nil {
			return fmt.Errorf("admin.listen %q: must be host:port", c.AdminListen)
		}
	}
	for _, o := range c.AllowedOrigins {
		if _, ok := parseOrigin(o); !ok {
			return fmt.Errorf(`gateway.allowed_origins: %q is not an origin such as "https://chat.example"`, o)
		}
	}
	for _, h := range c.PublicHosts {
		if h == "" || strings.ContainsAny(h, "/@ ") {
			return fmt.Errorf(`gateway.public_hosts: %q is not a host name such as "chat.example"`, h)
		}
	}
	l := c.Limits
	for _, x := range []struct {
		name  string
		value int
		least int
	}{
		{"frame_bytes", l.FrameBytes, 0}, {"text_bytes", l.TextBytes, 0}, {"commands_burst", l.CommandsBurst, 0},
		{"follows_per_connection", l.FollowsPerConnection, 0}, {"connections_per_user", l.ConnectionsPerUser, 0},
		{"connections_per_tenant", l.ConnectionsPerTenant, 0}, {"connections_before_hello", l.ConnectionsBeforeHello, 0},
		{"connections_before_hello_per_address", l.ConnectionsBeforeHelloByAddress, 0},
		{"replay_page", l.ReplayPage, 1}, {"replay_max", l.ReplayMax, 0}, {"queue_frames", l.QueueFrames, 1},
		{"queue_bytes", l.QueueBytes, 1}, {"body_bytes", l.BodyBytes, 1}, {"streams", l.Streams, 0},
	} {
		if x.value < x.least {
			return fmt.Errorf("limits.%s: must be at least %d", x.name, x.least)
		}
	}
	if l.HeadBytes != 0 && l.HeadBytes < 1024 {
		return fmt.Errorf("limits.head_bytes: must be at least 1024, or 0 for the default")
	}
	if l.CommandsPerSecond < 0 {
		return fmt.Errorf("limits.commands_per_second: must be at least 0")
	}
	if l.CommandsPerSecond > 0 && l.CommandsBurst < 1 {
		return fmt.Errorf("limits.commands_burst: must be at least 1 when commands_per_second is set")
	}
	t := c.Times
	for name, d := range map[string]time.Duration{
		"hello": t.Hello, "heartbeat": t.Heartbeat, "read deadline": t.ReadDeadline, "write": t.Write, "close": t.Close,
		"request": t.Request, "wait": t.WaitMax, "comment": t.Comment, "drain": t.Drain,
	} {
		if d <= 0 {
			return fmt.Errorf("the gateway's %s time must be above 0", name)
		}
	}
	if t.ReadDeadline <= t.Heartbeat {
		return fmt.Errorf("the gateway's read deadline (%v) must be above its heartbeat (%v)", t.ReadDeadline, t.Heartbeat)
	}
	return nil
}

// loopback is true when addr can be reached from this machine only.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
