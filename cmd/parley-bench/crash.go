package main

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
	"strings"
	"sync"
	"time"
)

type crashCmd struct {
	Server  string        `help:"The server's program (default: it is built)." placeholder:"PATH"`
	Rounds  int           `help:"How often the server is killed." default:"20"`
	Clients int           `help:"Clients, each with its own session." default:"8"`
	Seed    uint64        `help:"Of the random choices (default: from the clock)."`
	Least   time.Duration `help:"The server is killed this long after its start, at the earliest." default:"30ms"`
	Most    time.Duration `help:"And at the latest." default:"600ms"`
	Finish  time.Duration `help:"How long the work that was left may take after the last start." default:"60s"`
}

// impatient are settings under which what is waited for comes soon. There are
// fewer slots than sessions, so that some always wait for one.
var impatient = []string{
	"retry.backoff_min=5ms", "retry.backoff_max=50ms", "inbox.collect_window=100ms", "delegation.tell_every=500ms",
	"task.max_steps=15", "admission.max_concurrent=3",
}

// Run kills the server under load, and then looks whether it kept its word
// (N-01, N-02, N-03): whatever was acknowledged is in the log once and took
// effect; each message was resolved once; no step, task, question, call or part
// is there twice or in two minds; the tool with a side effect ran at most once
// for each call; all work came to its end by itself; and what a client saw live,
// across all its connections, is what the log says, byte for byte.
func (c *crashCmd) Run(ctx context.Context) error {
	path, cleanup, err := buildServer(c.Server)
	if err != nil {
		return err
	}
	defer cleanup()
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano())
	}
	again := fmt.Sprintf("parley-bench crash --seed %d --rounds %d --clients %d --least %s --most %s", c.Seed, c.Rounds, c.Clients, c.Least, c.Most)
	fmt.Fprintln(os.Stdout, "again:", again)
	base, err := os.MkdirTemp("", "parley-crash-")
	if err != nil {
		return err
	}
	if err := c.kills(ctx, path, base, os.Stdout); err != nil {
		return fmt.Errorf("%w\nagain: %s\nthe data directory is kept: %s", err, again, filepath.Join(base, "data"))
	}
	return os.RemoveAll(base)
}

func (c *crashCmd) kills(ctx context.Context, path, base string, out io.Writer) error {
	dir, file := filepath.Join(base, "data"), filepath.Join(base, "journal")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// startServer runs the server in this directory, where it finds its configuration.
	if err := os.WriteFile(filepath.Join(base, "config.toml"), []byte(journalConfig(self, file)), 0o600); err != nil {
		return err
	}
	dice := rand.New(rand.NewPCG(c.Seed, 1))
	witnesses := make([]*witness, c.Clients)
	for i := range witnesses {
		witnesses[i] = newWitness(i, c.Seed)
	}
	began := time.Now()
	for round := range c.Rounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, err := startServer(path, dir, impatient...)
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		lifetime := c.Least + time.Duration(dice.Int64N(int64(c.Most-c.Least)+1))
		var group sync.WaitGroup
		for _, w := range witnesses {
			group.Go(func() { w.live(s.addr) })
		}
		time.Sleep(lifetime) //nolint:forbidigo // the moment of the crash is the test's input
		s.kill()
		group.Wait()
		for _, w := range witnesses {
			if w.wrong != nil {
				return fmt.Errorf("round %d: %s, session %s: %w", round, w.name, w.session, w.wrong)
			}
		}
	}
	if err := c.finish(path, dir, witnesses); err != nil {
		return err
	}
	// One more life: what has ended stays as it is.
	s, err := startServer(path, dir, impatient...)
	if err != nil {
		return err
	}
	defer s.kill()
	counts, heard, messages := map[string]int{}, newDeposition(), 0
	for _, w := range witnesses {
		l, err := w.verify(ctx, s, heard)
		if err != nil {
			return fmt.Errorf("%s, session %s: %w", w.name, w.session, err)
		}
		messages += len(w.acked)
		for _, some := range []map[string]int{l.counts, w.counts} {
			for what, n := range some {
				counts[what] += n
			}
		}
	}
	if messages == 0 {
		return errors.New("no message was acknowledged in any round: nothing was tested")
	}
	lines, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := heard.judge(string(lines)); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d kills, %d clients, %d messages acknowledged, %d lines written by %d calls, in %s: nothing lost, doubled or reordered\n",
		c.Rounds, c.Clients, messages, strings.Count(string(lines), "\n"), len(heard.started), time.Since(began).Round(time.Second))
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, "%8d %s\n", counts[what], what)
	}
	for _, what := range wanted {
		if counts[what] == 0 {
			fmt.Fprintln(out, "NOT TESTED this time:", what)
		}
	}
	return nil
}

// wanted is what a run that is long enough has met; what it has not is said.
var wanted = []string{
	"ok send", "ok answer", "ok reply", "ok edit", "ok withdraw", "ok move", "ok cancel", "ok again",
	"mode steer", "mode queue", "mode collect", "mode interrupt", "mode reject", "refused session_busy",
	"attempt interrupted", "approval", "call ok", "call unknown", "call denied", "call cancelled", "delegation",
	"task AWAITING_RESPONSE",
}

// finish is the life in which everything comes to its end.
func (c *crashCmd) finish(path, dir string, witnesses []*witness) error {
	s, err := startServer(path, dir, impatient...)
	if err != nil {
		return err
	}
	defer s.kill()
	deadline := time.Now().Add(c.Finish)
	for _, w := range witnesses {
		if err := w.finish(s.addr, deadline); err != nil {
			return fmt.Errorf("%s, session %s: %w\nthe server says: %s", w.name, w.session, err, s.log)
		}
	}
	return nil
}
