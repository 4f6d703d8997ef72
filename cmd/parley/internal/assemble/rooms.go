package assemble

import (
	"path/filepath"

	"parley/actors"
	"parley/cmd/parley/internal/config"
	"parley/conversation"
	"parley/gateway"
	"parley/gateway/listener"
	"parley/gateway/protocol"
)

// Engine makes the engine's configuration; def is the default model's name.
func Engine(c *config.Config, node conversation.NodeID, tools []conversation.Tool, def string) actors.Config {
	e := c.Engine
	e.Rules, e.Node = config.Rules(c, tools, def), node
	e.ToolDeadline = c.Policy().ToolTimeout
	return e
}

// Gateway makes the gateway's configuration; label gives a model's by its name, "" is the
// default model.
func Gateway(c *config.Config, node conversation.NodeID, version string, label func(model string) string) gateway.Config {
	g := c.Gateway
	g.Node, g.Version, g.Model, g.Offer = node, version, label(""), offer(c, label)
	if g.TLS.ACME() {
		g.TLS.ACMECache = filepath.Join(c.Data, listener.CacheName)
	}
	return g
}

// offer is what clients may choose from.
func offer(c *config.Config, label func(model string) string) protocol.Offer {
	o := protocol.Offer{Starters: c.Gateway.Starters}
	for _, a := range c.All() {
		o.Agents = append(o.Agents, protocol.OfferedAgent{Name: a.Name, Description: a.Description, Model: label(a.Model), Like: a.Like()})
	}
	for m := conversation.ModeSteer; m <= conversation.ModeReject; m++ {
		if c.Policy().CheckMode(m) == nil {
			o.Modes = append(o.Modes, m.String())
		}
	}
	return o
}
