// Command parley-bench measures a parley server from outside, in a process of
// its own: turns, fan-out, resumes, memory and activation, each beside a floor
// that is measured in the same run. Its other mode kills the server under load
// and looks whether anything was lost. All traffic stays on the loopback.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/alecthomas/kong"
)

type commandLine struct {
	Run   runCmd   `cmd:"" default:"withargs" help:"Measure and print Markdown tables."`
	Crash crashCmd `cmd:"" help:"Kill the server with -9 under load, again and again, and check what it kept."`
	Echo  echoCmd  `cmd:"" hidden:"" help:"The bare WebSocket server of the floors."`

	Journal journalCmd `cmd:"" hidden:"" help:"The tool whose effect the crash mode counts, as an MCP server."`
}

type runCmd struct {
	Server   string        `help:"The server's program (default: it is built)." placeholder:"PATH"`
	Duration time.Duration `help:"Of each timed measurement." default:"5s"`
	Only     string        `help:"Measure one only." enum:"all,turns,fan,resume,memory,activation,recovery" default:"all"`
	Quick    bool          `help:"A tenth of everything: does it still work?"`
}

type echoCmd struct{}

func (echoCmd) Run() error { return serveEcho() }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var line commandLine
	parsed := kong.Parse(&line, kong.Name("parley-bench"),
		kong.Description("Measures a parley server, or kills it under load."),
		kong.BindTo(ctx, (*context.Context)(nil)))
	parsed.FatalIfErrorf(parsed.Run())
}

// Run measures everything, each workload with a fresh server and data directory.
func (r *runCmd) Run(ctx context.Context) error {
	path, cleanup, err := buildServer(r.Server)
	if err != nil {
		return err
	}
	defer cleanup()
	dir, err := os.MkdirTemp("", "parley-bench-data-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := bench{path: path, dir: dir, d: r.Duration, scale: 1, out: os.Stdout}
	if r.Quick {
		b.d, b.scale = r.Duration/10, 10
	}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"turns", b.turns}, {"fan", b.fan}, {"resume", b.resume}, {"memory", b.memory}, {"activation", b.activation},
		{"recovery", b.recovery},
	} {
		if r.Only != "all" && r.Only != part.name {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

func (b *bench) data(name string) string { return filepath.Join(b.dir, name) }
