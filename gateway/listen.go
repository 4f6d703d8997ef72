package gateway

import (
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"parley/gateway/listener"
	"parley/gateway/service"
)

// Listen opens the server's addresses. Run does it if it was not called.
func (s *Server) Listen() (net.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.main != nil {
		return s.main.Addr(), nil
	}
	encrypted, err := s.encryption()
	if err != nil {
		return nil, err
	}
	main, err := net.Listen("tcp", s.cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", s.cfg.Listen, err)
	}
	if s.cfg.AdminListen != "" {
		if s.admin, err = net.Listen("tcp", s.cfg.AdminListen); err != nil {
			_ = main.Close()
			return nil, fmt.Errorf("admin.listen on %s: %w", s.cfg.AdminListen, err)
		}
	}
	s.main = s.guarded(main, encrypted)
	return s.main.Addr(), nil
}

// encryption reads the certificate; nil = there is none.
func (s *Server) encryption() (*tls.Config, error) {
	if !s.cfg.TLS.On() {
		return nil, nil
	}
	certificate, err := listener.LoadCertificate(s.cfg.TLS.CertFile, s.cfg.TLS.KeyFile, func(err error) {
		s.services.Log.Error("the changed certificate cannot be used; the one of before stays in force", "error", err)
	})
	if err != nil {
		return nil, fmt.Errorf("tls.cert_file: %w", err)
	}
	return certificate.Config(), nil
}

// guarded lets in only as many connections as the limits say.
func (s *Server) guarded(inner net.Listener, encrypted *tls.Config) *listener.Bounded {
	m, log := s.services.Metrics, s.services.Log
	var refused, failed seldom
	return listener.New(inner, listener.Settings{
		TLS:         encrypted,
		Connections: s.cfg.Limits.Connections,
		PerAddress:  s.cfg.Limits.ConnectionsPerAddress,
		Group: func(address string) string {
			if s.services.Proxies.TrustsRemote(address) {
				return "" // all clients come from there
			}
			return service.AddressGroup(address)
		},
		Open: func(change int) { m.TCPConnections.Add(float64(change)) },
		Refused: func(limit, from string) {
			m.Refused.WithLabelValues(limit).Inc()
			if refused.now() {
				log.Warn("a connection was refused; more are counted, and said once a minute", "limit", limit, "from", from)
			}
		},
		Failed: func(err error) {
			m.AcceptErrors.Inc()
			if failed.now() {
				log.Error("no connection can be taken; trying again", "error", err)
			}
		},
	})
}

// seldom is true once a minute.
type seldom struct{ next time.Time }

func (s *seldom) now() bool {
	now := time.Now()
	if now.Before(s.next) {
		return false
	}
	s.next = now.Add(time.Minute)
	return true
}
