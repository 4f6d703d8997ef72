package service

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"parley/conversation"
)

// RequestLog writes a line for each HTTP request and each command of a WebSocket. nil is
// a log that is off. A line has no query, no header, no body and no path, for any of them
// may hold a secret or what somebody wrote: the route says enough.
type RequestLog struct{ Log *slog.Logger }

// RequestLine is what a line says.
type RequestLine struct {
	ID      string // X-Request-ID, or the client's id of a command
	Conn    string // of a command: the connection
	Method  string // of HTTP; "" = a command of a WebSocket
	Route   string // as routes are written in docs/API.md, or the command
	Status  int    // of HTTP
	Code    string // of a command: "ok", or the error's
	Took    time.Duration
	In, Out int                    // bytes of the bodies; Out -1 = a stream, whose line comes when it begins
	Session conversation.SessionID // see Named
	Who     *Principal             // nil = nobody said who he is
	Address string
}

// Named is the session that p named, as lines have it: "" of one that is no session's
// id, and where nobody has signed in, for it is a stranger's text then.
func (p *Principal) Named(session string) conversation.SessionID {
	if p == nil {
		return ""
	}
	key, bad := SessionKey(p.Tenant, session)
	if bad != nil {
		return ""
	}
	return key.Session
}

// Answered counts and times a request of HTTP, and writes its line.
func (s *Services) Answered(r *RequestLine) {
	switch r.Method {
	case "GET", "HEAD", "POST", "PATCH", "DELETE", "PUT", "OPTIONS":
	default: // a stranger's text
		r.Method = "other"
	}
	s.Metrics.Requests.WithLabelValues(r.Route, r.Method, strconv.Itoa(r.Status/100)+"xx").Inc()
	s.Metrics.RequestSeconds.WithLabelValues(r.Route, r.Method).Observe(r.Took.Seconds())
	s.Requests.Write(r)
}

// Write writes a line, at INFO. Routes for those who watch over the process are asked every
// few seconds, and are at DEBUG, as is what a client says while somebody types or reads.
func (l *RequestLog) Write(r *RequestLine) {
	if l == nil {
		return
	}
	level := slog.LevelInfo
	switch r.Route {
	case "/livez", "/readyz", "/healthz", "/metrics", "ping", "seen", "typing":
		level = slog.LevelDebug
	}
	ctx := context.Background()
	if !l.Log.Enabled(ctx, level) {
		return
	}
	var room [12]slog.Attr
	line := room[:0]
	text := func(key, value string) {
		if value != "" {
			line = append(line, slog.String(key, value))
		}
	}
	what := "request"
	if r.Method == "" {
		what = "command"
		line = append(line, slog.String("command", r.Route), slog.String("code", r.Code), slog.Duration("took", r.Took), slog.Int("bytes_in", r.In))
	} else {
		line = append(line, slog.String("method", r.Method), slog.String("route", r.Route), slog.Int("status", r.Status), slog.Duration("took", r.Took), slog.Int("bytes_in", r.In))
		if r.Out >= 0 {
			line = append(line, slog.Int("bytes_out", r.Out))
		}
	}
	text("request_id", r.ID)
	text("conn", r.Conn)
	text("session", string(r.Session))
	if r.Who != nil {
		text("tenant", string(r.Who.Tenant))
		text("user", string(r.Who.User))
	}
	text("remote", r.Address)
	l.Log.LogAttrs(ctx, level, what, line...)
}
