package gateway

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"parley/gateway/service"
	"parley/metrics"
)

// pipes is a listener whose only connection is one end of a pipe.
type pipes struct{ end net.Conn }

func (p pipes) Accept() (net.Conn, error) { return p.end, nil }
func (p pipes) Close() error              { return p.end.Close() }
func (p pipes) Addr() net.Addr            { return p.end.LocalAddr() }

// What the listener makes come at a pace is an upload, and never a client of a socket, however
// long that may be silent.
func TestOnlyUploadsComeAtAPace(t *testing.T) {
	for name, c := range map[string]struct{ silence, given, want time.Duration }{
		"a quiet client":                {35 * time.Second, 35 * time.Second, 35 * time.Second},
		"one that may be quiet longer":  {time.Hour, time.Hour, time.Hour},
		"an upload":                     {35 * time.Second, 2 * time.Minute, 15 * time.Second},
		"an upload beside long silence": {time.Hour, time.Hour + time.Minute, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Server{cfg: DefaultConfig(), services: &service.Services{
					Metrics: metrics.NewGateway(metrics.NewRegistry()), Log: slog.New(slog.DiscardHandler),
				}}
				s.cfg.Times.ReadDeadline, s.cfg.Limits.ConnectionsPerAddress = c.silence, 0
				client, server := net.Pipe()
				conn, err := s.guarded(pipes{server}, nil).Accept()
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if err := conn.SetReadDeadline(began.Add(c.given)); err != nil {
					t.Fatal(err)
				}
				_, err = conn.Read(make([]byte, 1))
				if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took != c.want {
					t.Errorf("ended after %s, want %s: %v", took, c.want, err)
				}
				_, _ = client.Close(), conn.Close()
			})
		})
	}
}
