package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/cmd/parley-bench/internal/load"
	"parley/cmd/parley-bench/internal/report"
)

// Compare is the command that measures what a cluster costs: turns on one node and on
// three, and the way to another node; its fields are its flags.
type Compare struct {
	Server   string        `help:"The server's program (default: it is built)." placeholder:"PATH"`
	Rounds   int           `help:"How often each is measured." default:"3"`
	Clients  int           `help:"Clients that take turns at the same time." default:"200"`
	Duration time.Duration `help:"Of each timed measurement." default:"5s"`
	Sends    int           `help:"Messages to sessions of another node." default:"2000"`
}

// Validate refuses what measures nothing.
func (m *Compare) Validate() error {
	return errors.Join(load.AtLeast("rounds", m.Rounds, 1), load.AtLeast("clients", m.Clients, 1),
		load.AtLeast("duration", m.Duration, time.Millisecond), load.AtLeast("sends", m.Sends, 1))
}

// Run measures and prints tables to standard output.
func (m *Compare) Run(ctx context.Context) error { return m.run(ctx, os.Stdout) }

func (m *Compare) run(ctx context.Context, out io.Writer) error {
	path, cleanup, err := load.BuildServer(m.Server)
	if err != nil {
		return err
	}
	defer cleanup()
	rows := []struct {
		name string
		run  func(base string) (turnFigures, error)
	}{
		{"one node, its own store", func(base string) (turnFigures, error) {
			s, err := load.StartServer(path, filepath.Join(base, "data"))
			if err != nil {
				return turnFigures{}, err
			}
			defer s.Kill()
			return m.turns(s.Addr)
		}},
		{"one node on PostgreSQL", func(base string) (turnFigures, error) { return m.on(ctx, path, base, 1, false) }},
		{"one node on PostgreSQL with a synchronous standby", func(base string) (turnFigures, error) { return m.on(ctx, path, base, 1, true) }},
		{"three nodes on PostgreSQL", func(base string) (turnFigures, error) { return m.on(ctx, path, base, 3, false) }},
	}
	taken := make([][]turnFigures, len(rows))
	for range m.Rounds {
		for i, r := range rows {
			base, err := os.MkdirTemp("", "parley-compare-")
			if err != nil {
				return err
			}
			f, err := r.run(base)
			if err = errors.Join(err, os.RemoveAll(base), ctx.Err()); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			taken[i] = append(taken[i], f)
		}
	}
	fmt.Fprintf(out, "\n### Turns of %d clients, the nodes, the database and the clients on this machine (median of %d rounds)\n\n", m.Clients, m.Rounds)
	fmt.Fprint(out, "| | turns/s | p50 |\n|---|---:|---:|\n")
	for i, r := range rows {
		slices.SortFunc(taken[i], func(a, b turnFigures) int { return int(a.perSecond - b.perSecond) })
		f := taken[i][len(taken[i])/2]
		fmt.Fprintf(out, "| %s | %.0f | %s |\n", r.name, f.perSecond, report.Short(f.median))
	}
	return m.hop(ctx, path, out)
}

// turnFigures are those of one round.
type turnFigures struct {
	perSecond float64
	median    time.Duration
}

// turns measures after a moment in which caches and plans get warm.
func (m *Compare) turns(addrs ...string) (f turnFigures, err error) {
	if _, _, err := load.Turns(m.Clients, m.Duration/4, addrs...); err != nil {
		return f, err
	}
	f.perSecond, f.median, err = load.Turns(m.Clients, m.Duration, addrs...)
	return f, err
}

// opened starts nodes on a database, without what a test of faults adds.
func opened(ctx context.Context, path, base string, nodes int, standby bool) (*cluster, error) {
	c := &cluster{lease: 5 * time.Second, base: base, program: path, more: []string{"log.level=warn"}}
	err := c.open(ctx, nodes, false, false)
	if err == nil && !standby {
		err = errors.Join(c.database.standby.Close(), c.database.primary.Alone(ctx))
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (m *Compare) on(ctx context.Context, path, base string, nodes int, standby bool) (f turnFigures, err error) {
	c, err := opened(ctx, path, base, nodes, standby)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	var addrs []string
	for _, n := range c.sessions {
		addrs = append(addrs, n.addr())
	}
	return m.turns(addrs...)
}

// hop measures the way to a session of another node: messages that are new, which the
// database has to store, and ones that are known, which the session's node answers alone.
func (m *Compare) hop(ctx context.Context, path string, out io.Writer) (err error) {
	base, err := os.MkdirTemp("", "parley-compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	c, err := opened(ctx, path, base, 2, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	var conns []*load.Conn
	for _, n := range c.sessions {
		conn, err := load.Dial(n.addr())
		if err != nil {
			return err
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	session, own, err := m.ofNode(ctx, c, conns)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n### A session of another node: one client, %d messages by each node in turn (p50)\n\n", m.Sends)
	fmt.Fprint(out, "| a message that is | at its node | at another one | the way adds |\n|---|---:|---:|---:|\n")
	for _, kind := range []string{"new", "known"} {
		var at [2][]time.Duration
		for i := range m.Sends {
			id := "known"
			if kind == "new" {
				id = "new-" + strconv.Itoa(i/2)
			}
			side := i % 2 // 0 = at its node
			began := time.Now()
			if _, err := conns[(own+side)%2].Ask("send", session, `{"client_msg_id":"`+id+`-`+kindSide(kind, side)+`","text":"/noreply"}`); err != nil {
				return err
			}
			at[side] = append(at[side], time.Since(began))
		}
		slices.Sort(at[0])
		slices.Sort(at[1])
		here, there := at[0][len(at[0])/2], at[1][len(at[1])/2]
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", kind, report.Short(here), report.Short(there), report.Short(there-here))
	}
	return nil
}

// kindSide keeps new messages of the two sides apart; known ones are one message.
func kindSide(kind string, side int) string {
	if kind == "new" {
		return strconv.Itoa(side)
	}
	return "one"
}

// ofNode makes a session, and says which of the nodes has it.
func (m *Compare) ofNode(ctx context.Context, c *cluster, conns []*load.Conn) (session string, own int, err error) {
	if session, err = conns[0].Create(); err != nil {
		return "", 0, err
	}
	if _, err := conns[0].Ask("send", session, `{"client_msg_id":"known-one","text":"/noreply"}`); err != nil {
		return "", 0, err
	}
	owner, err := c.database.ask(ctx, "select owner_node from sessions where session = '"+session+"'")
	if err != nil {
		return "", 0, err
	}
	own = slices.IndexFunc(conns, func(conn *load.Conn) bool { return conn.Node == strings.TrimSpace(owner) })
	if own < 0 {
		return "", 0, fmt.Errorf("session %s is %q's, which is no node", session, owner)
	}
	return session, own, nil
}
