package policy

import (
	"sync"

	"parley/conversation"
	"parley/conversation/tokens"
)

// Always is what each request of an agent shows beside the conversation: its prompt,
// which the profile has, and its tools.
type Always struct {
	Tools  []conversation.ToolSpec
	Tokens int // of both
}

// AlwaysKept keeps that for all sessions: it is made and counted once for each agent, and
// again after a tool has joined. The zero value holds nothing. Safe for any goroutine.
type AlwaysKept struct {
	mu sync.RWMutex
	of map[alwaysKey]alwaysAt
}

type alwaysKey struct {
	agent conversation.AgentName
	depth int // of delegations: a deep one has fewer tools
}

type alwaysAt struct {
	Always
	tools int // that there were then
}

// AlwaysOf is what an agent is always shown at a depth of delegations, from Rules.Always if
// it has been made. list makes its tools.
func (r *Rules) AlwaysOf(agent conversation.AgentName, depth int, list func(r *Rules, p Profile, depth int) []conversation.ToolSpec) Always {
	key, now := alwaysKey{agent, min(depth, max(r.Policy.MaxDepth, 1))}, r.ToolCount()
	if r.Always != nil {
		r.Always.mu.RLock()
		kept, made := r.Always.of[key]
		r.Always.mu.RUnlock()
		if made && kept.tools == now {
			return kept.Always
		}
	}
	p := r.Agent(agent)
	a := Always{Tools: list(r, p, depth)}
	a.Tokens = tokens.Of(p.Prompt) + conversation.ToolTokens(a.Tools)
	if r.Always != nil {
		r.Always.mu.Lock()
		defer r.Always.mu.Unlock()
		if r.Always.of == nil {
			r.Always.of = map[alwaysKey]alwaysAt{}
		}
		r.Always.of[key] = alwaysAt{a, now}
	}
	return a
}
