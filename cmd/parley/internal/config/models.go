package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/conversation/policy"
	"parley/conversation/transcript"
	"parley/metrics"
	"parley/models/anthropic"
	"parley/models/command"
	"parley/models/limit"
	"parley/models/openai"
	"parley/models/scripted"
)

// The providers of models.
const (
	ProviderOpenAI    = "openai"
	ProviderAnthropic = "anthropic"
	ProviderCommand   = "command"
	ProviderScripted  = "scripted"
)

// ScriptedName is the model that is always there, set up by [scripted]; AutoName
// stands for a choice in model.default.
const (
	ScriptedName = "scripted"
	AutoName     = "auto"
)

// Image is in ModelBlock.Sees of a model that sees pictures.
const Image = "image"

// ModelBlock is a [models.NAME] block: the options of its provider's models, the
// routing keys of any model, and where its secrets are to be found; these are never
// in it. The tag for names the providers whose blocks have a key or a struct;
// without it all do.
type ModelBlock struct {
	Name     string
	Provider string `key:"provider" choices:"openai,anthropic,command,scripted"`

	// The options of the provider; the others' are zero values.
	OpenAI    openai.Options    `for:"openai"`    // without APIKey, Headers and Proxy
	Anthropic anthropic.Options `for:"anthropic"` // as OpenAI
	Command   command.Options   `for:"command"`   // without MaxConcurrent, Env, Withhold and Secrets; AskMarker is command_agent.ask_marker if it is not given
	Scripted  scripted.Options  `for:"scripted"`  // without Script

	KeyEnv  string            `key:"key_env" for:"openai,anthropic" after:"model"`    // the variable that holds the key
	KeyFile string            `key:"key_file" for:"openai,anthropic" after:"key_env"` // or the file that does, beside the configuration file
	Headers map[string]string `key:"headers" for:"openai,anthropic" after:"key_file"`
	Proxy   string            `key:"proxy" for:"openai,anthropic" after:"max_bytes"` // "" = none
	Env     map[string]string `key:"env" for:"command" after:"dir"`                  // of its environment
	Inherit []string          `key:"inherit" for:"command" after:"env"`              // variables that it inherits though they hold another's secret
	Script  string            `key:"script" for:"scripted"`                          // a file; "" = the built-in rules

	Context  int            `key:"context" for:"openai,anthropic" after:"max_output_tokens" min:"0"` // tokens that the model holds; 0 = not said
	Sees     []string       `key:"sees" for:"openai,anthropic" after:"context"`                      // what it takes beside text: Image
	Order    int            `key:"order"`                                                            // for model.default = "auto": the lowest first
	Fallback []string       `key:"fallback"`                                                         // models to ask when this one fails
	Acts     bool           `key:"acts"`                                                             // it acts on the world by itself: it is asked once
	Price    map[string]any `key:"price"`                                                            // input, output, cached: for a million tokens; see metrics.Price
	Rate     string         `key:"rate"`                                                             // calls that may begin: "10/s", "60/m", "1000/h"; "" = no limit
	Bounds   limit.Limits   // without Calls and Per, which Rate says; a command-line agent needs a MaxConcurrent
}

// modelBlock is a block of a provider that says nothing else.
func modelBlock(name, provider string) ModelBlock {
	b := ModelBlock{Name: name, Provider: provider, Fallback: []string{}}
	switch provider {
	case ProviderOpenAI:
		b.OpenAI, b.Sees = openai.DefaultOptions(), []string{}
	case ProviderAnthropic:
		b.Anthropic, b.Sees = anthropic.DefaultOptions(), []string{}
	case ProviderCommand:
		b.Command = command.DefaultOptions()
		b.Command.Args, b.Bounds.MaxConcurrent = []string{}, b.Command.MaxConcurrent // a list as it is read back
		b.Acts, b.Inherit = true, []string{}
	case ProviderScripted:
		b.Scripted = scripted.DefaultOptions()
	}
	return b
}

// KillTime is how long the model may take to end when it is stopped.
func (b *ModelBlock) KillTime() time.Duration {
	if b.Provider == ProviderCommand {
		return b.Command.Grace
	}
	return 0
}

// Holds says what the model can hold; a Context of 0 is that it was not said.
func (b *ModelBlock) Holds() policy.Window {
	w := policy.Window{Model: b.Name, Context: b.Context}
	if o := b.Connection(); o != nil {
		w.Answer = o.MaxOutputTokens
	}
	return w
}

// Connection returns the connection's settings of a model behind HTTP, nil for other models.
func (b *ModelBlock) Connection() *openai.Connection {
	switch b.Provider {
	case ProviderOpenAI:
		return &b.OpenAI.Connection
	case ProviderAnthropic:
		return &b.Anthropic.Connection
	}
	return nil
}

// keysOf are the keys of a block of the provider, in the order in which they are
// printed.
func keysOf(provider string) []field {
	list := slices.DeleteFunc(fieldsOf(reflect.TypeFor[ModelBlock]()), func(f field) bool {
		return f.blocks != "" && !slices.Contains(strings.Split(f.blocks, ","), provider)
	})
	var ordered []field
	var add func(after string)
	add = func(after string) {
		for _, f := range list {
			if f.after == after {
				ordered = append(ordered, f)
				add(f.key)
			}
		}
	}
	add("")
	return ordered
}

// models reads the [models.NAME] blocks.
func (l *loader) models(at map[string]problem, value any) {
	blocks, ok := value.(map[string]any)
	if !ok {
		l.complain(at["models"], "models: write each model as a section [models.NAME]")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		prefix := "models." + name
		where := at[prefix]
		table, ok := blocks[name].(map[string]any)
		if !ok {
			l.complain(where, "models: write each model as a section [models.NAME] and its keys below")
			continue
		}
		provider, _ := table["provider"].(string)
		fields := map[string]field{}
		for _, f := range keysOf(provider) {
			fields[f.key] = f
		}
		b := modelBlock(name, provider)
		if known := fields["provider"].choices; !slices.Contains(known, provider) {
			l.complain(cmp.Or(at[prefix+".provider"], where), "model %q: provider = %q: must be one of %s", name, provider, strings.Join(known, ", "))
			l.origin[prefix] = where
			continue // what else it has depends on that
		}
		l.block(at, prefix, fmt.Sprintf("model %q", name), fields, table, reflect.ValueOf(&b).Elem())
		if b.KeyFile != "" {
			b.KeyFile = beside(where, b.KeyFile)
		}
		for _, m := range []map[string]string{b.Headers, b.Env} {
			for k, v := range m {
				m[k] = filesBeside(where, v)
			}
			l.references(slices.Collect(maps.Values(m))...)
		}
		if _, given := table["ask_marker"]; !given && provider == ProviderCommand {
			l.marked = append(l.marked, name)
		}
		l.named(b.KeyEnv)
		l.references(b.Proxy)
		l.config.Models = append(l.config.Models, b)
	}
}

// block reads the keys of one block into target.
func (l *loader) block(at map[string]problem, prefix, who string, fields map[string]field, table map[string]any, target reflect.Value) {
	l.origin[prefix] = at[prefix]
	for _, k := range slices.Sorted(maps.Keys(table)) {
		where := at[prefix+"."+k]
		f, ok := fields[k]
		switch {
		case !ok && keyLike.MatchString(k):
			l.complain(where, "%s: there is no key %s: a key does not stand in the file, but in the environment (key_env = \"NAME\") or in a file of its own (key_file)", who, k)
			continue
		case !ok:
			l.complain(where, "%s has no key %s; it has: %s", who, k, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
			continue
		}
		l.origin[prefix+"."+k] = where
		if err := f.set(target, table[k]); err != nil {
			l.breaks(prefix + "." + k)
			shown := showValue(table[k])
			if strings.HasPrefix(k, "key_") {
				shown = "…" // somebody may have put the key itself there
			}
			l.complain(where, "%s: %s = %s: %v", who, k, shown, err)
		}
	}
}

// keyLike are names under which people write keys.
var keyLike = regexp.MustCompile(`(?i)^(api_?)?(key|token|secret|password)$`)

func (l *loader) breaks(key string) {
	if l.broken == nil {
		l.broken = map[string]bool{}
	}
	l.broken[key] = true
}

// beside is a path relative to the configuration file, so that the two can be
// moved together.
func beside(where problem, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	file, _, _ := strings.Cut(where.where, ":")
	return filepath.Join(filepath.Dir(file), path)
}

// named notes variables that the file names: one that begins with PARLEY_ is
// not a misspelt key.
func (l *loader) named(variables ...string) {
	if l.variables == nil {
		l.variables = map[string]bool{}
	}
	for _, v := range variables {
		l.variables[v] = true
	}
}

// at is the place of a block's key, or of the block.
func (l *loader) at(block, key string) problem {
	if where, ok := l.origin[block+"."+key]; ok {
		return where
	}
	return l.origin[block]
}

// modelList complains about blocks that make no sense, and about models that are
// asked for and cannot be had.
func (l *loader) modelList(c *Config) {
	for i := range c.Models {
		b := &c.Models[i]
		if slices.Contains(l.marked, b.Name) {
			b.Command.AskMarker = c.AskMarker
		}
		l.modelBlock(c, b)
	}
	if name := c.Model.Default; name != AutoName && name != ScriptedName && c.Block(name) == nil && !l.failed("models."+name) {
		l.wrong("model.default", "must be "+c.modelNames()+`, or "auto"`)
	}
	l.unready(c, l.origin["model.default"], "model.default", c.Model.Default)
	for _, a := range c.Agents {
		l.agentModels(c, a)
	}
	if name := c.Engine.TitleModel; name != "" {
		if name != ScriptedName && c.Block(name) == nil && !l.failed("models."+name) {
			l.wrong("titles.model", "must be "+c.modelNames()+`, or ""`)
		}
		l.unready(c, l.origin["titles.model"], "titles.model", name)
	}
	if name := c.Engine.JudgeModel; name != "" {
		b := c.Block(name)
		switch {
		case name == ScriptedName || b != nil && b.Provider != ProviderCommand:
			l.unready(c, l.origin["receipts.judge"], "receipts.judge", name)
		case b != nil:
			l.wrong("receipts.judge", "must be a model that calls tools, which a command-line agent does not")
		case !l.failed("models." + name):
			l.wrong("receipts.judge", "must be "+c.modelNames()+`, or ""`)
		}
	}
	l.windows(c)
}

// agentModels complains about what an agent's model and its other models cannot be.
func (l *loader) agentModels(c *Config, a Agent) {
	where := l.origin["agents."+a.Name]
	of := func(key, name, or string) {
		switch {
		case name == ScriptedName || c.Block(name) != nil:
			l.unready(c, where, fmt.Sprintf("agent %q", a.Name), name)
		case !l.failed("models." + name):
			l.complain(where, "agent %q: %s = %q: must be %s%s", a.Name, key, name, c.modelNames(), or)
		}
	}
	if a.Model != "" {
		of("model", a.Model, `, or "" (model.default)`)
	}
	if len(a.Models) > maxModels {
		l.complain(where, "agent %q: models: must be at most %d names", a.Name, maxModels)
		return
	}
	for i, name := range a.Models {
		if name == cmp.Or(a.Model, c.Model.Default) || slices.Contains(a.Models[:i], name) {
			l.complain(where, "agent %q: models: %q answers for it already", a.Name, name)
			continue
		}
		of("models", name, "")
	}
}

// maxModels bounds the other models of an agent: all of them are in the answer to each hello.
const maxModels = 16

// windows complains about models that cannot hold what an agent always shows them. The
// tools of MCP servers are not known yet: the engine looks again when they are.
func (l *loader) windows(c *Config) {
	if len(l.problems) > 0 {
		return // which may be the cause
	}
	def, _ := c.DefaultModel(l.lookup)
	rules := Rules(c, BuiltinTools(), def)
	for _, wrong := range transcript.CheckWindows(&rules) {
		name := strings.TrimSuffix(strings.TrimPrefix(wrong.Key, "models."), ".context")
		l.complain(l.at("models."+name, "context"), "model %q: context = %v: %s", name, wrong.Value, wrong.Sentence)
	}
}

// failed is true for a block that is in the file and could not be read.
func (l *loader) failed(block string) bool {
	_, there := l.origin[block]
	return there
}

// unready complains about a model that is asked for by name and whose key is
// missing. A program that is missing is doctor's: it may be installed later.
func (l *loader) unready(c *Config, where problem, who, name string) {
	b := c.Block(name)
	if b == nil || b.Provider == ProviderCommand || l.broken["models."+name] {
		return
	}
	if err := b.Ready(l.lookup); err != nil {
		if where.where == "" {
			where = l.origin["models."+name]
		}
		l.complain(where, "%s asks for the model %q, which cannot be used: %v", who, name, err)
	}
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (l *loader) modelBlock(c *Config, b *ModelBlock) {
	block := "models." + b.Name
	before := len(l.problems)
	say := func(key, format string, args ...any) {
		if !l.broken[block+"."+key] {
			l.complain(l.at(block, key), "model %q: "+format, append([]any{b.Name}, args...)...)
		}
	}
	switch {
	case b.Name == ScriptedName:
		say("", "the name is the built-in model's, which [scripted] sets up; choose another one")
	case b.Name == AutoName:
		say("", "the name means a choice in model.default; choose another one")
	case !agentName.MatchString(b.Name):
		say("", "a name is lower-case letters, digits, - and _, and starts with a letter")
	}
	if _, err := metrics.ReadPrice(b.Price); err != nil {
		say("price", "price: %v", err)
	}
	seen := map[string]bool{b.Name: true}
	for _, f := range b.Fallback {
		if f != ScriptedName && c.Block(f) == nil && !l.failed("models."+f) {
			say("fallback", "fallback: there is no model %q; there are: %s", f, c.modelNames())
		} else if seen[f] {
			say("fallback", "fallback: %q is the model itself or there twice", f)
		}
		seen[f] = true
	}
	for i, what := range b.Sees {
		if what != Image || slices.Contains(b.Sees[:i], what) {
			say("sees", "sees: %q: a model sees %q, each once; text it reads anyway", what, Image)
		}
	}
	if _, _, err := parseRate(b.Rate); err != nil {
		say("rate", "rate = %q: %v", b.Rate, err)
	}
	if b.Bounds.Burst > 0 && b.Rate == "" {
		say("burst", "burst goes with a rate")
	}
	if b.KeyEnv != "" && b.KeyFile != "" {
		say("key_file", "give key_env or key_file, not both")
	}
	if b.KeyEnv != "" && !envName.MatchString(b.KeyEnv) {
		say("key_env", "key_env must be the name of a variable of the environment, not a key")
	}
	for _, name := range slices.Sorted(maps.Keys(b.Env)) {
		if err := inline(name, b.Env[name]); err != nil {
			say("env", "env: %s: %v", name, err)
		}
	}
	for key, names := range map[string][]string{"env": slices.Sorted(maps.Keys(b.Env)), "inherit": b.Inherit} {
		for _, name := range names {
			if !envName.MatchString(name) {
				say(key, "%s: %q is not the name of a variable of the environment", key, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Headers)) {
		if err := inline(name, b.Headers[name]); err != nil {
			say("headers", "headers: %s: %v", name, err)
		}
	}
	if err := inlineArgs(b.Command.Args); err != nil {
		say("args", "args: %v", err)
	}
	if u, err := url.Parse(b.Proxy); err == nil && u.User != nil {
		if _, has := u.User.Password(); has {
			say("proxy", "proxy holds a password: write it as env:NAME or file:PATH")
		}
	}
	if len(l.problems) > before || l.brokenBlock(block) {
		l.breaks(block)
		return
	}
	for _, wrong := range b.validate(c) {
		say(wrong.Key, "%s", wrong.Sentence)
		l.breaks(block)
	}
}

func (l *loader) brokenBlock(block string) bool {
	for key := range l.broken {
		if strings.HasPrefix(key, block+".") {
			return true
		}
	}
	return false
}

// Block is the configured model of a name, nil if there is none.
func (c *Config) Block(name string) *ModelBlock {
	i := slices.IndexFunc(c.Models, func(b ModelBlock) bool { return b.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Models[i]
}

func (c *Config) modelNames() string {
	names := []string{strconv.Quote(ScriptedName)}
	for _, b := range c.Models {
		names = append(names, strconv.Quote(b.Name))
	}
	return strings.Join(names, ", ")
}

var (
	rateText = regexp.MustCompile(`^\s*([0-9]+)\s*/\s*(s|m|h)\s*$`)
	rateUnit = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}
)

func parseRate(s string) (calls int, per time.Duration, err error) {
	if s == "" {
		return 0, 0, nil
	}
	m := rateText.FindStringSubmatch(s)
	if m == nil {
		return 0, 0, errRate
	}
	calls, err = strconv.Atoi(m[1])
	if err != nil || calls < 1 {
		return 0, 0, errRate
	}
	return calls, rateUnit[m[2]], nil
}

var errRate = errors.New(`must be a number of calls in a second, minute or hour such as "10/s", "60/m" or "1000/h"`)
