package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"parley/actors"
	"parley/conversation"
	"parley/gateway"
	"parley/gateway/web"
	"parley/metrics"
	"parley/persistence/pebble"
	"parley/tools/builtin"
)

// modelNotice is said wherever the scripted model could be taken for more than it is.
const modelNotice = "scripted demo model: rules, not AI"

// closing is how long the end may take beyond drain.timeout: parking steps,
// telling clients, closing the store.
const closing = 15 * time.Second

// serve joins the rooms, runs until ctx ends, and drains: readiness off and
// clients told, then the engine, then the sockets, then (by Close) the store.
func (m *Main) serve(ctx context.Context) error {
	c := m.Config
	log := newLogger(m.Stderr, c.Log)
	registry := metrics.NewRegistry()
	node := conversation.NodeID("local")

	defer keepHeapFloor(uint64(c.Process.HeapFloor))()
	fatal := make(chan error, 1)
	options := c.store()
	options.Logger, options.Metrics = log.With("room", "persistence"), metrics.NewPersistence(registry)
	options.OnFatal = func(err error) { // nothing can be made durable any more: end, and start again from what is
		log.Error("the store failed; ending", "error", err)
		os.Exit(exitFailed)
	}
	db, err := m.openStore(options)
	if err != nil {
		return err
	}
	m.closers = append(m.closers, db.Close)

	look := lookupIn(m.Environ)
	models, err := c.models(look, log.With("room", "models"), m.wrap)
	m.closers = append(m.closers, models.Close)
	if err != nil {
		return err
	}
	models.watch(registry)
	def, _ := c.defaultModel(look)
	tools := builtin.New(builtin.Options{Log: db})
	servers, err := c.openMCP(ctx, tools, look, log.With("room", "tools"))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // told to stop before it had begun
	case err != nil:
		return &ConfigError{[]problem{{where: "mcp", text: err.Error()}}}
	}
	if servers != nil {
		m.closers = append(m.closers, func() error { servers.Close(); return nil })
		tools = append(tools, servers.Tools()...)
		watchMCP(registry, servers)
	}
	byName := map[string]conversation.Tool{}
	for _, t := range tools {
		byName[t.Spec().Name] = t
	}
	for _, a := range c.Agents {
		for _, t := range a.Tools {
			if byName[t] == nil && t != "*" {
				log.Warn("an agent is allowed a tool that no server has brought", "agent", a.Name, "tool", t)
			}
		}
	}
	gatewayMetrics := metrics.NewGateway(registry)
	hub := gateway.NewHub(gatewayMetrics)
	engine, err := actors.New(c.engine(node, tools, def), actors.Deps{
		Store: db, Publisher: hub, Models: models.routes,
		Tools: byName, Logger: log.With("room", "actors"), Metrics: metrics.NewActors(registry),
	})
	if err != nil {
		return err
	}
	server, err := gateway.New(c.gateway(node, models.routes[""].Label()), gateway.Deps{
		Sessions: newDoors(engine, c.Channels), Hub: hub, Page: web.Files,
		Logger: log.With("room", "gateway"), Metrics: gatewayMetrics, Gatherer: registry,
	})
	if err != nil {
		return err
	}
	m.closers = append(m.closers, server.Close)
	addr, err := server.Listen()
	if err != nil {
		return err
	}

	running, halt := context.WithCancel(context.WithoutCancel(ctx))
	defer halt()
	engineEnded := make(chan struct{})
	go func() { // ends with running
		defer close(engineEnded)
		if err := engine.Run(running); err != nil {
			report(fatal, fmt.Errorf("engine: %w", err))
		}
	}()
	// The address takes connections already; nobody is served before the engine is
	// there, or the first client would be told that the server is going away.
	select {
	case <-engine.Started():
	case <-engineEnded:
	}
	gatewayEnded := make(chan struct{})
	go func() { // ends with the drain, or when it fails
		defer close(gatewayEnded)
		if err := server.Run(running); err != nil {
			report(fatal, fmt.Errorf("gateway: %w", err))
		}
	}()

	m.addr = addr.String()
	notice := c.notice(def, models.routes[""])
	m.announce(db, server.AdminAddr(), notice)
	close(m.listening)
	log.Info("parley serves", "address", m.addr, "data", m.dataName(), "model", notice, "version", version(), "config", m.configPath)

	select {
	case <-ctx.Done():
		log.Info("stopping", "drain_timeout", c.Drain.Timeout.String())
	case err = <-fatal:
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Drain.Timeout+closing)
	defer cancel()
	server.Announce()
	if drain := engine.Drain(end); drain != nil {
		err = errors.Join(err, fmt.Errorf("drain: %w", drain))
	}
	err = errors.Join(err, server.Drain(end))
	halt()
	<-engineEnded
	<-gatewayEnded
	log.Info("stopped")
	return err
}

func report(to chan<- error, err error) {
	select {
	case to <- err:
	default: // the first one ends the process; the others follow from it
	}
}

func (m *Main) openStore(o pebble.Options) (*pebble.DB, error) {
	if m.Config.Memory.Mode == "ephemeral" {
		return pebble.OpenEphemeral(o)
	}
	return pebble.Open(m.Config.Data, o)
}

func (m *Main) dataName() string {
	if m.Config.Memory.Mode == "ephemeral" {
		return "in memory only (memory.mode is ephemeral)"
	}
	return m.Config.Data
}

// announce tells the person at the terminal where to go.
func (m *Main) announce(db *pebble.DB, admin net.Addr, model string) {
	fmt.Fprintf(m.Stdout, "parley %s listens on http://%s\n  data   %s (log %s)\n  model  %s\n",
		version(), m.addr, m.dataName(), db.LogID(), model)
	if admin != nil {
		fmt.Fprintf(m.Stdout, "  admin  http://%s/metrics\n", admin)
	}
}

func (c Config) store() pebble.Options {
	return pebble.Options{
		MemTableBytes: int64(c.Storage.MemTable), CacheBytes: int64(c.Storage.Cache), Heads: c.Storage.Heads,
		SoftFree: int64(c.Storage.SoftFree), HardFree: int64(c.Storage.HardFree), Ballast: int64(c.Storage.Ballast),
		CheckEvery: c.Storage.CheckEvery,
	}
}

func (c Config) engine(node conversation.NodeID, tools []conversation.Tool, def string) actors.Config {
	e := actors.DefaultConfig()
	e.Rules, e.Node = c.rules(tools, def), node
	e.MaxConcurrent = c.Admission.MaxConcurrent
	if c.Admission.OnFull == "reject" {
		e.OnFull = actors.OnFullReject
	}
	s := c.Session
	e.Idle, e.IdleJitter, e.CacheIdle = s.Idle, s.IdleJitter, s.CacheIdle
	e.MaxWaiting, e.MaxPending = s.MaxWaiting, s.MaxPending
	e.MaxFolds, e.MaxFoldWait = s.MaxFolds, s.MaxFoldWait
	e.SeenEvery, e.SnapshotEvery, e.SnapshotOnIdle = s.SeenEvery, s.SnapshotEvery, s.SnapshotOnIdle
	e.SettleTimeout, e.FullPause = c.Storage.SettleTimeout, c.Storage.FullPause
	e.DeltaEvery, e.ModelIdle, e.ModelLimit = c.Model.DeltaEvery, c.Model.IdleTimeout, c.Model.HardTimeout
	e.ToolOutput, e.ToolGrace, e.ToolDeadline = int(c.Tools.MaxOutput), c.Tools.Grace, c.Tools.Timeout
	e.TellEvery, e.TellRetry = c.Delegation.TellEvery, c.Delegation.TellRetry
	e.DueEvery, e.DueParallel = c.Due.Every, c.Due.Parallel
	e.DrainTimeout = c.Drain.Timeout
	e.RetentionAge, e.SweepEvery = c.Retention.MaxAge, c.Retention.SweepEvery
	return e
}

func (c Config) gateway(node conversation.NodeID, model string) gateway.Config {
	g := gateway.DefaultConfig()
	g.Listen, g.AdminListen = c.Listen, c.Admin.Listen
	g.AllowedOrigins, g.PublicHosts = c.Gateway.AllowedOrigins, c.Gateway.PublicHosts
	g.Node, g.Version, g.Model = node, version(), model
	l := c.Limits
	g.Limits = gateway.Limits{
		FrameBytes: int(l.FrameBytes), TextBytes: int(l.TextBytes),
		CommandsPerSecond: float64(l.CommandsPerSecond), CommandsBurst: l.CommandsBurst,
		FollowsPerConnection: l.FollowsPerConnection,
		ConnectionsPerUser:   l.ConnectionsPerUser, ConnectionsPerTenant: l.ConnectionsPerTenant,
		ConnectionsBeforeHello:          l.ConnectionsBeforeHello,
		ConnectionsBeforeHelloByAddress: l.ConnectionsBeforeHelloPerAddress,
		ReplayPage:                      l.ReplayPage, ReplayMax: l.ReplayMax,
		QueueFrames: l.QueueFrames, QueueBytes: int(l.QueueBytes), BodyBytes: int(l.BodyBytes), Streams: l.Streams,
	}
	w := c.Gateway
	g.Times.Hello, g.Times.Heartbeat, g.Times.ReadDeadline = w.HelloTimeout, w.Heartbeat, w.ReadDeadline
	g.Times.Write, g.Times.Close, g.Times.Request = w.WriteTimeout, w.CloseTimeout, w.RequestTimeout
	g.Times.WaitMax, g.Times.Comment, g.Times.DrainSpread = w.WaitMax, w.SSEComment, w.DrainSpread
	return g
}
