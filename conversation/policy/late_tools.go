package policy

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
)

// LateTools are the tools that came after the start, because their server came late or
// has new ones. They only grow: what is there stays as it is for this run, so whatever
// was approved keeps its meaning. The zero value holds none; nil does so for ever.
// Safe for any goroutine.
type LateTools struct {
	mu    sync.RWMutex
	rules map[string]ToolRule
}

// Join adds tools. One whose name is there already is left out.
func (l *LateTools) Join(rules ...ToolRule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := maps.Clone(l.rules)
	if all == nil {
		all = map[string]ToolRule{}
	}
	for _, rule := range rules {
		if _, there := all[rule.Spec.Name]; !there {
			all[rule.Spec.Name] = rule
		}
	}
	l.rules = all
}

// now is a map that does not change any more.
func (l *LateTools) now() map[string]ToolRule {
	if l == nil {
		return nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.rules
}

// Tool is the rule of a tool that there is now.
func (r *Rules) Tool(name string) (ToolRule, bool) {
	rule, ok := r.Tools[name]
	if !ok {
		rule, ok = r.Late.now()[name]
	}
	return rule, ok
}

// CheckOf is the check of a tool's arguments; nil = none.
func (r *Rules) CheckOf(name string) func(json.RawMessage) error {
	rule, _ := r.Tool(name)
	return rule.Check
}

// ToolNames are the names of the tools that there are now, in order.
func (r *Rules) ToolNames() []string {
	names := slices.Collect(maps.Keys(r.Tools))
	for name := range r.Late.now() {
		if _, there := r.Tools[name]; !there {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ToolCount tells whether a tool has joined since it was asked last.
func (r *Rules) ToolCount() int { return len(r.Tools) + len(r.Late.now()) }
