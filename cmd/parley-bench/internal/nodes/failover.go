package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"parley/cmd/parley-bench/internal/load"
	"parley/cmd/parley-bench/internal/report"
)

// Failover is the command that measures how long clients notice that a node is gone; its
// fields are its flags.
type Failover struct {
	Server  string        `help:"The server's program (default: it is built)." placeholder:"PATH"`
	Lease   time.Duration `help:"cluster.lease." default:"5s"`
	Times   int           `help:"How often of each kind." default:"5"`
	Clients int           `help:"Clients; each sends a message to one of its ten sessions every 20 ms." default:"8"`
}

// Validate refuses what measures nothing.
func (v *Failover) Validate() error {
	return errors.Join(load.AtLeast("times", v.Times, 1), load.AtLeast("clients", v.Clients, 1), load.AtLeast("lease", v.Lease, 100*time.Millisecond))
}

// Run kills, freezes and ends nodes of three, and prints a table to standard output.
func (v *Failover) Run(ctx context.Context) error { return v.run(ctx, os.Stdout) }

func (v *Failover) run(ctx context.Context, out io.Writer) (err error) {
	path, cleanup, err := load.BuildServer(v.Server)
	if err != nil {
		return err
	}
	defer cleanup()
	base, err := os.MkdirTemp("", "parley-failover-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	all := &cluster{lease: v.Lease, base: base, program: path}
	ctx, stop := context.WithCancel(ctx)
	var probing sync.WaitGroup
	defer func() {
		stop()
		probing.Wait()
		err = errors.Join(err, all.close())
		all.watch.group.Wait()
	}()
	if err := all.open(ctx, 3, false, false); err != nil {
		return err
	}
	p := &probes{nodes: all, shun: map[string]time.Time{}}
	for i := range v.Clients {
		probing.Go(func() { p.run(ctx, i) })
	}
	pause(ctx, 2*v.Lease)
	fmt.Fprintf(out, "\n### A node of three is gone: %d clients, cluster.lease %s\n\n", v.Clients, v.Lease)
	fmt.Fprint(out, "| what happens | times | last failed request | longest wait for an acknowledgement | failed requests | sent meanwhile |\n|---|---:|---:|---:|---:|---:|\n")
	for _, kind := range []fault{killed, frozen, left} {
		if err := v.measure(ctx, all, p, kind, out); err != nil {
			return err
		}
	}
	return firstOf(all.failed)
}

// measure prints the row of a kind of fault. A node comes back when everything has been
// seen that its end does.
func (v *Failover) measure(ctx context.Context, all *cluster, p *probes, kind fault, out io.Writer) error {
	var last, longest []time.Duration
	failed, sent := 0, 0
	for i := range v.Times {
		// Nodes that have started together renew together: a fault that always came right
		// behind that would always be the worst one.
		pause(ctx, rand.N(v.Lease))
		began := time.Now()
		var f figures
		if err := all.do(ctx, step{what: kind, node: i, hold: 2.5}, &f); err != nil {
			return err
		}
		pause(ctx, v.Lease)
		if err := ctx.Err(); err != nil {
			return err
		}
		seen := p.since(began, began.Add(all.leases(2.5)))
		last, longest = append(last, seen.last), append(longest, seen.longest)
		failed, sent = failed+seen.failed, sent+seen.sent
	}
	fmt.Fprintf(out, "| %s | %d | %s | %s | %d | %d |\n", kind, v.Times, medianAndMost(last), medianAndMost(longest), failed, sent)
	return nil
}

func medianAndMost(times []time.Duration) string {
	slices.Sort(times)
	return report.Short(times[len(times)/2]) + " (at most " + report.Short(times[len(times)-1]) + ")"
}

// probes are clients that send small messages without end, and note how they fared.
type probes struct {
	nodes *cluster

	mu       sync.Mutex
	failures []time.Time
	shun     map[string]time.Time // nodes, until when
	acks     []acked
}

// acked is a message that was acknowledged in the end.
type acked struct{ first, done time.Time }

// seen is what probes saw of a fault.
type seen struct {
	last, longest time.Duration
	failed, sent  int
}

// since is what was seen from a fault on, of requests that were sent up to a moment:
// later ones meet the node's return.
func (p *probes) since(began, until time.Time) (s seen) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.failures {
		if at.After(began) && at.Before(until) {
			s.failed++
			s.last = max(s.last, at.Sub(began))
		}
	}
	for _, a := range p.acks {
		if a.done.After(began) && a.first.Before(until) {
			s.sent++
			s.longest = max(s.longest, a.done.Sub(a.first))
		}
	}
	return s
}

// impatience is how long a client waits for an answer before it takes the node for gone,
// and asks another one.
const impatience = time.Second

// shunned is how long no client tries a node again to which one of them could not connect:
// what a load balancer before the nodes does.
const shunned = 10 * time.Second

// prober is one client.
type prober struct {
	random  *rand.Rand
	client  int
	conn    *load.Conn
	session []string
}

// connect chooses a node.
func (c *prober) connect(p *probes) (err error) {
	addr := ""
	for range 20 {
		addr = p.nodes.Any(c.random)
		shun := false
		p.note(func() { shun = time.Now().Before(p.shun[addr]) })
		if !shun {
			break
		}
	}
	if addr == "" {
		return errors.New("no node is there")
	}
	if c.conn, err = load.DialWithin(addr, impatience); err != nil {
		c.conn = nil
		p.note(func() { p.shun[addr] = time.Now().Add(shunned) })
	}
	return err
}

// run sends until the context ends.
func (p *probes) run(ctx context.Context, client int) {
	c := &prober{random: rand.New(rand.NewPCG(uint64(client), 9)), client: client, session: make([]string, 10)}
	for i := 0; ctx.Err() == nil; i++ {
		first := time.Now()
		for ctx.Err() == nil {
			err := c.once(p, i)
			if err == nil {
				p.note(func() { p.acks = append(p.acks, acked{first, time.Now()}) })
				break
			}
			p.note(func() { p.failures = append(p.failures, time.Now()) })
			if r := new(load.Refusal); c.conn != nil && !errors.As(err, &r) {
				c.conn.Close()
				c.conn = nil
			}
			pause(ctx, 10*time.Millisecond)
		}
		pause(ctx, 20*time.Millisecond)
	}
	if c.conn != nil {
		c.conn.Close()
	}
}

func (p *probes) note(what func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	what()
}

// once sends message i, over the connection that is there, or a new one.
func (c *prober) once(p *probes, i int) error {
	if c.conn == nil {
		if err := c.connect(p); err != nil {
			return err
		}
	}
	if err := c.conn.SetReadDeadline(time.Now().Add(impatience)); err != nil {
		return err
	}
	n := i % len(c.session)
	if c.session[n] == "" {
		data, err := c.conn.Ask("create", "", fmt.Sprintf(`{"client_session_id":"probe-%d-%d"}`, c.client, n))
		if err != nil {
			return err
		}
		var created struct{ Session string }
		if err := json.Unmarshal(data, &created); err != nil {
			return err
		}
		c.session[n] = created.Session
	}
	_, err := c.conn.Ask("send", c.session[n], `{"client_msg_id":"`+strconv.Itoa(i)+`","text":"/say x"}`)
	return err
}
