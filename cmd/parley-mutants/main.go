package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"
)

// options are the flags.
type options struct {
	module   string
	lists    string
	run      string
	parallel int
	limit    time.Duration
	short    bool
	check    bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.StringVar(&o.module, "module", ".", "top folder of the module whose code is mutated")
	flag.StringVar(&o.lists, "lists", "cmd/parley-mutants/list", "folder of the lists")
	flag.StringVar(&o.run, "run", "", "ids or lists, with commas between them (default: every mutant)")
	flag.IntVar(&o.parallel, "parallel", max(1, runtime.NumCPU()/2), "how many mutants are tested at the same time")
	flag.DurationVar(&o.limit, "limit", 2*time.Minute, "how long the tests of one package may take")
	flag.BoolVar(&o.short, "short", false, "run the tests with -short")
	flag.BoolVar(&o.check, "check", false, "only check that every entry fits the code")
	flag.Parse()
	if err := run(ctx, os.Stdout, os.DirFS(o.lists), o); err != nil {
		fmt.Fprintln(os.Stderr, "parley-mutants:", err)
		os.Exit(1)
	}
}

// run tests the mutants of the lists that the options pick and prints what came out.
func run(ctx context.Context, out io.Writer, lists fs.FS, o options) error {
	all, err := readLists(lists)
	if err != nil {
		return err
	}
	some, err := pick(all, o.run)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "parley-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp) //nolint:errcheck // it lies in the folder for temporary files
	module, err := filepath.Abs(o.module)
	if err != nil {
		return err
	}
	r := runner{module: module, temp: temp, short: o.short, limit: o.limit}
	result := report{out: out}

	fitting := some[:0:0]
	for _, m := range some {
		if _, err := r.overlay(m); err != nil {
			result.broken = append(result.broken, err)
			continue
		}
		fitting = append(fitting, m)
	}
	result.total = len(fitting)
	if o.check {
		fmt.Fprintf(out, "%d of %d entries fit the code\n", len(fitting), len(some))
	} else {
		if err := r.baseline(ctx, out, fitting); err != nil {
			return err
		}
		r.tryAll(ctx, fitting, max(1, o.parallel), &result)
	}
	result.print()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("stopped after %d of %d mutants", len(result.outcomes), len(some))
	case !result.ok():
		return fmt.Errorf("see above: survivors, or entries of the lists that are wrong")
	}
	return nil
}

// baseline runs the tests of all packages on the code as it is: a test that fails
// without a mistake says nothing about one.
func (r runner) baseline(ctx context.Context, out io.Writer, mutants []mutant) error {
	var packages []string
	for _, m := range mutants {
		for _, p := range m.packages {
			if !slices.Contains(packages, p) {
				packages = append(packages, p)
			}
		}
	}
	slices.Sort(packages)
	for _, p := range packages {
		began := time.Now()
		v, by, err := r.test(ctx, p, "", "")
		if err != nil {
			return err
		}
		if v != survived {
			return fmt.Errorf("the tests of %s fail without any mutant: %s", p, by)
		}
		fmt.Fprintf(out, "without a mutant: ok %s (%s)\n", p, time.Since(began).Round(100*time.Millisecond))
	}
	return nil
}

// tryAll tests mutants, n at the same time.
func (r runner) tryAll(ctx context.Context, mutants []mutant, n int, result *report) {
	var (
		mu    sync.Mutex
		group sync.WaitGroup
		slots = make(chan struct{}, n)
	)
	for _, m := range mutants {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		group.Go(func() {
			defer func() { <-slots }()
			o, err := r.try(ctx, m)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				result.progress(o)
			case ctx.Err() == nil:
				result.broken = append(result.broken, err)
			}
		})
	}
	group.Wait()
}
