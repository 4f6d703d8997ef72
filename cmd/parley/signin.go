package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"parley/cmd/parley/internal/assemble"
	"parley/cmd/parley/internal/config"
	"parley/gateway"
	"parley/gateway/auth"
	"parley/gateway/service"
)

// keysEvery is how often the file of keys is looked at: one question to the file system.
const keysEvery = 2 * time.Second

// signIn is what knows who clients are, and what reads it again.
type signIn struct {
	gateway.Authenticator
	main   *Main
	log    *slog.Logger
	audit  service.Audit
	keys   *auth.Keys   // nil = there are none
	reload func() error // nil = there is nothing to read again
}

func (m *Main) openSignIn(look config.Lookup, log *slog.Logger, audit service.Audit) (*signIn, error) {
	in, keys, reload, err := assemble.SignIn(&m.Config, look, log)
	if err != nil {
		return nil, config.NewError("auth", err)
	}
	return &signIn{Authenticator: in, main: m, log: log, audit: audit, keys: keys, reload: reload}, nil
}

// follow reads keys again when their file has changed, and everything on SIGHUP, until
// ctx ends.
func (s *signIn) follow(ctx context.Context) {
	if s.keys != nil {
		go s.keys.Follow(ctx, keysEvery)
	}
	if s.reload == nil {
		return // a terminal that is closed ends the process, as ever
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // which would end the process else
	go func() {                            // ends with ctx
		defer signal.Stop(hangups)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
				s.again(ctx)
			}
		}
	}()
}

// again reads the keys of the configuration file, the file of keys and public keys.
// Everything else of the configuration stays as it was at the start.
func (s *signIn) again(ctx context.Context) {
	if s.audit == nil {
		s.audit = &service.MemoryAudit{}
	}
	if err := s.audit.Record(ctx, service.Act{At: time.Now().UTC(), Act: service.ActKeysReload}); err != nil {
		s.log.Error("the audit log cannot be written, so the keys were not read again", "error", err)
		return
	}
	if s.keys != nil {
		c, err := s.main.readConfig()
		if err != nil {
			s.log.Error("the configuration cannot be read again; the keys stay as they were", "error", err)
			return
		}
		s.keys.SetInline(c.Auth.Keys)
	}
	if err := s.reload(); err != nil {
		s.log.Error("the keys cannot be read again; those from before stay", "error", err)
	}
}
