package assemble

import (
	"cmp"

	"parley/actors"
	"parley/cmd/parley/internal/config"
	"parley/cmd/parley/internal/store"
	"parley/conversation"
	"parley/gateway"
)

func Engine(c *config.Config, node conversation.NodeID, tools []conversation.Tool, def string) actors.Config {
	e := actors.DefaultConfig()
	e.Rules, e.Node = Rules(c, tools, def), node
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

func Gateway(c *config.Config, node conversation.NodeID, version, model string) gateway.Config {
	g := gateway.DefaultConfig()
	g.Listen, g.AdminListen = c.Listen, c.Admin.Listen
	g.AllowedOrigins, g.PublicHosts = c.Gateway.AllowedOrigins, c.Gateway.PublicHosts
	g.Node, g.Version, g.Model = node, version, model
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

func StoreOptions(c *config.Config) store.Options {
	return store.Options{
		MemTableBytes: int64(c.Storage.MemTable), CacheBytes: int64(c.Storage.Cache), Heads: c.Storage.Heads,
		SoftFree: int64(c.Storage.SoftFree), HardFree: int64(c.Storage.HardFree), Ballast: int64(c.Storage.Ballast),
		CheckEvery: c.Storage.CheckEvery,
	}
}

// rules is what every session's machine is given; def is the default model's name.
func Rules(c *config.Config, tools []conversation.Tool, def string) conversation.Rules {
	r := conversation.Rules{
		Policy: c.Policy(),
		Agents: map[conversation.AgentName]conversation.Profile{
			conversation.Outside: {
				Name:        conversation.Outside,
				Description: "Answered by a runtime outside of this server.",
			},
		},
		Tools: map[string]conversation.ToolRule{},
	}
	for _, a := range c.Agents {
		p := a.Profile()
		if b := c.Block(cmp.Or(a.Model, def)); b != nil && b.Provider == config.ProviderCommand {
			p.EngineTools = false // a command-line agent cannot call them
		}
		r.Agents[p.Name] = p
	}
	for _, t := range tools {
		spec := t.Spec()
		r.Tools[spec.Name] = conversation.ToolRule{Spec: spec, Check: t.Check}
	}
	return r
}
