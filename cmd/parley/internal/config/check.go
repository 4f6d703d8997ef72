package config

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"parley/conversation"
	"parley/models/scripted"
	"parley/tools/builtin"
)

// check complains about values that are well-formed one by one but make no
// sense together, or that this version cannot do.
func (l *loader) check() {
	c := &l.config
	l.addresses(c)
	l.atMost(c.Policy().BackoffMin > c.Policy().BackoffMax, "retry.backoff_min", "retry.backoff_max")
	l.atMost(c.Store.SoftFree >= 0 && c.Store.HardFree > c.Store.SoftFree, "storage.hard_free", "storage.soft_free")
	l.context(c)
	l.atMost(c.Engine.ModelIdle > c.Engine.ModelLimit, "model.idle_timeout", "model.hard_timeout")
	l.atMost(c.Gateway.Limits.FrameBytes > 0 && (c.Gateway.Limits.TextBytes > c.Gateway.Limits.FrameBytes || c.Gateway.Limits.TextBytes == 0),
		"limits.text_bytes", "limits.frame_bytes")
	if c.Gateway.Times.ReadDeadline <= c.Gateway.Times.Heartbeat {
		l.wrong("gateway.read_deadline", "must be more than gateway.heartbeat, or clients that only listen would be cut off")
	}
	if c.Gateway.Limits.CommandsPerSecond > 0 && c.Gateway.Limits.CommandsBurst == 0 {
		l.wrong("limits.commands_burst", "must be at least 1 while limits.commands_per_second is set, else every command would be refused")
	}
	if c.Data == "" && !c.Ephemeral() {
		l.wrong("data", `must name a directory, or set memory.mode = "ephemeral" to keep nothing`)
	}
	if slices.ContainsFunc(c.Policy().Sentinels, func(s string) bool { return strings.TrimSpace(s) == "" }) {
		l.wrong("no_reply.sentinels", "holds a blank text; leave the list empty to have none")
	}
	for _, t := range []struct{ key, text string }{
		{"texts.busy", c.Policy().Texts.Busy},
		{"texts.overloaded", c.Policy().Texts.Overloaded},
		{"texts.empty", c.Policy().Texts.Empty},
		{"texts.failed", c.Policy().Texts.Failed},
		{"texts.limit", c.Policy().Texts.Limit},
	} {
		if strings.TrimSpace(t.text) == "" {
			l.wrong(t.key, "must not be blank: a person would see an empty message")
		}
	}
	if c.Auth != "none" {
		l.wrong("auth.mode", `must be "none" (one local user, on a loopback address): this version has no other way to know who a client is`)
	}
	if m := c.AskMarker; strings.TrimSpace(m) != m || strings.ContainsAny(m, "\r\n") {
		l.wrong("command_agent.ask_marker", "must be one line without space around it")
	}
	if c.Scripted.Script != "" {
		data, err := os.ReadFile(c.Scripted.Script)
		if err == nil {
			_, err = scripted.New(scripted.Options{Script: data})
		}
		if err != nil {
			l.wrong("scripted.script", "must be a file of rules: "+err.Error())
		}
	}
	l.mcpList(c)
	l.agentList(c)
	l.modelList(c)
}

// context refuses limits that contradict each other; that an agent's prompt and
// tools fit as well is checked where the tools are known, at the start.
func (l *loader) context(c *Config) {
	limits := c.Policy().Context
	if l.broken["context.budget"] || l.broken["context.threshold"] || l.broken["context.keep"] || l.broken["context.summary"] || l.broken["context.tool_result"] {
		return
	}
	if err := limits.Check(); err != nil {
		key, sentence, _ := strings.Cut(err.Error(), " = ")
		_, sentence, _ = strings.Cut(sentence, ": ")
		l.wrong(key, sentence)
	}
}

// wrong complains about a key, at the place that set it last.
func (l *loader) wrong(key, sentence string) {
	if l.broken[key] {
		return
	}
	f := l.fields[key]
	where, ok := l.origin[key]
	if !ok {
		where = problem{where: "default"}
	}
	l.complain(where, "%s = %s: %s", key, f.text(reflect.ValueOf(&l.config).Elem()), sentence)
}

func (l *loader) atMost(violated bool, small, large string) {
	if !violated || l.broken[small] || l.broken[large] {
		return
	}
	value := l.fields[large].text(reflect.ValueOf(&l.config).Elem())
	key, word := small, "must be at most "+large
	if _, ok := l.origin[small]; !ok { // the other one was set: say it there
		value = l.fields[small].text(reflect.ValueOf(&l.config).Elem())
		key, word = large, "must be at least "+small
	}
	l.wrong(key, word+", which is "+value)
}

func (l *loader) addresses(c *Config) {
	host, ok := hostPort(c.Gateway.Listen)
	switch {
	case !ok:
		l.wrong("listen", `must be "host:port", for example "127.0.0.1:8080"`)
	case !loopback(host): // auth.mode is "none": there is no other yet
		l.wrong("listen", `must be a loopback address such as "127.0.0.1:8080" while auth.mode is "none", `+
			"because everyone who reaches it could read and write every session; to serve others put a proxy that asks who they are before it "+
			"and name its host in gateway.public_hosts")
	}
	if c.Gateway.AdminListen != "" {
		if _, ok := hostPort(c.Gateway.AdminListen); !ok {
			l.wrong("admin.listen", `must be "host:port", for example "127.0.0.1:9090", or "" for none`)
		} else if c.Gateway.AdminListen == c.Gateway.Listen && !strings.HasSuffix(c.Gateway.Listen, ":0") {
			l.wrong("admin.listen", "must differ from listen")
		}
	}
	for _, o := range c.Gateway.AllowedOrigins {
		u, err := url.Parse(o)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.TrimSuffix(u.Path, "/") != "" || u.RawQuery != "" {
			l.wrong("gateway.allowed_origins", `each must be an origin such as "https://app.example.org", without a path`)
			break
		}
	}
	for _, h := range c.Gateway.PublicHosts {
		if h == "" || strings.ContainsAny(h, "/ ?#@") {
			l.wrong("gateway.public_hosts", `each must be a host such as "chat.example.org"`)
			break
		}
	}
}

func hostPort(s string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return host, err == nil && n <= 65535
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

var agentName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

func (l *loader) agentList(c *Config) {
	names, aliases := map[string]bool{}, map[string]string{}
	for _, a := range c.Agents {
		names[a.Name] = true
		alias := conversation.DelegateAlias(conversation.AgentName(a.Name))
		if other, taken := aliases[alias]; taken && other != a.Name {
			l.complain(cmp.Or(l.origin["agents."+a.Name], l.origin["agents."+other]),
				"agents %q and %q: both are delegated to by the tool %s, so one needs another name", other, a.Name, alias)
		}
		aliases[alias] = a.Name
	}
	delete(names, string(conversation.Outside))
	tools := map[string]bool{"*": true}
	for _, t := range BuiltinTools() {
		tools[t.Spec().Name] = true
	}
	for _, a := range c.Agents {
		where, ok := l.origin["agents."+a.Name]
		if !ok || a.Name == "" {
			continue // built in and untouched, or complained about already
		}
		if a.Name == string(conversation.Outside) {
			l.complain(where, "agent %q is built in and cannot be changed: an outside runtime answers its sessions", a.Name)
			continue
		}
		if !agentName.MatchString(a.Name) {
			l.complain(where, "agent %q: a name is lower-case letters, digits, - and _, and starts with a letter", a.Name)
		}
		if strings.TrimSpace(a.Prompt) == "" && a.PromptFile == "" {
			l.complain(where, "agent %q needs a prompt or a prompt_file", a.Name)
		}
		for _, t := range a.Tools {
			if !tools[t] && !c.mayExist(t) {
				delete(tools, "*")
				l.complain(where, "agent %q: there is no tool %q; there are: %s, and \"*\" for all", a.Name, t, strings.Join(sortedKeys(tools), ", "))
				tools["*"] = true
			}
		}
	}
	if t := string(c.Policy().TriageAgent); t != "" && !names[t] {
		l.wrong("inbox.triage_agent", "must name an agent; there are: "+strings.Join(sortedKeys(names), ", "))
	}
}

// noLog stands for the log that search_session reads: only names are wanted here.
type noLog struct{ builtin.Log }

// BuiltinTools are the tools that are always there. They know no log: only their
// names are of use.
func BuiltinTools() []conversation.Tool { return builtin.New(builtin.Options{Log: noLog{}}) }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
