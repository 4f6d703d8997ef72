package gateway

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
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
	Limits         Limits
	Times          Times
}

// Limits are the bounds of what clients may do; 0 = none. Those of protocol v1
// are told in the answer to hello.
type Limits struct {
	FrameBytes                      int     `key:"limits.frame_bytes" min:"0" unit:"bytes"` // one WebSocket message from a client
	TextBytes                       int     `key:"limits.text_bytes" min:"0" unit:"bytes"`  // one message's text
	CommandsPerSecond               float64 `key:"limits.commands_per_second" min:"0"`      // per connection
	CommandsBurst                   int     `key:"limits.commands_burst" min:"0"`           // per connection
	FollowsPerConnection            int     `key:"limits.follows_per_connection" min:"0"`
	ConnectionsPerUser              int     `key:"limits.connections_per_user" min:"0"`
	ConnectionsPerTenant            int     `key:"limits.connections_per_tenant" min:"0"`
	ConnectionsBeforeHello          int     `key:"limits.connections_before_hello" min:"0"`
	ConnectionsBeforeHelloByAddress int     `key:"limits.connections_before_hello_per_address" min:"0"`
	ReplayPage                      int     `key:"limits.replay_page" min:"1" max:"10000"` // events read from the log at once; at least 1

	ReplayMax   int `key:"limits.replay_max" min:"0"`               // how far back a follow may begin, in events
	QueueFrames int `key:"limits.queue_frames" min:"1"`             // frames that may wait for one connection; at least 1
	QueueBytes  int `key:"limits.queue_bytes" min:"1" unit:"bytes"` // bytes that may wait for one connection; at least 1
	BodyBytes   int `key:"limits.body_bytes" min:"1" unit:"bytes"`  // one HTTP request's body; at least 1
	HeadBytes   int // one HTTP request's line and headers; 0 = 4 KiB. Each socket keeps a buffer of this size
	Streams     int `key:"limits.streams" min:"0"` // open SSE streams of the node
}

// Times are the gateway's waits.
type Times struct {
	Hello        time.Duration `key:"gateway.hello_timeout" min:"1ms"`   // how long a connection may be without hello
	Heartbeat    time.Duration `key:"gateway.heartbeat" min:"1ms"`       // without traffic, how often the server speaks up
	ReadDeadline time.Duration `key:"gateway.read_deadline" min:"1ms"`   // silence of a client that ends its connection
	Write        time.Duration `key:"gateway.write_timeout" min:"1ms"`   // a write blocked for longer ends its connection
	Close        time.Duration `key:"gateway.close_timeout" min:"1ms"`   // how long the server waits for the answer to its close frame
	Request      time.Duration `key:"gateway.request_timeout" min:"1ms"` // an HTTP request, or the wait for an engine's answer
	WaitMax      time.Duration `key:"gateway.wait_max" min:"1ms"`        // the longest ?wait=
	Comment      time.Duration `key:"gateway.sse_comment" min:"1ms"`     // SSE: how often a comment is sent on a silent stream
	DrainSpread  time.Duration `key:"gateway.drain_spread" min:"0s"`     // clients are told to come back within this time, each at another moment
	Drain        time.Duration // Run's own drain when its context ends
}

// DefaultConfig is what a configuration that says nothing means.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:8080",
		Node:   "local",
		Limits: Limits{
			FrameBytes: 256 << 10, TextBytes: 128 << 10,
			CommandsPerSecond: 20, CommandsBurst: 40,
			FollowsPerConnection: 64, ConnectionsPerUser: 100, ConnectionsPerTenant: 10_000,
			ConnectionsBeforeHello: 200, ConnectionsBeforeHelloByAddress: 20,
			ReplayPage: 500, ReplayMax: 5000,
			QueueFrames: 1024, QueueBytes: 1 << 20, BodyBytes: 1 << 20, HeadBytes: 4 << 10, Streams: 1000,
		},
		Times: Times{
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

// appendLimits shows the limits of the protocol by their names.
func (l Limits) append(o *object) {
	o.key("limits")
	in := open(o.b)
	in.int("frame_bytes", int64(l.FrameBytes))
	in.int("text_bytes", int64(l.TextBytes))
	in.key("commands_per_second")
	in.b = strconv.AppendFloat(in.b, l.CommandsPerSecond, 'f', -1, 64)
	in.int("commands_burst", int64(l.CommandsBurst))
	in.int("follows_per_connection", int64(l.FollowsPerConnection))
	in.int("connections_per_user", int64(l.ConnectionsPerUser))
	in.int("connections_per_tenant", int64(l.ConnectionsPerTenant))
	in.int("connections_before_hello", int64(l.ConnectionsBeforeHello))
	in.int("connections_before_hello_per_address", int64(l.ConnectionsBeforeHelloByAddress))
	in.int("replay_page", int64(l.ReplayPage))
	o.b = in.close()
}
