package gateway

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
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
	switch {
	case s.cfg.TLS.ACME():
		return s.acme()
	case !s.cfg.TLS.On():
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

// acme gets certificates from an authority when clients come.
func (s *Server) acme() (*tls.Config, error) {
	t, log := s.cfg.TLS, s.services.Log
	if t.ACMECache != "" {
		if err := os.MkdirAll(t.ACMECache, 0o700); err != nil {
			return nil, fmt.Errorf("the directory of certificates: %w", err)
		}
	}
	a, err := listener.NewACME(listener.ACMESettings{
		Hosts: t.ACMEHosts, Email: t.ACMEEmail, Directory: t.ACMEDirectory, CAFile: t.ACMECAFile, Cache: t.ACMECache,
		Ended: s.services.Serving.Done(),
		Issued: func(host string, ends time.Time) {
			log.Info("the certificate is there", "host", host, "ends", ends.UTC().Format(time.RFC3339))
		},
		Failed: func(host string, err error, again time.Time) {
			log.Error("no certificate by ACME; the authority has to reach this server at port 443 of the host",
				"host", host, "error", err, "again", again.UTC().Format(time.RFC3339))
		},
	})
	if err != nil {
		return nil, fmt.Errorf("tls.acme_ca_file: %w", err)
	}
	return a.Config(), nil
}

// lingering is how many clients at once are read on whose request was refused: a bound for what
// it costs, far above how many there are in a moment.
const lingering = 64

// guarded lets in only as many connections as the limits say.
func (s *Server) guarded(inner net.Listener, encrypted *tls.Config) *listener.Bounded {
	m, log := s.services.Metrics, s.services.Log
	var refused, failed seldom
	return listener.New(inner, listener.Settings{
		TLS:         encrypted,
		Connections: s.cfg.Limits.Connections,
		PerAddress:  s.cfg.Limits.ConnectionsPerAddress,
		Slowest:     s.cfg.Limits.UploadSlowest,
		Lingering:   lingering,
		Patience:    othersTime(s.cfg.Times),
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
		Slow: func() { m.Refused.WithLabelValues("upload_slowest").Inc() },
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
