package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"parley/cmd/parley-bench/internal/report"
)

// Start is the command that measures how long a server takes to start on a data
// directory; its fields are its flags. It writes into the directory.
type Start struct {
	Server string        `help:"The server's program (default: it is built)." placeholder:"PATH"`
	Data   string        `help:"The data directory; the benchmark BenchmarkFill of persistence/pebble makes big ones." required:"" placeholder:"DIR"`
	Times  int           `help:"Starts of each kind." default:"3"`
	Load   time.Duration `help:"How long 50 clients work before each kill." default:"3s"`
}

// Validate refuses a place without data, where a server would begin anew.
func (b *Start) Validate() error {
	if _, err := os.Stat(b.Data); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	return errors.Join(AtLeast("times", b.Times, 1), AtLeast("load", b.Load, 0))
}

// Run measures and prints a table to standard output.
func (b *Start) Run(ctx context.Context) error { return b.run(ctx, os.Stdout) }

func (b *Start) run(ctx context.Context, out io.Writer) error {
	path, cleanup, err := BuildServer(b.Server)
	if err != nil {
		return err
	}
	defer cleanup()
	fmt.Fprintf(out, "\n### Start on %s: from the start of the process until it says that it is ready\n\n", b.Data)
	fmt.Fprintf(out, "| after | ready in | resident memory then |\n|---|---:|---:|\n")
	for i := range 1 + 2*b.Times {
		began := time.Now()
		s, err := StartServer(path, b.Data)
		if err != nil {
			return err
		}
		if err := b.one(ctx, s, i, time.Since(began), began, out); err != nil {
			s.Kill()
			return err
		}
	}
	return nil
}

// one prints the row of a start, and ends the server: the first half of the times in
// order, then by a kill after work.
func (b *Start) one(ctx context.Context, s *Server, i int, listens time.Duration, began time.Time, out io.Writer) error {
	if _, err := s.Get(ctx, "/readyz"); err != nil {
		return err
	}
	ready := time.Since(began)
	memory, err := s.Metric(ctx, "process_resident_memory_bytes")
	if err != nil {
		return err
	}
	after := "a stop"
	switch {
	case i == 0:
		after = "the filling"
	case i > b.Times:
		after = "a kill under work"
	}
	fmt.Fprintf(out, "| %s | %s (listens after %s) | %.0f MB |\n", after, report.Short(ready), report.Short(listens), memory/1e6)
	if i < b.Times {
		return s.Stop()
	}
	if _, _, err := turns(loop{workers: 50, d: b.Load}, s.Addr); err != nil {
		return err
	}
	s.Kill()
	return nil
}
