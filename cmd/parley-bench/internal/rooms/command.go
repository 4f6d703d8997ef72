package rooms

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"parley/cmd/parley-bench/internal/load"
	"parley/cmd/parley-bench/internal/report"
)

// ByRoom is the command that says in which rooms of a server a turn's time and its
// allocations are; its fields are its flags.
type ByRoom struct {
	Server   string        `help:"The server's program (default: it is built)." placeholder:"PATH"`
	Variant  string        `help:"With these settings and environment." placeholder:"NAME:KEY=VALUE,…"`
	Clients  int           `help:"Clients at work, each in its own session." default:"200"`
	Duration time.Duration `help:"Of the profile." default:"8s"`
	Block    bool          `help:"Where goroutines wait for each other, too: the server runs with process.contention."`
	Dir      string        `help:"Keep the profiles there, for go tool pprof." placeholder:"DIR"`
}

// Validate refuses a profile of nothing.
func (p *ByRoom) Validate() error {
	return errors.Join(load.AtLeast("clients", p.Clients, 1), load.AtLeast("duration", p.Duration, time.Second))
}

// Run profiles and prints a table to standard output.
func (p *ByRoom) Run(ctx context.Context) error { return p.run(ctx, os.Stdout) }

// turnsEnded counts the tasks that are done.
const turnsEnded = `parley_task_status_total{status="COMPLETE"}`

// A kind is one of the values that are given to
type kind struct {
	profile, value string // of /debug/pprof, and in it
	column         string
	as             report.Unit
	scale          float64
}

func (p *ByRoom) kinds() []kind {
	all := []kind{
		{"profile", "cpu/nanoseconds", "CPU/turn", report.Times, 1e-9},
		{"allocs", "alloc_objects/count", "allocations/turn", report.Plain, 1},
		{"allocs", "alloc_space/bytes", "bytes/turn", report.Whole, 1},
	}
	if p.Block {
		all = append(all,
			kind{"mutex", "delay/nanoseconds", "others wait for a lock held here", report.Times, 1e-9},
			kind{"block", "delay/nanoseconds", "waits here", report.Times, 1e-9})
	}
	return all
}

func (p *ByRoom) run(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "parley-bench-profile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var set []string
	if p.Block {
		set = append(set, "process.contention=true")
	}
	s, cleanup, err := load.StartVariant(p.Server, p.Variant, filepath.Join(dir, "data"), set...)
	if err != nil {
		return err
	}
	defer cleanup()
	windows, err := p.take(ctx, s)
	if err != nil {
		s.Kill()
		return err
	}
	if err := s.Stop(); err != nil {
		return err
	}
	return p.print(out, windows)
}

// A window is a profile's time. Profiles but that of the processor count from the
// start of the process: their window is between two of them.
type window struct {
	before, after *Profile // before is nil for the processor's
	turns         int
}

// each is what a turn has of a kind, by room.
func (w window) each(k kind) (map[string]float64, error) {
	all := map[string]float64{}
	for sign, p := range map[float64]*Profile{1: w.after, -1: w.before} {
		if p == nil {
			continue
		}
		split, ok := p.Split(k.value)
		if !ok {
			return nil, fmt.Errorf("the profile %s has no %s", k.profile, k.value)
		}
		for room, v := range split {
			all[room] += sign * float64(v) * k.scale / float64(max(1, w.turns))
		}
	}
	return all, nil
}

// take has the server make its profiles while clients work.
func (p *ByRoom) take(ctx context.Context, s *load.Server) (windows map[string]window, err error) {
	warm, after := p.Duration/8, p.Duration/2
	worked := make(chan error, 1)
	go func() {
		worked <- s.Work(p.Clients, warm+p.Duration+after)
	}()
	defer func() {
		if failed := <-worked; err == nil {
			err = failed
		}
	}()
	select {
	case <-time.After(warm):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	windows = map[string]window{}
	// What was allocated is told after a collection or two.
	if _, err := s.Heap(ctx); err != nil {
		return nil, err
	}
	for _, k := range p.kinds()[1:] {
		before, err := p.get(ctx, s, k.profile, "")
		if err != nil {
			return nil, err
		}
		windows[k.profile] = window{before: before}
	}
	before, err := s.Metric(ctx, turnsEnded)
	if err != nil {
		return nil, err
	}
	processor, err := p.get(ctx, s, "profile", fmt.Sprintf("?seconds=%d", max(1, int(p.Duration.Seconds()))))
	if err != nil {
		return nil, err
	}
	now, err := s.Metric(ctx, turnsEnded)
	if err != nil {
		return nil, err
	}
	windows["profile"] = window{after: processor, turns: int(now - before)}
	if _, err := s.Heap(ctx); err != nil {
		return nil, err
	}
	if now, err = s.Metric(ctx, turnsEnded); err != nil {
		return nil, err
	}
	for name, w := range windows {
		if name == "profile" {
			continue
		}
		if w.after, err = p.get(ctx, s, name, ""); err != nil {
			return nil, err
		}
		w.turns = int(now - before)
		windows[name] = w
	}
	return windows, nil
}

// get reads one profile, and keeps it if it should be kept.
func (p *ByRoom) get(ctx context.Context, s *load.Server, name, query string) (*Profile, error) {
	b, err := s.Get(ctx, "/debug/pprof/"+name+query)
	if err != nil {
		return nil, err
	}
	if p.Dir != "" {
		if err := os.MkdirAll(p.Dir, 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(p.Dir, name+".pb.gz"), b, 0o644); err != nil {
			return nil, err
		}
	}
	profile, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("the profile %s: %w", name, err)
	}
	return profile, nil
}

func (p *ByRoom) print(out io.Writer, windows map[string]window) error {
	kinds := p.kinds()
	byRoom, sums := map[string][]float64{}, make([]float64, len(kinds))
	for i, k := range kinds {
		split, err := windows[k.profile].each(k)
		if err != nil {
			return err
		}
		for room, v := range split {
			if byRoom[room] == nil {
				byRoom[room] = make([]float64, len(kinds))
			}
			byRoom[room][i] = v
			sums[i] += v
		}
	}
	n := windows["profile"].turns
	fmt.Fprintf(out, "\n### Rooms: where the server's time goes, %d clients, %d turns in %s\n\n| room | |", p.Clients, n, p.Duration)
	for _, k := range kinds {
		fmt.Fprintf(out, " %s | |", k.column)
	}
	fmt.Fprintf(out, "\n|---|---|%s\n", strings.Repeat("---:|---:|", len(kinds)))
	names := slices.SortedFunc(maps.Keys(byRoom), func(a, b string) int {
		if byRoom[a][0] != byRoom[b][0] {
			return int((byRoom[b][0] - byRoom[a][0]) * 1e9)
		}
		return strings.Compare(a, b)
	})
	line := func(name, words string, values []float64) {
		fmt.Fprintf(out, "| %s | %s |", name, words)
		for i, k := range kinds {
			share := 0.0
			if sums[i] > 0 {
				share = 100 * values[i] / sums[i]
			}
			fmt.Fprintf(out, " %s | %.1f %% |", k.as.Text(values[i]), share)
		}
		fmt.Fprintln(out)
	}
	for _, name := range names {
		if !visible(byRoom[name], sums) {
			continue
		}
		line(name, Words(name), byRoom[name])
	}
	line("all", "", sums)
	fmt.Fprint(out, "\nA sample belongs to the innermost room on its stack, calls of the system and the runtime's own work stand by themselves.\n")
	return nil
}

// visible is false of a room that has less than a twentieth of a percent of everything.
func visible(values, sums []float64) bool {
	for i := range values {
		if values[i] > sums[i]/2000 {
			return true
		}
	}
	return false
}
