package config

import (
	"embed"
	"strings"

	"parley/conversation"
)

//go:embed prompts/*.md
var prompts embed.FS

// builtinAgents are the agents of a configuration that names none. "outside"
// is not among them: no setting of it could be changed.
func builtinAgents() []Agent {
	return []Agent{
		{
			Name: "coordinator", Description: "Talks to the user, answers, and hands work to the other agents.",
			Prompt: prompt("coordinator"), Tools: []string{"*"}, MayAsk: true, Delegates: true,
		},
		{
			Name: "developer", Description: "Writes, changes and repairs software.",
			Prompt: prompt("developer"), Tools: []string{"*"}, MayAsk: true, Delegates: true, Delegable: true,
		},
		{
			Name: "researcher", Description: "Finds things out and reports what is known and how surely.",
			Prompt: prompt("researcher"), Tools: []string{"*"}, MayAsk: true, Delegates: true, Delegable: true,
		},
		{
			Name: "communicator", Description: "Writes and delivers messages and reports to other people.",
			Prompt: prompt("communicator"), Tools: []string{"*"}, MayAsk: true, Delegates: true, Delegable: true,
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

// Policy is the configuration as the machine knows it.
func (c Config) Policy() conversation.Policy {
	mode, _ := conversation.ParseMode(c.Inbox.Mode)
	return conversation.Policy{
		Mode:          mode,
		CollectWindow: c.Inbox.CollectWindow,
		MaxQueued:     c.Inbox.MaxQueued,
		TriageAgent:   conversation.AgentName(c.Inbox.TriageAgent),
		Coverage:      coverageOf(c.Coverage.Mode),
		MaxNudges:     c.Coverage.MaxNudges,
		MaxSteps:      c.Task.MaxSteps,
		ReplyOnBusy:   named(c.Reply.OnBusy, conversation.ReplyConflict, conversation.ReplyQueue),
		EmptyAnswer:   named(c.EmptyAnswer, conversation.EmptyApologise, conversation.EmptySilent, conversation.EmptyRetry),
		Sentinels:     c.NoReply.Sentinels,
		Fallback:      c.NoReply.Fallback,
		PartsEnabled:  c.Parts.Enabled,
		MaxAttempts:   c.Retry.MaxAttempts,
		MaxInterrupts: c.Retry.MaxInterrupted,
		BackoffMin:    c.Retry.BackoffMin,
		BackoffMax:    c.Retry.BackoffMax,
		CancelGrace:   c.Cancel.Grace,
		ToolTimeout:   c.Tools.Timeout,
		DelegateTime:  c.Delegation.Timeout,
		MaxDepth:      c.Delegation.MaxDepth,
		MaxParallel:   c.Delegation.MaxParallel,
		MaxWait:       c.Admission.MaxWait,
		Context: conversation.Context{
			Budget: c.Context.Budget, Threshold: c.Context.Threshold, Keep: c.Context.Keep,
			Summary: c.Context.Summary, ToolResult: int(c.Context.ToolResult),
		},
		Texts: conversation.Texts{
			Busy: c.Texts.Busy, Overloaded: c.Texts.Overloaded, Empty: c.Texts.Empty,
			Failed: c.Texts.Failed, Limit: c.Texts.Limit,
		},
	}
}

// Profile is the agent as the machine knows it.
func (a Agent) Profile() conversation.Profile {
	p := conversation.Profile{
		Name: conversation.AgentName(a.Name), Description: a.Description, Prompt: a.Prompt, Model: a.Model,
		Tools: a.Tools, MaxSteps: a.MaxSteps, MayAsk: a.MayAsk, Delegates: a.Delegates, Delegable: a.Delegable,
		EngineTools: true,
	}
	if a.Coverage != "" {
		c := coverageOf(a.Coverage)
		p.Coverage = &c
	}
	return p
}

func coverageOf(s string) conversation.Coverage {
	return named(s, conversation.CoverageStrict, conversation.CoverageSeen, conversation.CoverageOff)
}

// named is the value whose name is s; the loader has checked that there is one.
func named[T interface{ String() string }](s string, values ...T) T {
	for _, v := range values {
		if v.String() == s {
			return v
		}
	}
	return values[0]
}
