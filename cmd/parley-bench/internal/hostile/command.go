package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"parley/cmd/parley-bench/internal/load"
)

// Hostile is the command; its fields are its flags.
type Hostile struct {
	Server   string        `help:"The server's program (default: it is built)." placeholder:"PATH"`
	Base     string        `help:"An older program, for the rows 'before'." placeholder:"PATH"`
	Only     []string      `help:"These attacks only, by the beginning of their names." placeholder:"NAME"`
	Duration time.Duration `help:"Of each attack; the honest client is measured alone for half as long." default:"8s"`
	Guard    int           `help:"A server that holds more MB than this is killed." default:"1500"`
	Check    bool          `help:"End with an error if a goal of --server is missed."`
}

// The goals: what an attack may cost others, and how long the end may take.
const (
	slowerGoal = 2.0
	slowerFrom = 50 * time.Millisecond // latencies below it are not judged: the machine's own noise is there
	endGoal    = 5 * time.Second
)

// Validate refuses attacks without time, and ones that would not end.
func (h *Hostile) Validate() error {
	wrong := errors.Join(load.AtLeast("duration", h.Duration, time.Second), load.AtLeast("guard", h.Guard, 200))
	if h.Duration > 15*time.Second {
		wrong = errors.Join(wrong, errors.New("--duration must be at most 15s"))
	}
	for _, name := range h.Only {
		if !known(name) {
			wrong = errors.Join(wrong, fmt.Errorf("--only: there is no attack %q", name))
		}
	}
	return wrong
}

// known is true when an attack or a drain begins with name.
func known(name string) bool {
	for _, a := range attacks() {
		if strings.HasPrefix(a.name, name) {
			return true
		}
	}
	return false
}

// Run attacks and prints tables to standard output.
func (h *Hostile) Run(ctx context.Context) error { return h.run(ctx, os.Stdout) }

func (h *Hostile) run(ctx context.Context, out io.Writer) error {
	if runtime.GOOS != "linux" {
		return errors.New("hostile watches the server's memory in /proc, which this system does not have")
	}
	server, cleanup, err := load.BuildServer(h.Server)
	if err != nil {
		return err
	}
	defer cleanup()
	programs := []program{{"", server}}
	if h.Base != "" {
		programs = []program{{"before", h.Base}, {"after", server}}
	}
	fmt.Fprintf(out, conditions, h.Duration, h.Guard)
	var missed []string
	for _, a := range attacks() {
		if a.drain || !h.wanted(a) {
			continue
		}
		for _, p := range programs {
			r := h.attack(ctx, p.path, a)
			fmt.Fprintf(out, "| %s | %s | %s |\n", strings.TrimSpace("**"+a.name+"** "+a.does), p.name, r)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if p.name != "before" && !r.met() {
				missed = append(missed, a.name)
			}
		}
	}
	fmt.Fprint(out, drainHead)
	for _, a := range attacks() {
		if !a.drain || !h.wanted(a) {
			continue
		}
		for _, p := range programs {
			r := h.drain(ctx, p.path, a)
			fmt.Fprintf(out, "| %s | %s | %s |\n", a.does, p.name, r)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if p.name != "before" && !r.met() {
				missed = append(missed, a.name)
			}
		}
	}
	if h.Check && len(missed) > 0 {
		return fmt.Errorf("goals missed: %s", strings.Join(missed, ", "))
	}
	return nil
}

type program struct{ name, path string }

func (h *Hostile) wanted(a attack) bool {
	for _, name := range h.Only {
		if strings.HasPrefix(a.name, name) {
			return true
		}
	}
	return len(h.Only) == 0
}

const conditions = `
### Attacks

Each attack has a server of its own with its default limits and 4,096 descriptors, lasts %s, and comes from other loopback addresses than the
honest client, which says something to its session and reads it over HTTP in turn, 15 times a second, first alone and then during the attack.
Newcomers connect four times a second, say hello and open an event stream. A server with more than %d MB is killed. Server and clients share the machine.

| attack | | memory MB: start → most | descriptors, most | server CPU s | honest p50 ms: alone → during | p99 ms: alone → during (goal < 2×) | newcomers not served | the server | the attacker |
|---|---|---|---:|---:|---|---|---|---|---|
`

const drainHead = `
### SIGTERM while somebody holds the server up (goal: < 5 s, exit 0)

| who | | ends after s | exit | the attacker |
|---|---|---:|---:|---|
`
