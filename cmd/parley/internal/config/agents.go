package config

import (
	"cmp"
	"embed"
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/policy"
)

//go:embed prompts/*.md
var prompts embed.FS

// builtinAgents are the agents of a configuration that names none. "outside"
// is not among them: no setting of it could be changed.
func builtinAgents() []Agent {
	return []Agent{
		{
			Name: "coordinator", Description: "Talks to the user, answers, and hands work to the other agents.",
			Prompt: prompt("coordinator"), Models: []string{}, Tools: []string{"*"}, MayAsk: true, Delegates: true,
		},
		{
			Name: "developer", Description: "Writes, changes and repairs software.",
			Prompt: prompt("developer"), Models: []string{}, Tools: []string{"*"}, MayAsk: true, Delegates: true, Delegable: true,
		},
		{
			Name: "researcher", Description: "Finds things out and reports what is known and how surely.",
			Prompt: prompt("researcher"), Models: []string{}, Tools: []string{"*"}, MayAsk: true, Delegates: true, Delegable: true,
		},
		{
			Name: "communicator", Description: "Writes and delivers messages and reports to other people.",
			Prompt: prompt("communicator"), Models: []string{}, Tools: []string{"*"}, MayAsk: true, Delegates: true, Delegable: true,
		},
	}
}

// prompt is the built-in prompt of an agent. The files are part of the program.
func prompt(agent string) string {
	text, err := prompts.ReadFile("prompts/" + agent + ".md")
	if err != nil {
		panic(err) // a name above without its file: every test fails
	}
	return strings.TrimSpace(string(text))
}

// All are the agents, each followed by those that are like it on its other models.
func (c *Config) All() []Agent {
	var all []Agent
	for _, a := range c.Agents {
		all = append(all, a.all()...)
	}
	return all
}

// all are the agent and those that are like it.
func (a Agent) all() []Agent {
	all := []Agent{a}
	for _, model := range a.Models {
		like := a
		like.Name, like.Model, like.Models = string(conversation.AgentName(a.Name).On(model)), model, nil
		like.Delegable = false // its work is given to the agent itself
		all = append(all, like)
	}
	return all
}

// Like is the name of the agent that this one is like, on another model; "" = it is one of its own.
func (a Agent) Like() string {
	if like := string(conversation.AgentName(a.Name).Like()); like != a.Name {
		return like
	}
	return ""
}

// HasBuiltinPrompt reports whether the agent's prompt is the built-in one.
func (a Agent) HasBuiltinPrompt() bool {
	return slices.ContainsFunc(builtinAgents(), func(b Agent) bool { return b.Name == cmp.Or(a.Like(), a.Name) && b.Prompt == a.Prompt })
}

// Profile is the agent as the machine knows it.
func (a Agent) Profile() policy.Profile {
	p := policy.Profile{
		Name: conversation.AgentName(a.Name), Description: a.Description, Prompt: a.Prompt, Model: a.Model,
		Tools: a.Tools, MaxSteps: a.MaxSteps, MayAsk: a.MayAsk, Delegates: a.Delegates, Delegable: a.Delegable,
		EngineTools: true,
	}
	if a.Coverage != "" {
		c := new(policy.Coverage)
		_ = c.UnmarshalText([]byte(a.Coverage)) // the loader has checked it
		p.Coverage = c
	}
	if a.Read != "" {
		r := new(policy.Read)
		_ = r.UnmarshalText([]byte(a.Read))
		p.Read = r
	}
	return p
}
