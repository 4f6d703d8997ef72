package config

import (
	"cmp"

	"parley/conversation"
	"parley/conversation/policy"
	"parley/conversation/transcript"
)

// route are the blocks of a model and of its fallbacks.
func route(c *Config, name string) []*ModelBlock {
	b := c.Block(name)
	if b == nil {
		return nil
	}
	blocks := []*ModelBlock{b}
	for _, other := range b.Fallback {
		if fb := c.Block(other); fb != nil {
			blocks = append(blocks, fb)
		}
	}
	return blocks
}

// Rules makes the rules of every session's machine; def is the default model's name.
func Rules(c *Config, tools []conversation.Tool, def string) policy.Rules {
	r := policy.Rules{
		Policy: *c.Policy(),
		Agents: map[conversation.AgentName]policy.Profile{
			conversation.External: {
				Name:        conversation.External,
				Description: "Answered by a runtime outside of this server.",
			},
		},
		Tools: map[string]policy.ToolRule{},

		MaxMembers: c.Gateway.Limits.MembersPerSession,
	}
	for _, a := range c.All() {
		p := a.Profile()
		b := c.Block(cmp.Or(a.Model, def))
		p.Names = cmp.Or(a.Model, def) == ScriptedName || b != nil && b.Provider == ProviderScripted
		if b != nil && b.Provider == ProviderCommand {
			p.EngineTools = false // a command-line agent cannot call them
			if a.HasBuiltinPrompt() {
				p.Prompt = "" // it speaks of those tools
			}
			p.Program, p.MaxRunning = cmp.Or(a.Model, def), b.Bounds.MaxConcurrent
		}
		for i, b := range route(c, cmp.Or(a.Model, def)) {
			if w := b.Holds(); w.Context > 0 {
				w.Own = i == 0
				p.Windows = append(p.Windows, w)
			}
			p.Acts, p.KillTime = p.Acts || b.Acts, max(p.KillTime, b.KillTime())
		}
		r.Agents[p.Name] = p
	}
	if c.Engine.JudgeModel != "" {
		r.Judge = &policy.Profile{Name: conversation.Judge, Prompt: transcript.JudgePrompt, Model: c.Engine.JudgeModel}
	}
	r.Policy.Channels = c.modes(r.Agents[conversation.Coordinator])
	for _, t := range tools {
		spec := t.Spec()
		r.Tools[spec.Name] = policy.ToolRule{Spec: spec, Check: t.Check}
	}
	return r
}
