package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"parley/cmd/parley/internal/supervise"
	"parley/gateway"
)

type healthCmd struct {
	URL     string        `name:"url" placeholder:"URL" help:"Ask the server at this address, without reading a configuration. A certificate is checked unless the address is of this machine."`
	Live    bool          `help:"Ask whether it answers at all (/livez) instead of whether it wants work (/readyz)."`
	Timeout time.Duration `default:"3s" help:"How long it may take to answer."`
}

// health asks a running server how it is, says it in a line, and fails unless it is well.
// A server that is degraded still wants work.
func (m *Main) health(ctx context.Context) error {
	cmd := m.line.Health
	server, err := supervise.Configured(m.Config.Gateway)
	if cmd.URL != "" {
		server, err = supervise.Named(cmd.URL)
	}
	if err != nil {
		return &UsageError{err.Error()}
	}
	question := supervise.Ready
	if cmd.Live {
		question = supervise.Live
	}
	ctx, cancel := context.WithTimeout(ctx, cmd.Timeout)
	defer cancel()
	state, err := supervise.Ask(ctx, server, question)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(m.Stdout, state)
	return err
}

// alive asks this server, which listens at these addresses (admin may be nil), what
// /livez asks.
func alive(c gateway.Config, main, admin net.Addr) func(context.Context) error {
	c.Listen, c.AdminListen = main.String(), ""
	if admin != nil {
		c.AdminListen = admin.String()
	}
	return func(ctx context.Context) error {
		server, err := supervise.Configured(c)
		if err == nil {
			_, err = supervise.Ask(ctx, server, supervise.Live)
		}
		return err
	}
}
