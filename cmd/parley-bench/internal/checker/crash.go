package checker

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

	"parley/cmd/parley-bench/internal/load"
)

// Crash is the command that kills the server under load; its fields are its flags.
type Crash struct {
	Server  string        `help:"The server's program (default: it is built)." placeholder:"PATH"`
	Rounds  int           `help:"How often the server is killed." default:"20"`
	Clients int           `help:"Clients, each with its own session." default:"8"`
	Seed    uint64        `help:"Of the random choices (default: from the clock)."`
	Least   time.Duration `help:"The server is killed this long after its start, at the earliest." default:"30ms"`
	Most    time.Duration `help:"And at the latest." default:"600ms"`
	Finish  time.Duration `help:"How long the work that was left may take after the last start." default:"60s"`
}

// fastSettings make the server wait for a short time only. There are
// fewer slots than sessions, so that some always wait for one.
var fastSettings = []string{
	"retry.backoff_min=5ms", "retry.backoff_max=50ms", "inbox.collect_window=100ms", "delegation.tell_every=500ms",
	"task.max_steps=15", "admission.max_concurrent=3",
}

// Run kills the server under load, again and again, and then checks the log
// (N-01, N-02, N-03): each acknowledged operation is there once and took effect;
// each message was resolved once; no step, task, question, call or part is there
// twice or with two outcomes; the tool with a side effect ran at most once for each
// call; all work ended by itself; and the events that a client was shown, across
// all its connections, are those of the log, byte for byte.
func (c *Crash) Run(ctx context.Context) error { return c.run(ctx, os.Stdout) }

func (c *Crash) run(ctx context.Context, out io.Writer) error {
	path, cleanup, err := load.BuildServer(c.Server)
	if err != nil {
		return err
	}
	defer cleanup()
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano())
	}
	rerun := fmt.Sprintf("parley-bench crash --seed %d --rounds %d --clients %d --least %s --most %s", c.Seed, c.Rounds, c.Clients, c.Least, c.Most)
	fmt.Fprintln(out, "rerun:", rerun)
	base, err := os.MkdirTemp("", "parley-crash-")
	if err != nil {
		return err
	}
	if err := c.rounds(ctx, path, base, out); err != nil {
		return fmt.Errorf("%w\nrerun: %s\nthe data directory is kept: %s", err, rerun, filepath.Join(base, "data"))
	}
	return os.RemoveAll(base)
}

// rounds kills the server c.Rounds times, lets it finish, and checks everything.
func (c *Crash) rounds(ctx context.Context, path, base string, out io.Writer) error {
	dir, file := filepath.Join(base, "data"), filepath.Join(base, "journal")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// StartServer runs the server in this directory, where it finds its configuration.
	if err := os.WriteFile(filepath.Join(base, "config.toml"), []byte(journalConfig(self, file)), 0o600); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(c.Seed, 1))
	clients := make([]*client, c.Clients)
	for i := range clients {
		clients[i] = newClient(i, c.Seed)
	}
	began := time.Now()
	for round := range c.Rounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, err := load.StartServer(path, dir, fastSettings...)
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		lifetime := c.Least + time.Duration(random.Int64N(int64(c.Most-c.Least)+1))
		var group sync.WaitGroup
		for _, cl := range clients {
			group.Go(func() { cl.runUntilKilled(s.Addr) })
		}
		time.Sleep(lifetime) //nolint:forbidigo // the moment of the crash is the test's input
		s.Kill()
		group.Wait()
		for _, cl := range clients {
			if cl.failure != nil {
				return fmt.Errorf("round %d: %s, session %s: %w", round, cl.name, cl.session, cl.failure)
			}
		}
	}
	if err := c.finishWork(path, dir, clients); err != nil {
		return err
	}
	// After one more start nothing may have changed.
	s, err := load.StartServer(path, dir, fastSettings...)
	if err != nil {
		return err
	}
	defer s.Kill()
	counts, effects, messages := map[string]int{}, newSideEffects(), 0
	for _, cl := range clients {
		md, err := cl.check(ctx, s, effects)
		if err != nil {
			return fmt.Errorf("%s, session %s: %w", cl.name, cl.session, err)
		}
		messages += len(cl.acknowledged)
		for _, some := range []map[string]int{md.counts, cl.counts} {
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
	if err := effects.check(string(lines)); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d kills, %d clients, %d messages acknowledged, %d lines written by %d calls, in %s: nothing lost, doubled or reordered\n",
		c.Rounds, c.Clients, messages, strings.Count(string(lines), "\n"), len(effects.calls), time.Since(began).Round(time.Second))
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, "%8d %s\n", counts[what], what)
	}
	for _, what := range expectedCounts {
		if counts[what] == 0 {
			fmt.Fprintln(out, "NOT TESTED this time:", what)
		}
	}
	return nil
}

// expectedCounts are the things that a long run meets; it reports those that it did
// not meet.
var expectedCounts = []string{
	"ok send", "ok answer", "ok reply", "ok edit", "ok withdraw", "ok move", "ok cancel", "ok again",
	"mode steer", "mode queue", "mode collect", "mode interrupt", "mode reject", "refused session_busy",
	"attempt interrupted", "approval", "call ok", "call unknown", "call denied", "call cancelled", "delegation",
	"task AWAITING_RESPONSE",
}

// finishWork starts the server and lets all work end.
func (c *Crash) finishWork(path, dir string, clients []*client) error {
	s, err := load.StartServer(path, dir, fastSettings...)
	if err != nil {
		return err
	}
	defer s.Kill()
	deadline := time.Now().Add(c.Finish)
	for _, cl := range clients {
		if err := cl.finish(s.Addr, deadline); err != nil {
			return fmt.Errorf("%s, session %s: %w\nthe server says: %s", cl.name, cl.session, err, s.Log)
		}
	}
	return nil
}
