package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"parley/tools/mcp"
	"parley/tools/mcp/secret"
)

// MCPBlock is an [[mcp]] block: a server whose tools agents may use.
type MCPBlock struct {
	Name     string            `key:"name"`
	Command  string            `key:"command"` // a program to start; or
	Args     []string          `key:"args"`
	Env      map[string]string `key:"env"`
	Inherit  []string          `key:"inherit"` // variables that it gets from this process
	Dir      string            `key:"dir"`     // "" = this process's own
	URL      string            `key:"url"`     // the address of a streamable HTTP endpoint
	Headers  map[string]string `key:"headers"`
	Protocol string            `key:"protocol"` // the version that is tried first; "" = the newest

	Prefix     string   `key:"prefix"`   // before the names of its tools
	Allow      []string `key:"allow"`    // tools that are used, by the server's names; "*" = all
	Approval   string   `key:"approval"` // whether a person must allow calls
	Ask        []string `key:"ask"`      // exceptions to approval = "never"
	Never      []string `key:"never"`    // exceptions to approval = "ask"
	Idempotent []string `key:"idempotent"`

	Timeout        time.Duration `key:"timeout" min:"0s" max:"1h"` // of a call; 0 = tools.timeout
	ConnectTimeout time.Duration `key:"connect_timeout" min:"1ms"`
}

// mcpBlock is a block that says nothing but its name.
func mcpBlock(name string) MCPBlock {
	d := mcp.DefaultServer(name)
	return MCPBlock{
		Name: name, Args: []string{}, Inherit: d.Inherit, Prefix: d.Prefix, Allow: d.Allow, Approval: string(d.Approval),
		Ask: []string{}, Never: []string{}, Idempotent: []string{}, ConnectTimeout: d.ConnectTimeout,
	}
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
		for pair := range strings.SplitSeq(rawQuery(b.URL), "&") {
			if name, value, ok := strings.Cut(pair, "="); ok && !secretless("url", name, value, "url") {
				l.breaks(prefix + ".url")
			}
		}
		server := b.Server()
		for _, wrong := range server.Validate() {
			say(wrong.Key, "%s", wrong.Sentence)
		}
	}
}

func rawQuery(address string) string {
	_, query, _ := strings.Cut(address, "?")
	return query
}

// Server is the block as the tools room knows it.
func (b *MCPBlock) Server() mcp.Server {
	return mcp.Server{
		Name: b.Name, Command: b.Command, Args: b.Args, Env: secrets(b.Env), Inherit: b.Inherit, Dir: b.Dir, URL: b.URL,
		Headers: secrets(b.Headers), Protocol: b.Protocol, Prefix: b.Prefix, Allow: b.Allow, Approval: mcp.Approval(b.Approval),
		Ask: b.Ask, Never: b.Never, Idempotent: b.Idempotent, Timeout: b.Timeout, ConnectTimeout: b.ConnectTimeout,
	}
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
