package config

import (
	"cmp"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/gateway"
	"parley/models/anthropic"
	"parley/models/command"
	"parley/models/limit"
	"parley/models/openai"
	"parley/models/scripted"
	"parley/tools/mcp/secret"
)

// Key is where the block's key is to be found; "" = it has none.
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
	return b.BaseURL != openai.DefaultBaseURL && b.BaseURL != anthropic.DefaultBaseURL
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
		m, err := command.New(b.command(log))
		if err == nil && !c.Model.Stream {
			return heartbeatOnly{m}, nil
		}
		return m, err
	case ProviderScripted:
		return c.ScriptedModel(b.TokenDelay, b.Script)
	}
	var errs []error
	get := func(value string) string {
		text, err := fill(value)
		errs = append(errs, err)
		return text
	}
	key, proxy := "", ""
	if b.Key() != "" {
		key = get(b.Key())
	}
	if b.Proxy != "" {
		proxy = b.Proxy
		if refers(proxy) {
			proxy = get(proxy)
		}
	}
	headers := map[string]string{}
	for name, value := range b.Headers {
		if refers(value) {
			value = get(value)
		}
		headers[name] = value
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	o := openai.Connection{
		BaseURL: b.BaseURL, Model: b.Model, APIKey: key, Headers: headers, Stream: b.Stream && c.Model.Stream,
		MaxOutputTokens: b.MaxOutputTokens, Temperature: b.Temperature, Extra: b.Extra, IdleTimeout: b.IdleTimeout,
		ConnectTimeout: b.ConnectTimeout, MaxBytes: int64(b.MaxBytes), Proxy: proxy, Label: b.Label,
	}
	if b.Provider == ProviderAnthropic {
		return anthropic.New(anthropic.Options{Connection: o})
	}
	return openai.New(openai.Options{Connection: o, API: openai.API(b.API), Alternate: b.Alternate})
}

func (b *ModelBlock) command(log *slog.Logger) command.Options {
	return command.Options{
		Command: b.Command, Args: b.Args, Dir: b.Dir, ContextPairs: b.ContextPairs, Timeout: b.Timeout, Grace: b.Grace,
		MaxConcurrent: b.MaxConcurrent, MaxResponseLength: b.MaxResponseLength, MaxOutput: int(b.MaxOutput),
		Format: command.Format(b.Format), PromptVia: command.PromptVia(b.PromptVia), AskMarker: b.AskMarker,
		TimeoutText: b.TimeoutText, Label: b.Label, Logger: log,
	}
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
	for _, a := range c.Agents {
		if a.Model != "" {
			names = append(names, a.Model)
		}
	}
	return names
}

// ScriptedModel is a scripted model; script is a file, "" = the built-in rules.
func (c *Config) ScriptedModel(delay time.Duration, script string) (conversation.Model, error) {
	o := scripted.Options{TokenDelay: delay}
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
	l := limit.Limits{MaxConcurrent: b.MaxConcurrent, Burst: b.Burst}
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
	u, err := url.Parse(b.BaseURL)
	return err == nil && u.Scheme == "http" && !gateway.IsLoopback(u.Hostname()) && (b.Key() != "" || len(b.Headers) > 0)
}
