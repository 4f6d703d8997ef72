package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Announce begins the end: not ready any more, no new sockets, and every client
// gets the request to come back later. Sockets stay and are served.
func (s *Server) Announce() {
	s.services.Connections.Announce(s.services.Times.DrainSpread)
}

// Drain closes every socket with 1012 and stops serving. It returns when all is
// closed; when ctx ends before that, by force and with the context's error.
// Idempotent.
func (s *Server) Drain(ctx context.Context) error {
	s.drain.Do(func() {
		s.Announce()
		s.services.Connections.RefuseNew()
		err := s.services.Connections.CloseAll(ctx)
		left := 5 * time.Second
		if deadline, ok := ctx.Deadline(); ok {
			left = max(time.Until(deadline), 100*time.Millisecond)
		}
		if stop := s.app.ShutdownWithTimeout(left); stop != nil {
			err = errors.Join(err, fmt.Errorf("shut down: %w", stop))
		}
		s.mu.Lock()
		main, admin, extra := s.main, s.admin, s.extra
		s.mu.Unlock()
		if main != nil {
			_ = main.Close()
		}
		if extra != nil {
			_ = extra.Close()
		} else if admin != nil {
			_ = admin.Close()
		}
		s.endAll()
		s.result = err
		close(s.drained)
	})
	<-s.drained
	return s.result
}

// Close drains without waiting for slow clients. Idempotent.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s.Drain(ctx)
}
