package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"parley/cmd/parley-bench/internal/load"
	"parley/persistence/postgres/pgtest"
)

// Local is the command that runs a cluster on this machine for people who want to see one;
// its fields are its flags.
type Local struct {
	Server  string        `help:"The server's program (default: it is built)." placeholder:"PATH"`
	Nodes   int           `help:"Nodes that run sessions." default:"3"`
	Gateway bool          `help:"One more node, which only serves clients."`
	Lease   time.Duration `help:"cluster.lease." default:"5s"`
	Config  string        `help:"What the nodes' config.toml holds, such as models." type:"existingfile" placeholder:"FILE"`
}

// stopTime is how long a node may take to end: drain.timeout, five seconds, and some more
// on a busy machine.
const stopTime = 15 * time.Second

// Validate refuses what is no cluster.
func (l *Local) Validate() error {
	return errors.Join(load.AtLeast("nodes", l.Nodes, 1), load.AtLeast("lease", l.Lease, 500*time.Millisecond))
}

// Run starts a PostgreSQL and the nodes, says where they are, and waits until it is
// interrupted. Then everything ends, and what was stored is removed.
func (l *Local) Run(ctx context.Context) error { return l.run(ctx, os.Stdout) }

func (l *Local) run(ctx context.Context, out io.Writer) (err error) {
	path, cleanup, err := load.BuildServer(l.Server)
	if err != nil {
		return err
	}
	defer cleanup()
	base, err := os.MkdirTemp("", "parley-cluster-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(base)) }()
	var config []byte
	if l.Config != "" {
		if config, err = os.ReadFile(l.Config); err != nil {
			return err
		}
	}
	c := &cluster{lease: l.Lease, base: base, program: path, config: string(config), more: []string{"scripted.token_delay=20ms"}}
	c.failed, c.running = make(chan error, 64), ctx
	c.watch = &watchers{over: func(error) {}}
	defer func() {
		c.endAll()
		err = errors.Join(err, c.close())
		c.watch.group.Wait()
	}()
	if c.database, err = openAlone(ctx); err == nil {
		err = c.openLocal(ctx, l.Nodes, l.Gateway)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil // interrupted before it was there
		}
		return err
	}
	c.announce(out)
	for {
		select {
		case <-ctx.Done():
			fmt.Fprintln(out, "\nending: the nodes drain")
			return nil
		case gone := <-c.failed:
			if ctx.Err() == nil { // an interrupt at the terminal is for the nodes, too
				fmt.Fprintln(out, gone)
			}
		}
	}
}

// openAlone starts a database without a standby.
func openAlone(ctx context.Context) (*database, error) {
	if why := pgtest.Missing(); why != "" {
		return nil, errors.New(why)
	}
	a, err := pgtest.Start(ctx, pgtest.Settings{Sync: true})
	if err != nil {
		return nil, err
	}
	d := &database{primary: a, dsn: pgtest.DSN(databaseName, a)}
	if _, err := a.Ask(ctx, "", "create database "+databaseName); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// openLocal starts the nodes without anybody who watches their sockets.
func (c *cluster) openLocal(ctx context.Context, nodes int, gateway bool) error {
	names := make([]string, 0, nodes+1)
	for i := range nodes {
		names = append(names, fmt.Sprintf("node-%d", i+1))
	}
	if gateway {
		names = append(names, "gateway")
	}
	for i, name := range names {
		n, err := c.newNode(name, i >= nodes)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.sessions = append(c.sessions, n)
		c.mu.Unlock()
		if err := n.start(c.over); err != nil {
			return err
		}
	}
	return c.ready(ctx)
}

// announce says where everything is.
func (c *cluster) announce(out io.Writer) {
	fmt.Fprintf(out, "%d nodes on one PostgreSQL:\n", len(c.sessions))
	for _, n := range c.sessions {
		if p := n.now(); p != nil {
			fmt.Fprintf(out, "  %-8s http://%s  pid %d  log %s\n", n.name, p.server.Addr, p.server.Pid(), n.logFile(n.run))
		}
	}
	fmt.Fprintf(out, "  %-8s psql '%s'\n", "database", c.database.dsn)
	if addr := c.sessions[0].addr(); addr != "" {
		fmt.Fprintf(out, "Who is there: curl http://%s/api/cluster\n", addr)
	}
	fmt.Fprintf(out, "Open a page on one node and follow the same session on another; kill -9 or kill -STOP one by its pid.\n"+
		"Ctrl-C ends all of it and removes what was stored.\n")
}

// endAll lets every node drain, and waits for that.
func (c *cluster) endAll() {
	var ending []*process
	for _, n := range c.all() {
		if p := n.endable(); p != nil {
			_ = p.server.Signal(syscall.SIGTERM)
			_ = p.server.Signal(syscall.SIGCONT)
			ending = append(ending, p)
		}
	}
	late := time.After(stopTime)
	for _, p := range ending {
		select {
		case <-p.ended:
		case <-late:
			return // whoever is left is killed
		}
	}
}
