package peers

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

// Peers is the command that compares; its fields are its flags.
type Peers struct {
	Server   string        `help:"The server's program (default: it is built)." placeholder:"PATH"`
	Dir      string        `help:"Where the peers' programs are, or are installed." default:"bin/peers"`
	Module   string        `help:"The module that holds the programs around the peers' libraries." default:"cmd/parley-bench/peers"`
	Only     string        `help:"Measure one only." enum:"all,turns,fan,resume" default:"all"`
	Rounds   int           `help:"How often each is measured, one after the other." default:"3"`
	Duration time.Duration `help:"Of each measurement of turns, and of the paced fan-out." default:"4s"`
	Clients  []int         `help:"How many clients do turns." default:"1,50,200"`
	Quick    bool          `help:"A smoke test: everything in small, within seconds. Its numbers mean nothing."`
}

// Goals of the comparison.
const (
	turnsGoal  = 10.0 // times Restate's turns a second
	pacedGoal  = 0.8  // of centrifuge's processor time a delivery
	burstGoal  = 0.25
	resumeGoal = 0.5 // seconds
)

// Validate refuses measurements of nothing.
func (p *Peers) Validate() error {
	wrong := errors.Join(load.AtLeast("rounds", p.Rounds, 1), load.AtLeast("duration", p.Duration, time.Second))
	for _, n := range p.Clients {
		wrong = errors.Join(wrong, load.AtLeast("clients", n, 1))
	}
	return wrong
}

// Run installs what is missing, measures, and prints tables to standard output.
func (p *Peers) Run(ctx context.Context) error { return p.run(ctx, os.Stdout) }

func (p *Peers) run(ctx context.Context, out io.Writer) error {
	server, cleanup, err := load.BuildServer(p.Server)
	if err != nil {
		return err
	}
	defer cleanup()
	dir, err := os.MkdirTemp("", "parley-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := report{Peers: p, out: out, dir: dir, programs: install(ctx, p.Module, p.Dir), paced: fan{followers: 1000, bursts: int(p.Duration.Seconds() * 20), burst: 1, every: time.Second / 20, bytes: 487},
		bursts: fan{followers: 200, bursts: 60, burst: 100, bytes: 487}, back: resume{clients: 1000, events: 200, pad: 300}}
	if p.Quick {
		r.printf("A smoke test: these numbers mean nothing.\n")
		p.Rounds, p.Duration, p.Clients = 1, 100*time.Millisecond, []int{1, 5}
		r.back.clients, r.back.events = 10, 5
		r.paced.followers, r.paced.bursts, r.bursts.followers, r.bursts.bursts, r.bursts.burst = 10, 3, 10, 3, 5
	}
	r.printf("\n%d processors, shared by clients and servers; %d rounds, in turn: min / **median** / max.\n", runtime.NumCPU(), p.Rounds)
	if p.Only == "all" || p.Only == "turns" {
		if err := r.turns(ctx, server); err != nil {
			return fmt.Errorf("turns: %w", err)
		}
	}
	if p.Only == "all" || p.Only == "fan" {
		if err := r.fan(ctx, server); err != nil {
			return fmt.Errorf("fan-out: %w", err)
		}
	}
	if p.Only == "all" || p.Only == "resume" {
		if err := r.resumes(ctx, server); err != nil {
			return fmt.Errorf("resume: %w", err)
		}
	}
	return nil
}

// report measures and prints.
type report struct {
	*Peers
	out           io.Writer
	dir           string
	programs      programs
	paced, bursts fan
	back          resume
}

func (r *report) printf(format string, args ...any) { fmt.Fprintf(r.out, format, args...) }

// fresh is an empty directory for one start.
func (r *report) fresh() (string, error) { return os.MkdirTemp(r.dir, "") }

const turnsConditions = `
### Durable turns: each client sends to its own session and waits for the answer before it sends again

parley: its store as it comes, every commit synced; a turn is two commits, and ends with the last of 7 events on a WebSocket that follows the session.
The scripted model answers at once. Rate limits and admission are lifted.
Restate: one node with its own defaults, its log synced; an object with a key for each session, called over HTTP by kept connections. *Message* gets, sets, does one
journalled step (the model call, answered at once) and sets twice: what parley stores of a turn. *Light* goes without the journalled step, and parley does not.
Not equal: Restate calls the service in a process of its own, which parley's model of this test is not; its journal says what a handler did, and
parley's log has events that clients follow. Both keep what they have acknowledged through a kill; neither is replicated here.

| | clients | turns/s | p50 ms | p99 ms | server CPU, µs a turn | client CPU, µs a turn |
|---|---:|---|---|---|---|---|
`

func (r *report) turns(ctx context.Context, server string) error {
	r.printf("%s", turnsConditions)
	entrants := []entrant{{"parley", []string{""}, startParley(server)}}
	missing := firstOf(r.programs.noRestate, r.programs.noService)
	if missing == nil {
		entrants = append(entrants, entrant{"Restate", []string{"Message", "Light"}, startRestate(r.programs.restate, r.programs.service)})
	}
	found := map[string]*cells{}
	name := func(e entrant, handler string) string { return strings.TrimSpace(e.name + " " + handler) }
	for range r.Rounds {
		for _, n := range r.Clients {
			for i, e := range entrants {
				if e.start == nil {
					continue
				}
				err := r.one(ctx, e, n, func(handler string, m measured) {
					key := fmt.Sprint(name(e, handler), n)
					if found[key] == nil {
						found[key] = &cells{}
					}
					found[key].add(m)
				})
				switch {
				case err != nil && i == 0:
					return err
				case err != nil: // a peer that does not run is not our error
					missing, entrants[i].start = err, nil
				}
			}
		}
	}
	for _, e := range entrants {
		for _, handler := range e.handlers {
			for _, n := range r.Clients {
				if c := found[fmt.Sprint(name(e, handler), n)]; c != nil {
					r.printf("| %s | %d | %s | %s | %s | %s | %s |\n", name(e, handler), n,
						c.perSecond.show("%.0f"), c.p50.show("%.2f"), c.p99.show("%.1f"), c.server.show("%.0f"), c.client.show("%.0f"))
				}
			}
		}
	}
	if missing != nil {
		r.printf("| Restate | | NOT RUN: %s | | | | |\n", oneLine(missing))
		return nil
	}
	r.printf("\n| clients | parley ÷ Restate Message, turns/s | goal ≥ %.0f | server CPU, Restate ÷ parley | parley ÷ Restate Light, turns/s |\n|---:|---:|---|---:|---:|\n", turnsGoal)
	for _, n := range r.Clients {
		own, message, light := found[fmt.Sprint("parley", n)], found[fmt.Sprint("Restate Message", n)], found[fmt.Sprint("Restate Light", n)]
		r.printf("| %d | %s | %s | %s | %s |\n", n, over(own.perSecond, message.perSecond, "%.1f"), verdict(own.perSecond.median() >= turnsGoal*message.perSecond.median()),
			over(message.server, own.server, "%.1f"), over(own.perSecond, light.perSecond, "%.1f"))
	}
	return nil
}

// one starts an entrant and measures its handlers with n clients.
func (r *report) one(ctx context.Context, e entrant, n int, add func(handler string, m measured)) error {
	dir, err := r.fresh()
	if err != nil {
		return err
	}
	c, err := e.start(ctx, dir)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer c.stop()
	for _, handler := range e.handlers {
		m, err := turns(c, handler, n, r.Duration)
		if err != nil {
			return fmt.Errorf("%s %s, %d clients: %w", e.name, handler, n, err)
		}
		add(handler, m)
	}
	return ctx.Err()
}

const fanConditions = `
### Fan-out: one sender, one event of %d bytes for every follower

parley: a queued message is edited; each edit is one durable event, synced before anyone sees it.
centrifuge (a Go library in a server of its own): a publication in a channel with history and recovery, in memory only: it is gone with the process.
The same client for both, which reads frames and does not decode them; the sender has a WebSocket, too. Paced: an event every %s to %d followers.
Burst: %d events in one write to %d followers, the next when the last one has arrived everywhere; an event is late when it waited for those before it.

| | | server CPU, µs a delivery | last follower, p50 ms | p99 ms | deliveries/s | bytes |
|---|---|---|---|---|---|---|
`

// fanSide is one of those that are compared.
type fanSide struct {
	name  string
	start func(context.Context, string) (broadcaster, error)
}

func (r *report) fan(ctx context.Context, server string) error {
	r.printf(fanConditions, r.paced.bytes, r.paced.every, r.paced.followers, r.bursts.burst, r.bursts.followers)
	sides := []fanSide{{"parley", startParleyFan(server)}}
	missing := r.programs.noFan
	if missing == nil {
		sides = append(sides, fanSide{"centrifuge", startCentrifuge(r.programs.centrifuge)})
	}
	works := []struct {
		name string
		fan  fan
		goal float64
	}{{"paced", r.paced, pacedGoal}, {"burst", r.bursts, burstGoal}}
	found := map[string][]fanned{}
	for range r.Rounds {
		for _, w := range works {
			for i, s := range sides {
				if s.start == nil {
					continue
				}
				m, err := r.oneFan(ctx, w.fan, s.start)
				switch {
				case err != nil && i == 0:
					return fmt.Errorf("%s, %s: %w", s.name, w.name, err)
				case err != nil:
					missing, sides[i].start = fmt.Errorf("%s: %w", w.name, err), nil
				default:
					found[w.name+s.name] = append(found[w.name+s.name], m)
				}
			}
		}
	}
	for _, w := range works {
		for _, s := range sides {
			if all := found[w.name+s.name]; len(all) > 0 {
				r.printf("| %s | %s | %s | %s | %s | %s | %s |\n", w.name, s.name, of(all, fanned.ofCPU).show("%.2f"), of(all, fanned.ofP50).show("%.1f"),
					of(all, fanned.ofP99).show("%.1f"), of(all, fanned.ofRate).show("%.0f"), of(all, fanned.ofBytes).show("%.0f"))
			}
		}
	}
	if missing != nil {
		r.printf("| | centrifuge | NOT RUN: %s | | | | |\n", oneLine(missing))
		return nil
	}
	r.printf("\n| | parley ÷ centrifuge, server CPU a delivery | goal |\n|---|---:|---|\n")
	for _, w := range works {
		own, other := of(found[w.name+"parley"], fanned.ofCPU), of(found[w.name+"centrifuge"], fanned.ofCPU)
		r.printf("| %s | %s | ≤ %.2f: %s |\n", w.name, over(own, other, "%.2f"), w.goal, verdict(own.median() <= w.goal*other.median()))
	}
	return nil
}

func (r *report) oneFan(ctx context.Context, f fan, start func(context.Context, string) (broadcaster, error)) (fanned, error) {
	dir, err := r.fresh()
	if err != nil {
		return fanned{}, err
	}
	defer os.RemoveAll(dir)
	b, err := start(ctx, dir)
	if err != nil {
		return fanned{}, err
	}
	defer b.stop()
	m, err := f.run(b)
	return m, firstOf(err, ctx.Err())
}

func (f fanned) ofCPU() float64   { return f.cpu }
func (f fanned) ofP50() float64   { return f.p50 }
func (f fanned) ofP99() float64   { return f.p99 }
func (f fanned) ofRate() float64  { return f.perSecond }
func (f fanned) ofBytes() float64 { return f.bytes }

// of is one number of all rounds.
func of(all []fanned, number func(fanned) float64) spread {
	var s spread
	for _, f := range all {
		s = append(s, number(f))
	}
	return s
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// oneLine fits an error into a row of a table.
func oneLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.ReplaceAll(line, "|", "/")
}
