package config

import (
	"cmp"
	"net"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/option"
	"parley/gateway"
	"parley/gateway/auth"
	"parley/models/scripted"
	"parley/tools/builtin"
)

// check complains about values that are well-formed one by one but make no
// sense together, or that this version cannot do.
func (l *loader) check() {
	c := &l.config
	for _, wrong := range slices.Concat(
		c.Gateway.Validate(), c.Auth.Validate(), c.Policy().Validate(), c.Engine.Validate(), c.Store.Validate(), c.MCPLimits.Validate(), c.Feeds.Validate(), c.Files.Validate(), c.Kept.Validate(), c.Pushes.Validate(), c.Tracing.Validate(), option.OutOfBounds(c.Metrics), c.Backup.Validate(c.directory(), c.Shared.Postgres != ""),
	) {
		l.fieldError(wrong)
	}
	l.signIn(c)
	l.cluster(c)
	l.channels(c)
	if host, _, err := net.SplitHostPort(c.Gateway.AdminListen); err == nil && !gateway.IsLoopback(host) && c.Auth.Mode == auth.ModeNone && !c.Gateway.AdminInsecure {
		l.wrong("admin.listen", `must be a loopback address such as "127.0.0.1:9090" while auth.mode is "none", because everyone who reaches it `+
			"could read metrics and profiles and make backups; admin.insecure = true says that only those reach it who may")
	}
	if c.Data == "" && !c.Ephemeral() {
		l.wrong("data", `must name a directory, or set memory.mode = "ephemeral" to keep nothing`)
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
	for _, name := range sortedKeys(c.Tracing.Headers) {
		l.references(c.Tracing.Headers[name])
		if err := inline(name, c.Tracing.Headers[name]); err != nil {
			l.wrong("tracing.headers", name+": "+err.Error())
		}
	}
	l.mcpList(c)
	l.modelList(c)
	l.agentList(c) // the models' markers are known
}

// fieldError complains about what a room has found.
func (l *loader) fieldError(wrong option.FieldError) {
	// The limits of the context are checked together: one that could not be read
	// would make the others look wrong.
	section, _, _ := strings.Cut(wrong.Key, ".")
	if section == "context" && l.brokenBlock(section) {
		return
	}
	if wrong.AtMost != "" {
		l.atMost(wrong.Key, wrong.AtMost)
		return
	}
	l.wrong(wrong.Key, wrong.Sentence)
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

// atMost complains that the value of small is larger than that of large, at the
// one that was set.
func (l *loader) atMost(small, large string) {
	if l.broken[small] || l.broken[large] {
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

var agentName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// agentPrompt complains about a prompt that is missing, or that no argument of a
// command-line agent can hold. Such an agent may do without.
func (l *loader) agentPrompt(c *Config, where problem, a Agent) {
	def, _ := c.DefaultModel(l.lookup)
	b := c.Block(cmp.Or(a.Model, def))
	command := b != nil && b.Provider == ProviderCommand
	switch {
	case !command && strings.TrimSpace(a.Prompt) == "" && a.PromptFile == "":
		l.complain(where, "agent %q needs a prompt or a prompt_file", a.Name)
	case command && !a.HasBuiltinPrompt():
		if err := b.Command.CheckPrompt(a.Prompt); err != nil {
			l.complain(where, "agent %q: its prompt cannot be given to the model %q: %v", a.Name, b.Name, err)
		}
	}
}

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
	delete(names, string(conversation.External))
	tools := map[string]bool{"*": true}
	for _, t := range BuiltinTools() {
		tools[t.Spec().Name] = true
	}
	for _, a := range c.Agents {
		where, ok := l.origin["agents."+a.Name]
		if !ok || a.Name == "" {
			continue // built in and untouched, or complained about already
		}
		if a.Name == string(conversation.External) {
			l.complain(where, "agent %q is built in and cannot be changed: an outside runtime answers its sessions", a.Name)
			continue
		}
		if !agentName.MatchString(a.Name) {
			l.complain(where, "agent %q: a name is lower-case letters, digits, - and _, and starts with a letter", a.Name)
		}
		for _, like := range a.all() {
			l.agentPrompt(c, where, like)
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
