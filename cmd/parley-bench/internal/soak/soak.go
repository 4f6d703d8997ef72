package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"parley/cmd/parley-bench/internal/load"
	"parley/cmd/parley-bench/internal/report"
)

// Soak is the command; its fields are its flags.
type Soak struct {
	Server   string        `help:"The server's program (default: it is built)." placeholder:"PATH"`
	Variant  string        `help:"With these settings and environment." placeholder:"NAME:KEY=VALUE,…"`
	Rate     float64       `help:"Cycles a second: create, follow, a turn, and one older session is erased. 0 = as fast as it goes." default:"150"`
	Duration time.Duration `help:"How long." default:"5m"`
	Live     int           `help:"Sessions that live at a time." default:"500"`
	Row      int           `help:"Cycles between two rows." default:"1000"`
}

// Validate refuses a soak without an end, or without sessions.
func (k *Soak) Validate() error {
	return errors.Join(load.AtLeast("rate", k.Rate, 0), load.AtLeast("duration", k.Duration, time.Millisecond),
		load.AtLeast("live", k.Live, 1), load.AtLeast("row", k.Row, 1))
}

// Run soaks and prints a row for each thousand cycles to standard output.
func (k *Soak) Run(ctx context.Context) error { return k.run(ctx, os.Stdout) }

func (k *Soak) run(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "parley-bench-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, cleanup, err := load.StartVariant(k.Server, k.Variant, filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	defer cleanup()
	fmt.Fprintf(out, "\n### Soak: %.0f cycles a second of create, follow, turn and erase, %d sessions live\n\n", k.Rate, k.Live)
	fmt.Fprint(out, "| cycles | rate held | server CPU/cycle | goroutines | resident MB | live heap MB |\n|---:|---:|---:|---:|---:|---:|\n")
	at, cpu := time.Now(), s.CPU()
	err = load.Churn{
		Workers: 32, Live: k.Live, For: k.Duration, Rate: k.Rate,
		Done: func(cycles int) error {
			if cycles%k.Row != 0 {
				return nil
			}
			took, used := time.Since(at), s.CPU()-cpu
			memory, err := k.memory(ctx, s)
			if err != nil {
				return err
			}
			n := float64(k.Row)
			fmt.Fprintf(out, "| %d | %.0f/s | %s | %s |\n", cycles, n/took.Seconds(), report.Short(time.Duration(float64(used)/n)), memory)
			at, cpu = time.Now(), s.CPU() // without the collection that memory asks for
			return nil
		},
	}.Run(ctx, s)
	if err != nil {
		s.Kill()
		return err
	}
	return s.Stop()
}

// memory is what the server has after a collection.
func (k *Soak) memory(ctx context.Context, s *load.Server) (string, error) {
	heap, err := s.Heap(ctx)
	if err != nil {
		return "", err
	}
	goroutines, err := s.Metric(ctx, "go_goroutines")
	if err != nil {
		return "", err
	}
	resident, err := s.Metric(ctx, "process_resident_memory_bytes")
	return fmt.Sprintf("%.0f | %.0f | %.1f", goroutines, resident/1e6, heap/1e6), err
}
