package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"parley/actors"
	"parley/cmd/parley/internal/assemble"
	"parley/cmd/parley/internal/build"
	"parley/cmd/parley/internal/channels"
	"parley/cmd/parley/internal/config"
	"parley/cmd/parley/internal/logs"
	"parley/cmd/parley/internal/store"
	"parley/cmd/parley/internal/supervise"
	"parley/conversation"
	"parley/gateway"
	"parley/gateway/audit"
	"parley/gateway/feed"
	"parley/gateway/list"
	"parley/gateway/service"
	"parley/gateway/web"
	"parley/metrics"
	"parley/tools/builtin"
)

// closing is the time that the end may take beyond drain.timeout: parking steps,
// saying goodbye to clients, closing the store.
const closing = 15 * time.Second

// letGo is what a service manager should wait longer than that: for the store, which
// erases what it has begun to, and closes.
const letGo = 15 * time.Second

// serve joins the rooms, runs until ctx ends, and drains: readiness off and
// a goodbye to clients, then the engine, then the sockets, then (by Close) the store.
func (m *Main) serve(ctx context.Context) error {
	c := &m.Config
	gatherer := metrics.NewRegistry()
	registry := assemble.Measured(c, config.LookupIn(m.Environ), gatherer)
	program := build.This()
	metrics.Build(registry, program.Version, program.Revision)
	lines := logs.New(newLogger(m.Stderr, c.Log).Handler(), c.Log.Repeat, metrics.NewLog(registry))
	defer lines.Flush()
	log := slog.New(lines)
	for _, risk := range c.Risks() {
		log.Warn("risky configuration", "code", risk.Code, "risk", risk.Text)
	}
	node := conversation.NodeID(c.NodeName())
	look := config.LookupIn(m.Environ)

	defer setProcs(c.Process.Procs)()
	defer recordContention(c.Process.Contention)()
	defer keepHeapFloor(uint64(c.Process.HeapFloor))()
	fatal := make(chan error, 1)
	options := c.Store
	options.Logger = log.With("room", "persistence")
	options.OnFatal = func(err error) { // nothing can be made durable any more: end, and start again from what is
		log.Error("the store failed; ending", "error", err)
		os.Exit(exitFailed)
	}
	open := func() (store.Store, error) {
		if c.Shared.Postgres != "" {
			return m.openShared(ctx, look, options.Logger, metrics.NewPersistence(registry))
		}
		dir := c.Data
		if c.Ephemeral() {
			dir = ""
		}
		options.Metrics = metrics.NewPersistence(registry)
		return store.Open(dir, options)
	}
	supervise.Tell(log, supervise.Status("opening "+m.dataName()))
	var last lastMoment
	m.closers = append(m.closers, last.forget) // the last one that is closed
	db, err := m.openStore(ctx, open)
	if db == nil || err != nil {
		return err
	}
	m.closers = append(m.closers, db.Close)
	others, err := m.join(ctx, db, log.With("room", "cluster"), func() *metrics.Cluster { return metrics.NewCluster(registry) })
	if err != nil {
		return err
	}
	defer others.leave(ctx)

	models, err := assemble.OpenModels(c, look, log.With("room", "models"), m.wrap)
	m.closers = append(m.closers, models.Close)
	if err != nil {
		return err
	}
	models.Watch(registry)
	def, _ := c.DefaultModel(look)
	tools := builtin.New(builtin.Options{Log: db})
	var late assemble.LateTools
	servers, err := assemble.OpenMCP(ctx, c, others == nil, tools, late.Join, look, log.With("room", "tools"))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // ctx ended before it had begun
	case err != nil:
		return config.NewError("mcp", err)
	}
	if servers != nil {
		m.closers = append(m.closers, func() error { servers.Close(); return nil })
		tools = append(tools, servers.Tools()...)
	}
	everybodys, err := others.tools(ctx, c, tools, late.Join, look, log.With("room", "tools"))
	if err != nil {
		return config.NewError("mcp", err)
	}
	defer everybodys.Close()
	assemble.WatchMCP(registry, servers, everybodys)
	byName := map[string]conversation.Tool{}
	for _, t := range tools {
		byName[t.Spec().Name] = t
	}
	for _, a := range c.Agents {
		for _, t := range a.Tools {
			if byName[t] == nil && t != "*" && everybodys == nil { // those may come at any time
				log.Warn("an agent is allowed a tool that no server has brought", "agent", a.Name, "tool", t)
			}
		}
	}
	gatewayMetrics := metrics.NewGateway(registry)
	hub := gateway.NewHub(gatewayMetrics)
	engineOptions := assemble.Engine(c, node, tools, def)
	late.Attach(&engineOptions.Rules)
	lists := list.New(db, metrics.NewLists(registry), log.With("room", "gateway"))
	parts := actors.Deps{
		Store: list.Store(db, others.lists(lists)), Publisher: hub, Models: models.Routes,
		Tools: byName, Late: late.Find, Logger: log.With("room", "actors"), Metrics: metrics.NewActors(registry),
		Health: db.Health, Quota: func(t conversation.TenantID) error { return store.Quota(db, t) },
	}
	files := assemble.Files(c, store.Blobs(db), &parts, metrics.NewAttachments(registry), log.With("room", "gateway"))
	others.of(&engineOptions, &parts, hub)
	if parts.Tracer, err = m.openTracing(ctx, look, node, metrics.NewTraces(registry), log.With("room", "tracing")); err != nil {
		return err
	}
	engine, err := actors.New(engineOptions, parts)
	if err != nil {
		return err
	}
	sessions := others.sessions(engine)
	feeds := feed.New(db.Chats(), c.Feeds, metrics.NewFeeds(registry), log.With("room", "gateway"))
	defer feeds.Close()
	platforms, err := channels.Open(c, others.runner(), look, log.With("room", "channels"))
	if err != nil {
		return err
	}
	if err := platforms.Join(sessions, hub, feeds.Store(), func() *metrics.Chats { return metrics.NewChats(registry) }, log.With("room", "channels")); err != nil {
		return err
	}
	if err := platforms.Send(c, feeds, look, func() *metrics.Webhooks { return metrics.NewWebhooks(registry) }, log.With("room", "channels")); err != nil {
		return err
	}
	pushes, err := platforms.Pushes(c, feeds.Store(), store.Secret(db), func() *metrics.Pushes { return metrics.NewPushes(registry) }, log.With("room", "gateway"))
	if err != nil {
		return err
	}
	auditLog := m.audit()
	in, err := m.openSignIn(look, log.With("room", "auth"), auditLog)
	if err != nil {
		return err
	}
	var requests *service.RequestLog
	if c.Log.Requests {
		requests = &service.RequestLog{Log: log.With("room", "gateway")}
	}
	server, err := gateway.New(assemble.Gateway(c, node, version(), models.Label), gateway.Deps{
		Sessions: sessions, Hub: hub, Inlets: platforms.Inlets, Feeds: feeds, Pushes: pushes, Files: files, Lists: lists, Page: web.Files, Searches: metrics.NewSearch(registry), Index: store.Index(db),
		Logger: log.With("room", "gateway"), Requests: requests, Metrics: gatewayMetrics, Gatherer: gatherer, Backup: backupOf(db), Audit: auditLog, Authenticator: in.Authenticator, Members: others.members(), Tickets: ticketsOf(db), Secret: store.Secret(db),
		CommandLine: config.ShownArgs(m.args),
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
	in.follow(running)
	engineEnded := make(chan struct{})
	go func() { // ends with running
		defer close(engineEnded)
		if err := engine.Run(running); err != nil {
			report(fatal, fmt.Errorf("engine: %w", err))
		}
	}()
	othersEnded := make(chan struct{})
	go func() { // ends with running
		defer close(othersEnded)
		others.run(running, log)
	}()
	// The address takes connections already. Serving begins when the engine is
	// there, or the first client would hear that the server is going away.
	select {
	case <-engine.Started():
	case <-engineEnded:
	}
	platforms.Run(running)
	gatewayEnded := make(chan struct{})
	go func() { // ends with the drain, or when it fails
		defer close(gatewayEnded)
		if err := server.Run(running); err != nil {
			report(fatal, fmt.Errorf("gateway: %w", err))
		}
	}()

	m.addr = addr.String()
	notice := assemble.Notice(c, def, models.Routes[""])
	m.announce(db.LogID(), server.AdminAddr(), notice)
	close(m.listening)
	supervise.Tell(log, supervise.Serving, supervise.Status("serves at "+m.addr+"; model: "+notice))
	go supervise.Watch(running, log, alive(c.Gateway, addr, server.AdminAddr())) // ends with running
	log.Info("parley serves", "address", m.addr, "data", m.dataName(), "model", notice, "version", version(), "config", m.configPath)

	stopBackups, backupsEnded := m.keepBackups(running, db, metrics.NewBackups(registry), log.With("room", "backups"))
	defer stopBackups()

	select {
	case <-ctx.Done():
		log.Info("stopping", "drain_timeout", c.Engine.DrainTimeout.String())
	case err = <-fatal:
	}
	supervise.Tell(log, supervise.Stopping, supervise.Status("drains"), supervise.Within(c.Engine.DrainTimeout+closing+letGo))
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Engine.DrainTimeout+closing)
	defer cancel()
	server.Announce()
	stopBackups()
	parting := end
	if others != nil { // a database may not answer at all
		last.set(c.Engine.DrainTimeout+longest, log)
		parting, cancel = context.WithTimeout(end, c.Engine.DrainTimeout+parkTime)
		defer cancel()
	}
	if drain := others.drain(parting); drain != nil {
		err = errors.Join(err, fmt.Errorf("hand-over: %w", drain))
	}
	if drain := engine.Drain(parting); drain != nil {
		err = errors.Join(err, fmt.Errorf("drain: %w", drain))
	}
	platforms.End() // what the drain has let end is shown, as far as the platforms take it at once
	parted := make(chan struct{})
	go func() { // no call needs a server of tools any more: they end while clients do
		defer close(parted)
		if servers != nil {
			servers.Close()
		}
	}()
	err = errors.Join(err, server.Drain(end))
	<-parted
	halt()
	<-engineEnded
	<-gatewayEnded
	<-othersEnded
	<-backupsEnded
	log.Info("stopped")
	supervise.Tell(log, supervise.Status("closes the store"))
	return err
}

// openStore opens the store, which takes long where a long log is replayed on a slow
// disk, and does not wait for it when ctx ends: nil and no error. What Open has done
// until then is what a process that is killed leaves behind, and no harm.
func (m *Main) openStore(ctx context.Context, open func() (store.Store, error)) (store.Store, error) {
	type result struct {
		db  store.Store
		err error
	}
	opened, given := make(chan result), make(chan struct{})
	go func() { // ends with Open, or with the process
		db, err := open()
		select {
		case opened <- result{db, err}:
		case <-given:
			if err == nil {
				_ = db.Close()
			}
		}
	}()
	select {
	case r := <-opened:
		return r.db, r.err
	case <-ctx.Done():
		close(given)
		fmt.Fprintf(m.Stderr, "parley: stopped while the store in %s was being opened; nothing is lost, the next start goes on\n", m.dataName())
		return nil, nil
	}
}

// backupOf lets the gateway copy a store that it does not know.
func backupOf(db store.Store) gateway.Backup {
	return func(ctx context.Context, dest string) (gateway.BackupMade, error) {
		began := time.Now()
		info, err := db.Backup(ctx, dest, version())
		if err != nil {
			return gateway.BackupMade{}, store.RefusalOf(err)
		}
		return gateway.BackupMade{
			Dest: dest, Log: info.Log, Layout: info.Layout, Sessions: info.Counts.Sessions, Records: info.Counts.Records,
			Bytes: info.Bytes, Seconds: time.Since(began).Seconds(),
		}, nil
	}
}

// audit keeps what administrators do beside the store; nil = in memory, as the store.
func (m *Main) audit() gateway.Audit {
	if m.Config.Ephemeral() {
		return nil
	}
	return audit.Open(m.Config.Data, m.Config.Audit)
}

func report(to chan<- error, err error) {
	select {
	case to <- err:
	default: // the first one ends the process; the others follow from it
	}
}

func (m *Main) dataName() string {
	if m.Config.Ephemeral() {
		return "in memory only (memory.mode is ephemeral)"
	}
	if m.Config.Shared.Postgres != "" {
		return "PostgreSQL (store.postgres)"
	}
	return m.Config.Data
}

// announce tells the person at the terminal where to go.
func (m *Main) announce(log conversation.LogID, admin net.Addr, model string) {
	scheme := "http"
	if m.Config.Gateway.TLS.On() {
		scheme = "https"
	}
	fmt.Fprintf(m.Stdout, "parley %s listens on %s://%s\n  data   %s (log %s)\n  model  %s\n",
		version(), scheme, m.addr, m.dataName(), log, model)
	if admin != nil {
		fmt.Fprintf(m.Stdout, "  admin  http://%s/metrics\n", admin)
	}
}
