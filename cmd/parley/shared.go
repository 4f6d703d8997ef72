package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"parley/actors"
	"parley/actors/cluster"
	"parley/cmd/parley/internal/assemble"
	"parley/cmd/parley/internal/channels"
	"parley/cmd/parley/internal/config"
	"parley/cmd/parley/internal/store"
	"parley/conversation"
	"parley/conversation/member"
	"parley/gateway"
	"parley/gateway/list"
	"parley/metrics"
)

// leaveTime is how long the last word to the others may take.
const leaveTime = 3 * time.Second

// What a node of a shared store may take to end beyond drain.timeout, whatever the database
// does: to give its sessions up, and altogether. Between the two, clients are parted from.
const (
	parkTime = 1500 * time.Millisecond
	longest  = 4500 * time.Millisecond
)

// lastMoment ends the process when it should have ended. What was acknowledged is in the
// database, and the other nodes find what was open by the end of the lease.
type lastMoment struct{ timer atomic.Pointer[time.Timer] }

// set lets the process end after d.
func (l *lastMoment) set(d time.Duration, log *slog.Logger) {
	l.timer.Store(time.AfterFunc(d, func() {
		log.Error("ending without the database: it did not answer in time, and others take over what is open here", "after", d.String())
		os.Exit(exitFailed)
	}))
}

// forget is for a process that has ended by itself.
func (l *lastMoment) forget() error {
	if t := l.timer.Load(); t != nil {
		t.Stop()
	}
	return nil
}

// joined is this process as a member of a cluster; nil for a process that is alone with its
// store. Its methods may be called on nil.
type joined struct{ *cluster.Node }

// openShared opens the store that several nodes share.
func (m *Main) openShared(ctx context.Context, look config.Lookup, log *slog.Logger, counts *metrics.Persistence) (*store.Shared, error) {
	dsn, err := m.Config.DSN(look)
	if err != nil {
		return nil, config.NewError("store.postgres", err)
	}
	return store.OpenShared(ctx, assemble.Shared(&m.Config, dsn, log, counts))
}

// join makes this process a member, if its store is shared.
func (m *Main) join(ctx context.Context, db store.Store, log *slog.Logger, counts func() *metrics.Cluster) (*joined, error) {
	shared, ok := db.(*store.Shared)
	if !ok {
		return nil, nil
	}
	options, err := assemble.Cluster(&m.Config, version(), log)
	if err != nil {
		return nil, config.NewError("cluster", err)
	}
	node, err := cluster.Join(ctx, options, cluster.Deps{Table: shared.Table(), Singletons: shared.Members, Logger: log, Metrics: counts()})
	if err != nil {
		return nil, fmt.Errorf("joining the cluster: %w", err)
	}
	return &joined{node}, nil
}

// runner runs what runs once in the cluster; nil = this process is alone.
func (j *joined) runner() channels.Runner {
	if j == nil {
		return nil
	}
	return j.Node
}

// of has the engine own its sessions, and know which are others', and connects the hub with
// those of the others.
func (j *joined) of(o *actors.Config, d *actors.Deps, hub *gateway.Hub) {
	if j == nil {
		return
	}
	o.Member, d.Placement, d.Publisher = j.Member(), j.Placement(), j.Publisher(hub)
	hub.SetUpstream(j.Upstream())
	d.HandedOver, d.HandOut, d.Offered, d.Feature, d.Holds = j.HandedOver, j.HandOut, j.Offered, j.Feature, j.Holds
}

// lists says to whom a change of a session's row is told: to those who watch here, and to the
// other nodes.
func (j *joined) lists(b *list.Board) func(list.Touched) {
	if j == nil {
		return b.Changed
	}
	changed := j.Lists(watchers{b})
	return func(t list.Touched) { changed(t.Key, t.Everyone, t.Users) }
}

// watchers are those of this node, as the others know them.
type watchers struct{ *list.Board }

func (w watchers) Changed(key conversation.SessionKey, everyone bool, users []conversation.UserID) {
	w.Board.Changed(list.Touched{Key: key, Everyone: everyone, Users: users})
}

func (w watchers) Again(ctx context.Context) error { return w.AllAgain(ctx) }

// tools are those of the MCP servers that one node of all runs; nil = there are none, or this
// process is alone and runs them like the others. A node without sessions needs none.
func (j *joined) tools(ctx context.Context, c *config.Config, others []conversation.Tool, join func([]conversation.Tool) error, look config.Lookup, log *slog.Logger) (*assemble.SharedTools, error) {
	if j == nil || c.Cluster.GatewayOnly {
		return nil, nil
	}
	return assemble.OpenSharedMCP(ctx, c, j.Node, others, join, look, log)
}

// sessions is what clients are served from.
func (j *joined) sessions(engine *actors.Engine) gateway.Sessions {
	if j == nil {
		return engine
	}
	return j.Sessions(engine)
}

// ticketsOf are the tickets of all nodes of a shared store; nil = there is one node.
func ticketsOf(db store.Store) member.Tickets {
	if shared, ok := db.(*store.Shared); ok {
		return shared
	}
	return nil
}

// members lists the nodes; nil = there is no cluster.
func (j *joined) members() func() []member.Peer {
	if j == nil {
		return nil
	}
	return j.Members
}

// run keeps the node among the members. A node that is not one any more ends at once: others
// have its sessions, and what it would still say is not true.
func (j *joined) run(ctx context.Context, log *slog.Logger) {
	if j == nil {
		return
	}
	err := j.Run(ctx)
	if errors.Is(err, member.ErrDeposed) || errors.Is(err, cluster.ErrFrozen) {
		log.Error("ending at once", "error", err)
		os.Exit(exitFailed)
	}
}

// drain gives the sessions to the others.
func (j *joined) drain(ctx context.Context) error {
	if j == nil {
		return nil
	}
	return j.Drain(ctx)
}

// leave is the last word to the others.
func (j *joined) leave(ctx context.Context) {
	if j == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	_ = j.Leave(ctx) // else its lease runs out
}

// migrate is the command of that name.
func (m *Main) migrate(ctx context.Context) error {
	if m.Config.Shared.Postgres == "" {
		return &UsageError{"there is no store.postgres in the configuration: nothing has to be prepared"}
	}
	dsn, err := m.Config.DSN(config.LookupIn(m.Environ))
	if err != nil {
		return config.NewError("store.postgres", err)
	}
	found, err := store.Migrate(ctx, dsn, true, newLogger(m.Stderr, m.Config.Log))
	if err != nil {
		return err
	}
	if len(found.Applied) == 0 {
		fmt.Fprintf(m.Stdout, "the database is ready: schema %d, nothing had to be done\n", found.Version)
	}
	for _, name := range found.Applied {
		fmt.Fprintf(m.Stdout, "applied %s\n", name)
	}
	for _, text := range found.Warnings {
		fmt.Fprintf(m.Stdout, "warning: %s\n", text)
	}
	return nil
}

// checkShared looks at the database as a start would, and changes nothing.
func (m *Main) checkShared(ctx context.Context, say func(what string, err error, fine string), note func(what, text string)) {
	dsn, err := m.Config.DSN(config.LookupIn(m.Environ))
	if err != nil {
		say("database", config.NewError("store.postgres", err), "")
		return
	}
	found, err := store.Look(ctx, dsn, m.Config.Shared.Migrate)
	say("database", err, fmt.Sprintf("PostgreSQL %d.%d, schema %d, feature %d of %d", found.Server/10000, found.Server%10000, found.Version, found.Feature, member.Newest))
	if found.Pending {
		note("database", "tables are missing or older than this program: a start makes or upgrades them")
	}
	for _, text := range found.Warnings {
		note("database", text)
	}
}

// checkCluster looks at what a node shows to the others, and at where they reach it.
func (m *Main) checkCluster(ctx context.Context, say func(what string, err error, fine string)) {
	if m.Config.Cluster.Listen == "" {
		return
	}
	_, err := assemble.Cluster(&m.Config, version(), slog.New(slog.DiscardHandler))
	say("cluster", err, m.Config.NodeName()+" of "+m.Config.Cluster.Name)
	say("cluster address", checkAddress(ctx, m.Config.Cluster.Listen), m.Config.Cluster.Listen)
}
