package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"parley/cmd/parley-bench/internal/history"
	"parley/cmd/parley-bench/internal/report"
)

// Measure is the command that measures; its fields are its flags.
type Measure struct {
	Server   []string      `help:"The server's program (default: it is built). Several are measured in turn, in one run." placeholder:"NAME=PATH" sep:"none"`
	Variant  []string      `help:"Each server once more, with settings (process.procs=4) and an environment (GOGC=200)." placeholder:"NAME:KEY=VALUE,…" sep:"none"`
	Rounds   int           `help:"How often each is measured; the order changes with each round." default:"3"`
	Duration time.Duration `help:"Of each timed measurement." default:"3s"`
	Only     []string      `help:"Measure some only: counts, turns, fan, resume, create, queued, activation, thread, recovery, memory, erasing." placeholder:"NAME,…"`
	Record   string        `help:"Add the ratios and counts to a file; of several servers, those of the last one." placeholder:"FILE"`
	Commit   string        `help:"What the server was built from, for the record (default: what its program says)."`
	Quick    bool          `help:"A smoke test: everything in small, within seconds. Its numbers mean nothing."`
}

// Validate refuses what would be noticed after minutes only, or never.
func (m *Measure) Validate() error {
	if m.Record != "" {
		if _, err := os.Stat(filepath.Dir(m.Record)); err != nil {
			return fmt.Errorf("--record: %w", err)
		}
	}
	return errors.Join(AtLeast("rounds", m.Rounds, 1), AtLeast("duration", m.Duration, time.Millisecond))
}

// A table is what is measured of one kind of work.
type table struct {
	name, title string
	first, note string // the head of the first column; what stands below the table
	rows        []row
}

// A row is measured for each variant in each round, and its floors beside it.
type row struct {
	name   string
	about  time.Duration // that one measurement takes, for the time that is left
	once   bool          // one round is enough: it counts, or takes long
	run    func(ctx context.Context, v variant, dir string) ([]report.Figure, error)
	floors []floor
}

// A floor is the same shape of work without a server.
type floor struct {
	name  string
	about time.Duration
	run   func() ([]report.Figure, error)
}

// bench is one run.
type bench struct {
	sizes
	variants []variant
	rounds   int
	dir      string
	out      io.Writer // the tables
	notes    io.Writer // how far it is

	began      time.Time
	done, left time.Duration // of the estimates
	cells      int
}

// Run measures everything, each cell with a fresh server and data directory, and
// prints the tables to standard output.
func (m *Measure) Run(ctx context.Context) error { return m.run(ctx, os.Stdout, os.Stderr) }

func (m *Measure) run(ctx context.Context, out, notes io.Writer) error {
	variants, cleanup, err := variantsOf(m.Server, m.Variant)
	if err != nil {
		return err
	}
	defer cleanup()
	dir, err := os.MkdirTemp("", "parley-bench-data-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := bench{variants: variants, rounds: max(1, m.Rounds), dir: dir, sizes: fullSizes(m.Duration), out: out, notes: notes, began: time.Now()}
	if m.Quick {
		b.sizes, b.rounds = smokeSizes(), 1
		fmt.Fprint(out, "A smoke test: these numbers mean nothing.\n")
	}
	all := b.tables()
	if m.Record != "" && len(m.Only) > 0 && !slices.Contains(m.Only, "counts") {
		return errors.New("--record needs the counts: add them to --only")
	}
	for _, name := range m.Only {
		if name != "all" && !slices.ContainsFunc(all, func(t table) bool { return t.name == name }) {
			return fmt.Errorf("--only %s: there is no such measurement", name)
		}
	}
	if len(m.Only) > 0 && !slices.Contains(m.Only, "all") {
		all = slices.DeleteFunc(all, func(t table) bool { return !slices.Contains(m.Only, t.name) })
	}
	for _, t := range all {
		for _, r := range t.rows {
			b.left += b.estimate(r)
		}
	}
	taken := entry{counts: map[string]float64{}, ratios: map[string]float64{}}
	for _, t := range all {
		rows, err := b.measure(ctx, t)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		t.print(out, rows)
		taken.add(t.name, rows, variants[len(variants)-1].name)
	}
	fmt.Fprintf(notes, "parley-bench: %d measurements in %s\n", b.cells, time.Since(b.began).Round(time.Second))
	if m.Record != "" {
		return taken.record(m.Record, cmp.Or(m.Commit, history.CommitOf(variants[len(variants)-1].path)))
	}
	return nil
}

func (b *bench) roundsOf(r row) int {
	if r.once {
		return 1
	}
	return b.rounds
}

// estimate is about how long a row takes.
func (b *bench) estimate(r row) time.Duration {
	round := time.Duration(len(b.variants)) * r.about
	for _, f := range r.floors {
		round += f.about
	}
	return time.Duration(b.roundsOf(r)) * round
}

func (b *bench) measure(ctx context.Context, t table) (all []*report.Samples, err error) {
	for _, r := range t.rows {
		s := &report.Samples{Name: r.name, Floors: len(r.floors)}
		for _, v := range b.variants {
			s.Who = append(s.Who, v.name)
		}
		for _, f := range r.floors {
			s.Who = append(s.Who, f.name)
		}
		for round := range b.roundsOf(r) {
			if err := b.round(ctx, t, r, round, s); err != nil {
				return nil, fmt.Errorf("%s: %w", r.name, err)
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// round measures each variant once, beginning with another one in each round, and
// each floor.
func (b *bench) round(ctx context.Context, t table, r row, round int, s *report.Samples) error {
	for i := range b.variants {
		v := b.variants[(i+round)%len(b.variants)]
		if err := ctx.Err(); err != nil {
			return err
		}
		b.tell("%s, %s, round %d of %d: %s", t.name, r.name, round+1, b.roundsOf(r), v.name)
		dir := filepath.Join(b.dir, fmt.Sprintf("data-%d", b.cells))
		figures, err := r.run(ctx, v, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		s.Add(v.name, figures)
		b.passed(r.about)
	}
	for _, f := range r.floors {
		figures, err := f.run()
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		s.Add(f.name, figures)
		b.passed(f.about)
	}
	return nil
}

// tell says how far it is, and by what it took so far how long it will take.
func (b *bench) tell(format string, args ...any) {
	left := b.left
	if b.done > 0 {
		left = time.Duration(float64(b.left) * float64(time.Since(b.began)) / float64(b.done))
	}
	fmt.Fprintf(b.notes, "parley-bench: "+format+" (about %s left)\n", append(args, left.Round(time.Second))...)
}

func (b *bench) passed(about time.Duration) {
	b.cells++
	b.done, b.left = b.done+about, b.left-about
}

func (t table) print(out io.Writer, rows []*report.Samples) {
	fmt.Fprintf(out, "\n### %s\n\n", t.title)
	report.PrintRows(out, t.first, rows, false)
	if slices.ContainsFunc(rows, func(s *report.Samples) bool {
		return slices.ContainsFunc(s.Columns, func(c report.Figure) bool { return c.Counted })
	}) {
		if slices.ContainsFunc(rows, func(s *report.Samples) bool {
			return slices.ContainsFunc(s.Columns, func(c report.Figure) bool { return !c.Counted })
		}) {
			fmt.Fprint(out, "\nCounted:\n\n")
		}
		report.PrintRows(out, t.first, rows, true)
	}
	if t.note != "" {
		fmt.Fprintf(out, "\n%s\n", strings.TrimSpace(t.note))
	}
}
