package assemble

import (
	"fmt"
	"sync"

	"parley/conversation"
	"parley/conversation/policy"
	"parley/conversation/transcript"
)

// LateTools are the tools that join a run after its start. The zero value is ready.
type LateTools struct {
	mu    sync.RWMutex
	tools map[string]conversation.Tool
	rules *policy.Rules // to judge tools by; nil until Attach
}

// Attach lets the rules of a run have the tools that join.
func (l *LateTools) Attach(r *policy.Rules) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Late = &policy.LateTools{}
	l.rules = r
	l.show(r.Late)
}

// Join adds tools, all or none: an error says why they may not join.
func (l *LateTools) Join(tools []conversation.Tool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tools == nil {
		l.tools = map[string]conversation.Tool{}
	}
	for _, t := range tools { // servers of one node and of all do not know each other's
		if l.tools[t.Spec().Name] != nil {
			return fmt.Errorf("the name %s is taken by another server", t.Spec().Name)
		}
	}
	for _, t := range tools {
		l.tools[t.Spec().Name] = t
	}
	if l.rules == nil {
		return nil // Attach shows them, and the engine looks at the room that they take
	}
	with := *l.rules
	with.Late, with.Always = &policy.LateTools{}, nil
	l.show(with.Late)
	if err := transcript.CheckContext(&with); err != nil {
		for _, t := range tools {
			delete(l.tools, t.Spec().Name)
		}
		return err
	}
	l.show(l.rules.Late)
	return nil
}

// show lets sessions see the tools; what they have seen stays as it is.
func (l *LateTools) show(to *policy.LateTools) {
	var rules []policy.ToolRule
	for _, t := range l.tools {
		rules = append(rules, policy.ToolRule{Spec: t.Spec(), Check: t.Check})
	}
	to.Join(rules...)
}

// Find is the tool of that name which has joined.
func (l *LateTools) Find(name string) (conversation.Tool, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	t, ok := l.tools[name]
	return t, ok
}
