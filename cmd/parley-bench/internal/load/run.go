package load

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Measure is the command that measures; its fields are its flags.
type Measure struct {
	Server   string        `help:"The server's program (default: it is built)." placeholder:"PATH"`
	Duration time.Duration `help:"Of each timed measurement." default:"5s"`
	Only     string        `help:"Measure one only." enum:"all,turns,fan,resume,memory,activation,thread,recovery" default:"all"`
	Quick    bool          `help:"A smoke test: everything in small, within seconds. Its numbers mean nothing."`
}

// sizes say how much a run does.
type sizes struct {
	timed         time.Duration // of each timed measurement
	turnClients   []int
	followers     int // of the fan-out
	resuming      int // clients that resume
	missed        int // events that each of them missed
	memorySamples []heapSample
	activations   int // sessions
	history       int // events of each of them
	thread        int // events of the long session
	openings      int // how often it is opened
	recovered     int // messages that are acknowledged before the kill
	evictionWait  time.Duration
}

// heapSample is one measurement of memory: so many sessions with so many ended
// tasks each.
type heapSample struct{ tasks, sessions int }

func fullSizes(timed time.Duration) sizes {
	return sizes{
		timed: timed, turnClients: []int{1, 50, 200}, followers: 1000, resuming: 1000, missed: 200,
		memorySamples: []heapSample{{0, 5000}, {10, 1000}, {100, 500}}, activations: 100, history: 1000, thread: 100_000, openings: 300, recovered: 10_000,
		evictionWait: 2 * time.Second,
	}
}

func smokeSizes() sizes {
	return sizes{
		timed: 100 * time.Millisecond, turnClients: []int{1, 5}, followers: 10, resuming: 10, missed: 20,
		memorySamples: []heapSample{{0, 50}, {2, 10}}, activations: 5, history: 20, thread: 300, openings: 5, recovered: 20,
		evictionWait: 200 * time.Millisecond,
	}
}

// Run measures everything, each workload with a fresh server and data directory,
// and prints the tables to standard output.
func (m *Measure) Run(ctx context.Context) error { return m.run(ctx, os.Stdout) }

func (m *Measure) run(ctx context.Context, out io.Writer) error {
	path, cleanup, err := BuildServer(m.Server)
	if err != nil {
		return err
	}
	defer cleanup()
	dir, err := os.MkdirTemp("", "parley-bench-data-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := tables{path: path, dir: dir, sizes: fullSizes(m.Duration), out: out}
	if m.Quick {
		t.sizes = smokeSizes()
		t.printf("A smoke test: these numbers mean nothing.\n")
	}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"turns", t.turns}, {"fan", t.fan}, {"resume", t.resume}, {"memory", t.memory}, {"activation", t.activation}, {"thread", t.thread},
		{"recovery", t.recovery},
	} {
		if m.Only != "all" && m.Only != part.name {
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

func (t *tables) data(name string) string { return filepath.Join(t.dir, name) }
