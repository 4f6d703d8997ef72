package assemble

import (
	"cmp"

	"parley/actors"
	"parley/cmd/parley/internal/config"
	"parley/conversation"
	"parley/conversation/policy"
	"parley/gateway"
)

// Engine makes the engine's configuration; def is the default model's name.
func Engine(c *config.Config, node conversation.NodeID, tools []conversation.Tool, def string) actors.Config {
	e := c.Engine
	e.Rules, e.Node = Rules(c, tools, def), node
	e.ToolDeadline = c.Policy().ToolTimeout
	return e
}

// Gateway makes the gateway's configuration; model is the default model's label.
func Gateway(c *config.Config, node conversation.NodeID, version, model string) gateway.Config {
	g := c.Gateway
	g.Node, g.Version, g.Model = node, version, model
	return g
}

// route are the blocks of a model and of its fallbacks.
func route(c *config.Config, name string) []*config.ModelBlock {
	b := c.Block(name)
	if b == nil {
		return nil
	}
	blocks := []*config.ModelBlock{b}
	for _, other := range b.Fallback {
		if fb := c.Block(other); fb != nil {
			blocks = append(blocks, fb)
		}
	}
	return blocks
}

// Rules makes the rules of every session's machine; def is the default model's name.
func Rules(c *config.Config, tools []conversation.Tool, def string) policy.Rules {
	r := policy.Rules{
		Policy: *c.Policy(),
		Agents: map[conversation.AgentName]policy.Profile{
			conversation.External: {
				Name:        conversation.External,
				Description: "Answered by a runtime outside of this server.",
			},
		},
		Tools: map[string]policy.ToolRule{},
	}
	r.Policy.Channels = map[conversation.Via]conversation.Mode{
		conversation.ViaWebSocket: c.Channels.WebSocket, conversation.ViaHTTP: c.Channels.HTTP,
	}
	for _, a := range c.Agents {
		p := a.Profile()
		if b := c.Block(cmp.Or(a.Model, def)); b != nil && b.Provider == config.ProviderCommand {
			p.EngineTools = false // a command-line agent cannot call them
			if a.HasBuiltinPrompt() {
				p.Prompt = "" // it speaks of those tools
			}
			p.Program, p.MaxRunning = cmp.Or(a.Model, def), b.Bounds.MaxConcurrent
		}
		for _, b := range route(c, cmp.Or(a.Model, def)) {
			p.Acts, p.KillTime = p.Acts || b.Acts, max(p.KillTime, b.KillTime())
		}
		r.Agents[p.Name] = p
	}
	for _, t := range tools {
		spec := t.Spec()
		r.Tools[spec.Name] = policy.ToolRule{Spec: spec, Check: t.Check}
	}
	return r
}
