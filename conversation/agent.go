package conversation

import "strings"

// The agents that the engine itself knows of.
const (
	Coordinator AgentName = "coordinator" // talks to the user; the default of a session
	External    AgentName = "outside"     // no model of ours runs: an external runtime delivers the parts
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
// answers: "outside", and "outside:NAME" for the runtimes of that name.
func (a AgentName) Outside() bool {
	return a == External || strings.HasPrefix(string(a), string(External)+":")
}
