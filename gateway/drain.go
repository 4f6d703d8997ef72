package gateway

import (
	"context"
	"time"
)

// How long the end may take, whatever clients do: they have drainGrace for the last of what they
// are sent, and for what they have begun to say; then their connections are closed, and what
// works for them ends within drainRest.
const (
	drainGrace = 2500 * time.Millisecond
	drainRest  = time.Second
)

// Announce begins the end: not ready any more, no new sockets, and every client
// gets the request to come back later. Requests that wait for something (?wait=) are
// answered. Sockets stay and are served.
func (s *Server) Announce() {
	s.stopWaiting()
	s.services.Connections.Announce(s.services.Times.DrainSpread)
}

// Drain closes every socket with 1012 and stops serving. It returns when all is
// closed, after drainGrace and drainRest at the latest, or when ctx ends before that. Clients that
// have to be cut off are no error: the log says how many. Idempotent.
func (s *Server) Drain(ctx context.Context) error {
	s.drain.Do(func() {
		s.Announce()
		s.drainClients(ctx)
		s.endAll()
		close(s.drained)
	})
	<-s.drained
	return nil
}

// drainClients ends sockets and HTTP at the same time: they do not wait for each other.
func (s *Server) drainClients(ctx context.Context) {
	s.mu.Lock()
	main, admin, extra := s.main, s.admin, s.extra
	s.mu.Unlock()
	connections := s.services.Connections
	connections.RefuseNew()
	grace, cancel := context.WithTimeout(ctx, drainGrace)
	defer cancel()
	end, cancelEnd := context.WithTimeout(context.WithoutCancel(ctx), drainGrace+drainRest)
	defer cancelEnd()

	// Closing the system's connections waits for nobody, and ends every read and write on them.
	cut := context.AfterFunc(grace, func() {
		s.endAll()
		if main != nil {
			if n := main.CloseAll(); n > 0 {
				s.services.Log.Warn("clients were cut off", "connections", n, "after", drainGrace.String())
			}
		}
	})
	defer cut()

	served := make(chan error, 1)
	go func() { served <- s.app.ShutdownWithContext(end) }()
	if main != nil {
		_ = main.Close()
		main.CloseUnused()
	}
	err := connections.CloseAll(grace, drainRest)
	if failed := <-served; err == nil {
		err = failed
	}
	if err != nil {
		s.services.Log.Warn("something still works for clients that are gone", "error", err)
	}
	if extra != nil {
		_ = extra.Close()
	} else if admin != nil {
		_ = admin.Close()
	}
}

// Close drains without waiting for slow clients. Idempotent.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s.Drain(ctx)
}
