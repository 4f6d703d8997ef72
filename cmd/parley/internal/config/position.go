package config

import (
	"fmt"

	"github.com/pelletier/go-toml/v2/unstable"
)

// positions finds the line of every key of a document that is known to be
// well-formed; array tables count from 0: "agents.0.name".
func positions(path string, data []byte) map[string]problem {
	at := map[string]problem{}
	counts := map[string]int{}
	var p unstable.Parser
	p.Reset(data)
	table := ""
	note := func(prefix string, keys unstable.Iterator) string {
		key := prefix
		for keys.Next() {
			n := keys.Node()
			if key != "" {
				key += "."
			}
			key += string(n.Data)
			line := p.Shape(n.Raw).Start.Line
			if _, ok := at[key]; !ok {
				at[key] = problem{where: fmt.Sprintf("%s:%d", path, line), line: line}
			}
		}
		return key
	}
	var inline func(prefix string, value *unstable.Node)
	inline = func(prefix string, value *unstable.Node) {
		if value.Kind != unstable.InlineTable {
			return
		}
		for it := value.Children(); it.Next(); {
			kv := it.Node()
			inline(note(prefix, kv.Key()), kv.Value())
		}
	}
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table:
			table = note("", e.Key())
		case unstable.ArrayTable:
			name := note("", e.Key())
			table = fmt.Sprintf("%s.%d", name, counts[name])
			counts[name]++
			for keys := e.Key(); keys.Next(); {
				line := p.Shape(keys.Node().Raw).Start.Line
				at[table] = problem{where: fmt.Sprintf("%s:%d", path, line), line: line}
			}
		case unstable.KeyValue:
			inline(note(table, e.Key()), e.Value())
		}
	}
	return at
}
