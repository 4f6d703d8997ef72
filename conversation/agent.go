package conversation

import "strings"

// The agents that the engine itself knows of.
const (
	Judge       AgentName = "receipts.judge" // decides which text answers which message; no session has it
	Coordinator AgentName = "coordinator"    // talks to the user; the default of a session
	External    AgentName = "outside"        // no model of ours runs: an external runtime delivers the parts
)

// The engine's own tools. They are decisions, not tools that run: the machine
// executes them.
const (
	ToolRespond          = "respondToUser"
	ToolAsk              = "askUser"
	ToolDelegate         = "delegate"
	ToolDelegateParallel = "delegateParallel"
	ToolAmend            = "amend"
	ToolCover            = "coverMessage"
)

// DelegatePrefix begins the name of a tool that delegates to one agent.
const DelegatePrefix = "delegateTo"

// DelegateAlias is the tool name that delegates to one agent: delegateToResearcher.
func DelegateAlias(agent AgentName) string {
	name := DelegatePrefix
	for _, word := range strings.FieldsFunc(string(agent), func(r rune) bool { return r == '-' || r == '_' || r == ' ' }) {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return name
}

// Outside is true for the agents of sessions that a runtime outside of this server
// answers: "outside", and "outside:NAME" for the runtimes that claim by that name.
func (a AgentName) Outside() bool { return a.Kind() == External }

// Kind is the agent by which the rules know a: External for every outside one.
func (a AgentName) Kind() AgentName {
	if kind, _, named := strings.Cut(string(a), ":"); named && AgentName(kind) == External {
		return External
	}
	return a
}

// On names the agent that is like a, but answers with another model: coordinator@claude.
func (a AgentName) On(model string) AgentName { return a + AgentName("@"+model) }

// Like is the agent that a is like, apart from its model: itself, if it is nobody's like.
func (a AgentName) Like() AgentName {
	name, _, _ := strings.Cut(string(a), "@")
	return AgentName(name)
}

// Named is false for a name of an outside agent that cannot be one: at most 64
// letters, digits, dots, dashes and underscores.
func (a AgentName) Named() bool {
	_, name, named := strings.Cut(string(a), ":")
	if !named || !a.Outside() {
		return true
	}
	for _, c := range name {
		if !strings.ContainsRune(".-_", c) && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return name != "" && len(name) <= 64
}
