package assemble

import (
	"path/filepath"

	"parley/actors"
	"parley/cmd/parley/internal/config"
	"parley/conversation"
	"parley/gateway"
	"parley/gateway/listener"
)

// Engine makes the engine's configuration; def is the default model's name.
func Engine(c *config.Config, node conversation.NodeID, tools []conversation.Tool, def string) actors.Config {
	e := c.Engine
	e.Rules, e.Node = config.Rules(c, tools, def), node
	e.ToolDeadline = c.Policy().ToolTimeout
	return e
}

// Gateway makes the gateway's configuration; model is the default model's label.
func Gateway(c *config.Config, node conversation.NodeID, version, model string) gateway.Config {
	g := c.Gateway
	g.Node, g.Version, g.Model = node, version, model
	if g.TLS.ACME() {
		g.TLS.ACMECache = filepath.Join(c.Data, listener.CacheName)
	}
	return g
}
