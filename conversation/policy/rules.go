package policy

import (
	"encoding/json"
	"slices"
	"time"

	"parley/conversation"
)

// Profile is an agent: who a session or a delegation is answered by. The zero value
// may do nothing but talk: it has no tools, not even those of the engine.
type Profile struct {
	Name        conversation.AgentName
	Description string        // shown to the agents that may delegate to it
	Prompt      string        // the system prompt
	Model       string        // a name of the configuration; "" = the default model
	Tools       []string      // names of allowed tools; "*" = all
	MaxSteps    int           // 0 = task.max_steps
	MayAsk      bool          // has askUser
	Delegates   bool          // has delegate, delegateParallel and amend (up to delegation.max_depth)
	Delegable   bool          // may be delegated to
	Acts        bool          // its model acts on the world: it is asked once
	KillTime    time.Duration // how long its model may take to end when it is stopped; 0 = no time
	EngineTools bool          // false: the backend cannot call tools (command-line agents); coverage is "seen"
	Coverage    *Coverage     // nil = the session's policy
	Read        *Read         // nil = the session's policy
	Names       bool          // its model is known to name messages: inbox.read=auto is all
	Program     string        // that answers; agents of one program share its processes. "" = none
	Windows     []Window      // what the models of its route hold, its own first; a model without a limit has none
	MaxRunning  int           // root tasks of the program that admission.on_full=reject lets run at once; 0 = no limit
}

// Rules are given to a machine once: the configuration that its decisions
// depend on. Apply never reads it. All sessions share one, so it must not change
// once the first of them is there; only Late and Always grow.
type Rules struct {
	Policy     Policy
	Agents     map[conversation.AgentName]Profile
	Tools      map[string]ToolRule // those of the start; Tool finds the late ones, too
	Late       *LateTools          // those that joined since; nil = none does
	Judge      *Profile            // of receipts.judge, which step_started calls conversation.Judge; nil = none
	MaxMembers int                 // that a session may have besides its owner; 0 = any number
	Always     *AlwaysKept         // nil = what agents are always shown is made for each request
}

// ToolRule describes a tool to the machine: enough to refuse a bad call before
// it is journaled, and to know what may run again. It never runs the tool.
type ToolRule struct {
	Spec  conversation.ToolSpec
	Check func(args json.RawMessage) error // pure; nil = anything goes
}

// Agent is the profile of an agent. Where a session's agent answers with a model that the
// configuration does not offer any more, it is that of the agent with its own model.
func (r *Rules) Agent(name conversation.AgentName) Profile {
	if p, ok := r.Agents[name]; ok {
		return p
	}
	if name == conversation.Judge && r.Judge != nil {
		return *r.Judge
	}
	return r.Agents[name.Like()]
}

// Allows is true when the profile may use a tool of the tools room.
func (p Profile) Allows(tool string) bool {
	return slices.Contains(p.Tools, "*") || slices.Contains(p.Tools, tool)
}

// ReadOf says how much the steps of an agent read, in a session whose policy says own.
func (r *Rules) ReadOf(agent conversation.AgentName, own Read) Read {
	if p := r.Agent(agent); p.Read != nil {
		return *p.Read
	}
	return own
}

// CoverageOf is the coverage mode of an agent at a depth of delegations, in a session
// whose policy says own.
func (r *Rules) CoverageOf(agent conversation.AgentName, depth int, own Coverage) Coverage {
	p := r.Agent(agent)
	switch {
	case depth > 0 || !p.EngineTools:
		return CoverageSeen
	case p.Coverage != nil:
		return *p.Coverage
	default:
		return own
	}
}
