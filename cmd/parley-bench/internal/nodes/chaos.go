package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"parley/cmd/parley-bench/internal/checker"
	"parley/cmd/parley-bench/internal/load"
)

// Chaos is the command that works on a cluster while nodes and databases come and go; its
// fields are its flags.
type Chaos struct {
	Server  string        `help:"The server's program (default: it is built)." placeholder:"PATH"`
	Nodes   int           `help:"Nodes that run sessions; one more is a gateway only." default:"3"`
	Clients int           `help:"Clients, each with its own session." default:"16"`
	Faults  int           `help:"How many faults happen; 0 = each kind once, in a fixed order." default:"60"`
	Lease   time.Duration `help:"cluster.lease." default:"2s"`
	Seed    uint64        `help:"Of the random choices (default: from the clock)."`
	Finish  time.Duration `help:"How long the work that was left may take after the last fault." default:"90s"`
}

// Run lets faults happen to a cluster under load, one after the other, and then compares
// everything: each acknowledged operation is there once and took effect, in its order;
// every message is resolved, no part is there twice, no task ended in ERROR; a tool with
// a side effect ran at most once for each call; every client was shown what the log has,
// byte for byte, without a gap, and nothing of an attempt that was replaced; under each
// epoch of a session one process wrote; no node ended by itself, unless it woke from a
// freeze longer than its lease; and sockets ended with their nodes only.
func (c *Chaos) Run(ctx context.Context) error { return c.run(ctx, os.Stdout) }

func (c *Chaos) run(ctx context.Context, out io.Writer) error {
	path, cleanup, err := load.BuildServer(c.Server)
	if err != nil {
		return err
	}
	defer cleanup()
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano())
	}
	rerun := fmt.Sprintf("parley-bench chaos --seed %d --nodes %d --clients %d --faults %d --lease %s", c.Seed, c.Nodes, c.Clients, c.Faults, c.Lease)
	fmt.Fprintln(out, "rerun:", rerun)
	base, err := os.MkdirTemp("", "parley-chaos-")
	if err != nil {
		return err
	}
	if err := c.under(ctx, path, base, out); err != nil {
		return fmt.Errorf("%w\nrerun: %s\nthe nodes' logs are kept: %s", err, rerun, base)
	}
	return os.RemoveAll(base)
}

// under runs everything, with what it writes below base.
func (c *Chaos) under(ctx context.Context, path, base string, out io.Writer) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	file := filepath.Join(base, "lines")
	all := &cluster{
		lease: c.Lease, base: base, program: path, config: checker.JournalConfig(self, file),
		more: checker.Settings(),
	}
	ctx, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		err = errors.Join(err, all.close())
		all.watch.group.Wait()
	}()
	if err := all.open(ctx, c.Nodes, true, true); err != nil {
		return err
	}
	plan := everyFault()
	if c.Faults > 0 {
		plan = randomFaults(rand.New(rand.NewPCG(c.Seed, 1)), c.Faults, c.Nodes)
	}
	swarm := checker.NewSwarm(c.Clients, c.Seed, all)
	defer func() {
		if err != nil {
			rows, _ := all.database.ask(context.WithoutCancel(ctx), "select session, epoch, last_seq, owner_node, prior_node, wake, now() from sessions order by session")
			more, _ := all.database.ask(context.WithoutCancel(ctx), "select * from members")
			err = errors.Join(err, swarm.Keep(base), os.WriteFile(filepath.Join(base, "owners"), []byte(rows+"\n"+more), 0o600))
		}
	}()
	working, enough := context.WithCancel(ctx)
	defer enough()
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		swarm.Work(working)
	}()
	began := time.Now()
	var f figures
	err = c.play(ctx, all, plan, swarm, &f, out)
	enough()
	<-worked
	if err == nil {
		err = firstOf(swarm.Failed(), all.failed)
	}
	if err != nil {
		return err
	}
	took := time.Since(began)
	if err := swarm.Finish(ctx, c.Finish); err != nil {
		return err
	}
	if err := firstOf(swarm.Failed(), all.failed); err != nil {
		return err
	}
	return c.judge(ctx, all, swarm, plan, f, file, took, out)
}

// play lets the faults of a plan happen, until one goes wrong or a client was answered
// what it must not be.
func (c *Chaos) play(ctx context.Context, all *cluster, plan []step, swarm *checker.Swarm, f *figures, out io.Writer) error {
	pause(ctx, 2*time.Second) // sessions and tasks are there
	for i := 0; i < len(plan); i++ {
		steps := plan[i : i+1]
		if plan[i].with {
			steps = plan[i : i+2]
			i++
		}
		began := time.Now()
		errs := make(chan error, len(steps))
		each := make([]figures, len(steps))
		for k, s := range steps {
			go func() { errs <- all.do(ctx, s, &each[k]) }()
		}
		var err error
		for range steps {
			err = errors.Join(err, <-errs)
		}
		for k, s := range steps {
			f.thawedEnd, f.drained = append(f.thawedEnd, each[k].thawedEnd...), append(f.drained, each[k].drained...)
			fmt.Fprintf(out, "%3d  %s (ready again after %s)\n", i+1-len(steps)+k+1, s, time.Since(began).Round(10*time.Millisecond))
		}
		pause(ctx, all.leases(steps[len(steps)-1].rest))
		if err = errors.Join(err, firstOf(swarm.Failed(), all.failed), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// firstOf is an error that one of the channels has, if one has.
func firstOf(some ...<-chan error) error {
	for _, c := range some {
		select {
		case err := <-c:
			return err
		default:
		}
	}
	return nil
}

// judge compares everything when all work has ended.
func (c *Chaos) judge(ctx context.Context, all *cluster, swarm *checker.Swarm, plan []step, f figures, file string, took time.Duration, out io.Writer) error {
	o, err := swarm.Check(ctx, all.Any(rand.New(rand.NewPCG(c.Seed, 2))), file)
	if err != nil {
		return err
	}
	rows, err := all.database.audit(ctx)
	if err != nil {
		return err
	}
	sum, err := judgeAudit(rows)
	if err != nil {
		return err
	}
	if sum.writes == 0 || sum.moved == 0 {
		return fmt.Errorf("no session has moved in %d writes: nothing was tested", sum.writes)
	}
	fmt.Fprintf(out, "%d faults, %d clients, %d messages acknowledged, %d lines written, in %s: nothing lost, doubled, reordered or stale; no task in ERROR\n",
		len(plan), c.Clients, o.Acknowledged, o.Lines, took.Round(time.Second))
	fmt.Fprintf(out, "%d writes to %d sessions under %d epochs, %d of them of another process than the one before: one writer each\n", sum.writes, sum.sessions, sum.epochs, sum.moved)
	fmt.Fprintf(out, "sockets that ended with their nodes, and no other: %d; ends after a long freeze took %s; ends after SIGTERM %s\n",
		all.watch.held.Load(), listed(f.thawedEnd), listed(f.drained))
	for _, what := range slices.Sorted(maps.Keys(o.Counts)) {
		fmt.Fprintf(out, "%8d %s\n", o.Counts[what], what)
	}
	for _, what := range slices.Concat(checker.Expected(), []string{"looks elsewhere", "shown delta", "attempt moved", "refused unavailable"}) {
		if o.Counts[what] == 0 {
			fmt.Fprintln(out, "NOT TESTED this time:", what)
		}
	}
	return nil
}

func listed(times []time.Duration) []time.Duration {
	for i := range times {
		times[i] = times[i].Round(time.Millisecond)
	}
	return times
}
