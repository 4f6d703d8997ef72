package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"parley/cmd/parley/internal/build"
	"parley/cmd/parley/internal/config"
	"parley/conversation"
)

// The exit codes.
const (
	exitOK     = 0 // also after a drain by SIGTERM or SIGINT
	exitFailed = 1
	exitUsage  = 2 // wrong command line or configuration
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() { // ends with the process
		<-signals
		cancel()
		<-signals
		fmt.Fprintln(os.Stderr, "parley: second signal: stopping at once; what was acknowledged is on disk")
		os.Exit(exitFailed)
	}()
	os.Exit(NewMain().Execute(ctx, os.Args[1:]))
}

// Main is the program. Tests run it in their own process.
type Main struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        []string // as os.Environ

	Config config.Config // filled by ParseFlags

	args       []string // the program's and its arguments
	line       commandLine
	command    string // of the command line: "serve", "config check", …
	configPath string // the file that was read; "" = none

	wrap func(conversation.Model) conversation.Model // put around each model; nil = nothing. For tests

	listening chan struct{} // closed when addr is known
	addr      string
	closeOnce sync.Once
	closers   []func() error // in the order of opening; Close goes backwards
	closeErr  error
}

// NewMain is the program with the process's own streams and environment.
func NewMain() *Main {
	return &Main{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(),
		listening: make(chan struct{}),
	}
}

// Execute does what the command line says and returns the exit code. It says
// everything that goes wrong on Stderr, in one sentence a problem.
func (m *Main) Execute(ctx context.Context, args []string) int {
	m.args = append([]string{"parley"}, args...)
	err := m.ParseFlags(args)
	if err == nil {
		err = m.Run(ctx)
	}
	var code exitCode
	var usage *UsageError
	var wrong *config.Error
	switch {
	case err == nil, errors.Is(err, errHelp):
		return exitOK
	case errors.As(err, &code): // the command has said why
		return int(code)
	case errors.As(err, &usage), errors.As(err, &wrong):
		fmt.Fprintf(m.Stderr, "parley: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(m.Stderr, "parley: %v\n", m.explain(err))
		return exitFailed
	}
}

// Run does what ParseFlags has read. For "serve" it returns when ctx has ended
// and everything has drained, or when the server cannot go on.
func (m *Main) Run(ctx context.Context) error {
	switch m.command {
	case "version":
		return build.This().Print(m.Stdout, m.line.Ver.JSON)
	case "chat":
		return m.chat(ctx)
	case "acp":
		return m.acp(ctx)
	case "config check":
		source := "the defaults"
		if m.configPath != "" {
			source = m.configPath
		}
		fmt.Fprintf(m.Stdout, "%s: no problem found\n", source)
		return nil
	case "config print":
		return config.Print(m.Stdout, m.Config)
	case "migrate":
		return m.migrate(ctx)
	case "health":
		return m.health(ctx)
	case "doctor":
		return m.doctor(ctx)
	case "backup":
		return m.backup(ctx)
	case "restore":
		return m.restore(ctx)
	case "verify":
		return m.verify(ctx)
	case "key create", "key list", "key revoke":
		return m.key(ctx)
	case "export":
		return m.export(ctx)
	case "move out":
		return m.moveOut(ctx)
	case "move in", "import":
		return m.moveIn(ctx)
	default:
		return errors.Join(m.serve(ctx), m.Close())
	}
}

// Listening is closed when Addr is known.
func (m *Main) Listening() <-chan struct{} { return m.listening }

// Addr is the address of the main listener, once Listening is closed.
func (m *Main) Addr() string { return m.addr }

// Close releases what Run has opened, last opened first. Idempotent.
func (m *Main) Close() error {
	m.closeOnce.Do(func() {
		var errs []error
		for i := len(m.closers) - 1; i >= 0; i-- {
			errs = append(errs, m.closers[i]())
		}
		m.closeErr = errors.Join(errs...)
	})
	return m.closeErr
}
