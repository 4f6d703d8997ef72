package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"parley/cmd/parley/internal/acp"
)

type acpCmd struct {
	URL     string `name:"url" placeholder:"URL" default:"http://127.0.0.1:8080" help:"Address of the server (default http://127.0.0.1:8080)."`
	KeyFile string `placeholder:"FILE" help:"File that holds the key or token; it is read again for each connection. Without it, that of the environment variable PARLEY_KEY."`
}

// Help is shown by "parley acp --help".
func (acpCmd) Help() string {
	return `An editor starts it and speaks the Agent Client Protocol over its standard streams; docs/CLIENTS.md shows how to set it up. ` +
		`It outlives restarts of the server. Exit codes: 0 the editor has ended it, 1 there is no connection to the server, 2 wrong usage.`
}

// acp carries messages between an editor and a running server.
func (m *Main) acp(ctx context.Context) error {
	line := m.line.ACP
	address, err := acp.Address(line.URL)
	if err != nil {
		return &UsageError{err.Error()}
	}
	o := acp.Ends{Address: address, In: m.Stdin, Out: m.Stdout, Err: m.Stderr}
	if key := environment(m.Environ)["PARLEY_KEY"]; key != "" {
		o.Token = func() (string, error) { return key, nil }
	}
	if line.KeyFile != "" {
		o.Token = func() (string, error) {
			b, err := os.ReadFile(line.KeyFile)
			return strings.TrimSpace(string(b)), err
		}
		if _, err := o.Token(); err != nil {
			return &UsageError{err.Error()}
		}
	}
	err = acp.Run(ctx, o)
	if errors.Is(err, acp.ErrStart) {
		return exitCode(exitFailed) // it has said why
	}
	return err
}
