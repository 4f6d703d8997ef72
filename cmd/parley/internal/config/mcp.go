package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"parley/tools/mcp"
	"parley/tools/mcp/secret"
)

// MCPBlock is an [[mcp]] block: a server whose tools agents may use, and the
// texts that its secrets are made of.
type MCPBlock struct {
	mcp.Server // without Env and Headers

	Env     map[string]string `key:"env"`
	Headers map[string]string `key:"headers"`
}

// mcpBlock is a block that says nothing but its name.
func mcpBlock(name string) MCPBlock {
	b := MCPBlock{Server: mcp.DefaultServer(name)}
	for _, list := range []*[]string{&b.Args, &b.Ask, &b.Never, &b.Idempotent} {
		*list = []string{} // as they are read back
	}
	return b
}

// mcp reads the [[mcp]] blocks.
func (l *loader) mcp(at map[string]problem, value any) {
	blocks, ok := value.([]any)
	if !ok {
		l.complain(at["mcp"], "mcp: write each server as a block that starts with [[mcp]]")
		return
	}
	fields := map[string]field{}
	for _, f := range fieldsOf(reflect.TypeFor[MCPBlock]()) {
		fields[f.key] = f
	}
	for i, b := range blocks {
		prefix := fmt.Sprintf("mcp.%d", i)
		table, ok := b.(map[string]any)
		if !ok {
			l.complain(at["mcp"], "mcp: write each server as a block that starts with [[mcp]]")
			return
		}
		name, _ := table["name"].(string)
		block := mcpBlock(name)
		l.block(at, prefix, fmt.Sprintf("mcp %q", name), fields, table, reflect.ValueOf(&block).Elem())
		where := at[prefix]
		for _, m := range []map[string]string{block.Env, block.Headers} {
			for k, v := range m {
				m[k] = filesBeside(where, v)
			}
			l.references(slices.Collect(maps.Values(m))...)
		}
		block.URL = filesBeside(where, block.URL)
		l.references(block.URL)
		l.config.MCP = append(l.config.MCP, block)
	}
}

func (l *loader) mcpList(c *Config) {
	seen := map[string]bool{}
	for i := range c.MCP {
		b := &c.MCP[i]
		prefix := fmt.Sprintf("mcp.%d", i)
		say := func(key, format string, args ...any) {
			if !l.broken[prefix+"."+key] {
				l.complain(l.at(prefix, key), "mcp %q: "+format, append([]any{b.Name}, args...)...)
			}
		}
		if b.Name != "" && seen[b.Name] {
			say("name", "there are two servers of this name")
		}
		seen[b.Name] = true
		secretless := func(key, name, value, where string) bool {
			err := inline(name, value)
			if err != nil {
				say(key, "%s: %v", where, err)
			}
			return err == nil
		}
		for _, m := range []struct {
			key    string
			values map[string]string
		}{{"env", b.Env}, {"headers", b.Headers}} {
			fine := true
			for _, name := range sortedKeys(m.values) {
				fine = secretless(m.key, name, m.values[name], m.key+": "+name) && fine
			}
			if !fine {
				l.breaks(prefix + "." + m.key) // said already; the room would say it again
			}
		}
		if err := inlineArgs(b.Args); err != nil {
			say("args", "args: %v", err)
			l.breaks(prefix + ".args")
		}
		for pair := range strings.SplitSeq(rawQuery(b.URL), "&") {
			if name, value, ok := strings.Cut(pair, "="); ok && !secretless("url", name, value, "url") {
				l.breaks(prefix + ".url")
			}
		}
		server := b.Options()
		for _, wrong := range server.Validate() {
			say(wrong.Key, "%s", wrong.Sentence)
		}
	}
}

func rawQuery(address string) string {
	_, query, _ := strings.Cut(address, "?")
	return query
}

// Options is the block as the tools room knows it.
func (b *MCPBlock) Options() mcp.Server {
	s := b.Server
	s.Env, s.Headers = secrets(b.Env), secrets(b.Headers)
	return s
}

func secrets(m map[string]string) map[string]mcp.Secret {
	list := map[string]mcp.Secret{}
	for name, value := range m {
		list[name] = mcp.NewSecret(secret.Spelled(value))
	}
	return list
}

// mayExist is true for the name of a tool that an MCP server may bring; which
// ones it has is known when it is connected.
func (c *Config) mayExist(tool string) bool {
	return slices.ContainsFunc(c.MCP, func(b MCPBlock) bool { return strings.HasPrefix(tool, b.Prefix) })
}
