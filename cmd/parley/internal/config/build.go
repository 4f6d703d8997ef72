package config

import (
	"cmp"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/option"
	"parley/gateway"
	"parley/models/anthropic"
	"parley/models/command"
	"parley/models/limit"
	"parley/models/openai"
	"parley/models/scripted"
	"parley/tools/mcp/secret"
)

// Key returns the reference to the block's key; "" = it has none.
func (b *ModelBlock) Key() string {
	switch {
	case b.KeyEnv != "":
		return "env:" + b.KeyEnv
	case b.KeyFile != "":
		return "file:" + b.KeyFile
	}
	return ""
}

// Ready says why the model could not be used as things are. It sends no request.
func (b *ModelBlock) Ready(look Lookup) error {
	switch b.Provider {
	case ProviderCommand:
		m, err := command.New(b.command(nil))
		if err != nil {
			return err
		}
		for _, value := range sortedValues(b.Env) {
			if _, err := Fill(value, look); err != nil {
				return err
			}
		}
		return m.Check()
	case ProviderOpenAI, ProviderAnthropic:
		for _, value := range append([]string{b.Key(), b.Proxy}, sortedValues(b.Headers)...) {
			if _, err := Fill(value, look); err != nil {
				return err
			}
		}
		if b.Key() == "" && !b.ownServer() {
			return errors.New("it has no key: name the variable that holds it (key_env) or a file (key_file)")
		}
	}
	return nil
}

// ownServer is true if the block may do without a key: it is not the provider's
// own service that it asks, or a header carries what proves who asks.
func (b *ModelBlock) ownServer() bool {
	for name := range b.Headers {
		if secret.Certain(name) {
			return true
		}
	}
	address := b.Connection().BaseURL
	return address != openai.DefaultBaseURL && address != anthropic.DefaultBaseURL
}

func sortedValues(m map[string]string) []string {
	var values []string
	for _, k := range sortedKeys(m) {
		values = append(values, m[k])
	}
	return values
}

// Build makes the block's model, without its routing keys. An error is fit to be
// shown: it names no secret.
func (b *ModelBlock) Build(c *Config, fill func(value string) (string, error), log *slog.Logger) (conversation.Model, error) {
	switch b.Provider {
	case ProviderCommand:
		return b.buildCommand(c, fill, log)
	case ProviderScripted:
		return c.ScriptedModel(b.Scripted, b.Script)
	}
	filled, err := b.filled(fill)
	if err != nil {
		return nil, err
	}
	filled.Connection().Stream = filled.Connection().Stream && c.Model.Stream
	if b.Provider == ProviderAnthropic {
		return anthropic.New(filled.Anthropic)
	}
	return openai.New(filled.OpenAI)
}

// validate returns what the block's adapter finds wrong with its options, which get
// something in place of each secret.
func (b *ModelBlock) validate(c *Config) []option.FieldError {
	switch b.Provider {
	case ProviderCommand:
		return b.command(nil).Validate()
	case ProviderScripted:
		_, err := c.ScriptedModel(b.Scripted, b.Script)
		if err != nil {
			return sentences(err)
		}
		return nil
	}
	filled, err := b.filled(func(value string) (string, error) {
		if value == b.Proxy {
			return "http://proxy", nil
		}
		return "key", nil
	})
	switch {
	case err != nil:
		return sentences(err)
	case b.Provider == ProviderAnthropic:
		return filled.Anthropic.Validate()
	}
	return filled.OpenAI.Validate()
}

// sentences are the lines of an error, each about the block as a whole.
func sentences(err error) []option.FieldError {
	var list []option.FieldError
	for line := range strings.SplitSeq(err.Error(), "\n") {
		list = append(list, option.FieldError{Sentence: line})
	}
	return list
}

// filled is the block of a model behind HTTP with its secrets in the options. An
// error names no secret.
func (b ModelBlock) filled(fill func(value string) (string, error)) (ModelBlock, error) {
	var errs []error
	get := func(value string) string {
		text, err := fill(value)
		errs = append(errs, err)
		return text
	}
	o := b.Connection()
	if b.Key() != "" {
		o.APIKey = get(b.Key())
	}
	if o.Proxy = b.Proxy; refers(o.Proxy) {
		o.Proxy = get(o.Proxy)
	}
	o.Headers = map[string]string{}
	for name, value := range b.Headers {
		if refers(value) {
			value = get(value)
		}
		o.Headers[name] = value
	}
	return b, errors.Join(errs...)
}

// command is the block as the room of command-line agents knows it, without its
// environment.
func (b *ModelBlock) command(log *slog.Logger) command.Options {
	o := b.Command
	o.MaxConcurrent, o.Logger = b.Bounds.MaxConcurrent, log
	return o
}

// buildCommand makes a command-line agent: with its own variables, and without what
// other blocks keep secret.
func (b *ModelBlock) buildCommand(c *Config, fill func(value string) (string, error), log *slog.Logger) (conversation.Model, error) {
	o, errs := b.command(log), []error(nil)
	o.Withhold, o.Env = b.Withheld(c), map[string]string{}
	for _, r := range c.references("") {
		if text, err := fill(r.String()); err == nil { // what is not there cannot be said
			o.Secrets = append(o.Secrets, text)
		}
	}
	for name, value := range b.Env {
		if refers(value) {
			text, err := fill(value)
			value, errs = text, append(errs, err)
		}
		o.Env[name] = value
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	m, err := command.New(o)
	if err == nil && !c.Model.Stream {
		return heartbeatOnly{m}, nil
	}
	return m, err
}

// Withheld are the variables that the program of a command-line agent does not inherit:
// those that hold a secret of another block, as far as its own does not name them.
func (b *ModelBlock) Withheld(c *Config) []string {
	names := map[string]bool{}
	for _, r := range c.references(b.Name) {
		if r.Kind == secret.Env {
			names[r.Name] = true
		}
	}
	for _, name := range b.Inherit {
		delete(names, name)
	}
	return sortedKeys(names)
}

// references are those to the secrets of all models but one, and of the MCP servers.
func (c *Config) references(but string) (list []secret.Reference) {
	note := func(values ...string) {
		for _, v := range values {
			list = append(list, secret.References(secret.Spelled(v))...)
		}
	}
	for i := range c.Models {
		if b := &c.Models[i]; b.Name != but {
			note(b.Key(), b.Proxy)
			note(sortedValues(b.Headers)...)
			note(sortedValues(b.Env)...)
		}
	}
	note(c.Auth.Secret)
	note(sortedValues(c.Tracing.Headers)...)
	for _, k := range c.Auth.Keys {
		note(k.Key)
	}
	for i := range c.MCP {
		note(c.MCP[i].URL)
		note(sortedValues(c.MCP[i].Env)...)
		note(sortedValues(c.MCP[i].Headers)...)
	}
	return list
}

// DefaultModel is the name of the model that agents without one use, and why it
// is that one ("" if the configuration says so itself).
func (c *Config) DefaultModel(look Lookup) (name, why string) {
	if c.Model.Default != AutoName {
		return c.Model.Default, ""
	}
	blocks := slices.Clone(c.Models)
	slices.SortStableFunc(blocks, func(a, b ModelBlock) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name))
	})
	var not []string
	for _, b := range blocks {
		if b.Provider == ProviderScripted {
			continue
		}
		err := b.Ready(look)
		if err == nil {
			return b.Name, "it is the first configured model that has what it needs"
		}
		not = append(not, b.Name+": "+err.Error())
	}
	if not == nil {
		return ScriptedName, "no other model is configured"
	}
	return ScriptedName, "no configured model has what it needs (" + strings.Join(not, "; ") + ")"
}

// AgentModels are the names of the models that agents ask for.
func (c *Config) AgentModels() []string {
	var names []string
	for _, a := range c.All() {
		if a.Model != "" {
			names = append(names, a.Model)
		}
	}
	if c.Engine.JudgeModel != "" {
		names = append(names, c.Engine.JudgeModel)
	}
	if c.Engine.TitleModel != "" {
		names = append(names, c.Engine.TitleModel)
	}
	return names
}

// UsedModels are the names of the models that are asked: def, which is the default one, and
// those of agents; and the names of those that are only asked when one of these fails.
func (c *Config) UsedModels(def string) (used, fallbacks map[string]bool) {
	used, fallbacks = map[string]bool{}, map[string]bool{}
	for _, name := range append(c.AgentModels(), def) {
		used[name] = true
	}
	for name := range used {
		if b := c.Block(name); b != nil {
			for _, f := range b.Fallback {
				fallbacks[f] = !used[f]
			}
		}
	}
	return used, fallbacks
}

// ScriptedModel is a scripted model; script is a file, "" = the built-in rules.
func (c *Config) ScriptedModel(o scripted.Options, script string) (conversation.Model, error) {
	if script != "" {
		var err error
		if o.Script, err = os.ReadFile(script); err != nil {
			return nil, err
		}
	}
	m, err := scripted.New(o)
	if err != nil {
		return nil, err
	}
	if !c.Model.Stream {
		return nonStreaming{m}, nil
	}
	return m, nil
}

// Limits are the block's. A command-line agent counts its processes itself: its
// slot is taken until the last of them has gone.
func (b *ModelBlock) Limits() limit.Limits {
	l := b.Bounds
	l.Calls, l.Per, _ = parseRate(b.Rate)
	if b.Provider == ProviderCommand {
		l.MaxConcurrent = 0
	}
	return l
}

// CommandAgent is the command-line agent that a block has made, nil for others.
func CommandAgent(m conversation.Model) *command.Model {
	if s, ok := m.(heartbeatOnly); ok {
		m = s.Model
	}
	agent, _ := m.(*command.Model)
	return agent
}

// SendsKeyInClear is true if a key would go over a network without encryption.
func (b *ModelBlock) SendsKeyInClear() bool {
	o := b.Connection()
	if o == nil {
		return false
	}
	u, err := url.Parse(o.BaseURL)
	return err == nil && u.Scheme == "http" && !gateway.IsLoopback(u.Hostname()) && (b.Key() != "" || len(b.Headers) > 0)
}
