package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/models/anthropic"
	"parley/models/command"
	"parley/models/openai"
	"parley/models/routing"
	"parley/models/scripted"
	"parley/models/upstream"
)

// fill puts what its references stand for into a value.
type fill func(value string) (string, error)

// key is where the block's key is to be found; "" = it has none.
func (b *ModelBlock) key() string {
	switch {
	case b.KeyEnv != "":
		return "env:" + b.KeyEnv
	case b.KeyFile != "":
		return "file:" + b.KeyFile
	}
	return ""
}

// ready says why the model could not be used as things are. It asks nobody.
func (b *ModelBlock) ready(look lookup) error {
	switch b.Provider {
	case providerCommand:
		m, err := command.New(b.command(nil))
		if err != nil {
			return err
		}
		return m.Check()
	case providerOpenAI, providerAnthropic:
		for _, value := range append([]string{b.key(), b.Proxy}, sortedValues(b.Headers)...) {
			if _, err := filled(value, look); err != nil {
				return err
			}
		}
		if b.key() == "" && !b.ownServer() {
			return errors.New("it has no key: name the variable that holds it (key_env) or a file (key_file)")
		}
	}
	return nil
}

// ownServer is true if the block may do without a key: it is not the provider's
// own service that it asks, or a header carries what proves who asks.
func (b *ModelBlock) ownServer() bool {
	for name := range b.Headers {
		if secretName.MatchString(name) {
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

// build makes the block's model, without its routing keys. An error is fit to be
// shown: it names no secret.
func (b *ModelBlock) build(c *Config, fill fill, log *slog.Logger) (conversation.Model, error) {
	switch b.Provider {
	case providerCommand:
		m, err := command.New(b.command(log))
		if err == nil && !c.Model.Stream {
			return signs{m}, nil
		}
		return m, err
	case providerScripted:
		return c.scripted(b.TokenDelay, b.Script)
	}
	var errs []error
	get := func(value string) string {
		text, err := fill(value)
		errs = append(errs, err)
		return text
	}
	key, proxy := "", ""
	if b.key() != "" {
		key = get(b.key())
	}
	if b.Proxy != "" {
		proxy = b.Proxy
		if reference.MatchString(spelled(proxy)) {
			proxy = get(proxy)
		}
	}
	headers := map[string]string{}
	for name, value := range b.Headers {
		if reference.MatchString(spelled(value)) {
			value = get(value)
		}
		headers[name] = value
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	o := upstream.Options{
		BaseURL: b.BaseURL, Model: b.Model, APIKey: key, Headers: headers, Stream: b.Stream && c.Model.Stream,
		MaxOutputTokens: b.MaxOutputTokens, Temperature: b.Temperature, Extra: b.Extra, IdleTimeout: b.IdleTimeout,
		ConnectTimeout: b.ConnectTimeout, MaxBytes: int64(b.MaxBytes), Proxy: proxy, Label: b.Label,
	}
	if b.Provider == providerAnthropic {
		return anthropic.New(anthropic.Options{Options: o})
	}
	return openai.New(openai.Options{Options: o, API: openai.API(b.API), Alternate: b.Alternate})
}

func (b *ModelBlock) command(log *slog.Logger) command.Options {
	return command.Options{
		Command: b.Command, Args: b.Args, Dir: b.Dir, ContextPairs: b.ContextPairs, Timeout: b.Timeout, Grace: b.Grace,
		MaxConcurrent: b.MaxConcurrent, MaxResponseLength: b.MaxResponseLength, MaxOutput: int(b.MaxOutput),
		Format: command.Format(b.Format), PromptVia: command.PromptVia(b.PromptVia), AskMarker: b.AskMarker,
		TimeoutText: b.TimeoutText, Label: b.Label, Logger: log,
	}
}

// limits are the block's. A command-line agent counts its processes itself: its
// slot is taken until the last of them has gone.
func (b *ModelBlock) limits() routing.Limits {
	l := routing.Limits{MaxConcurrent: b.MaxConcurrent, Burst: b.Burst}
	l.Calls, l.Per, _ = parseRate(b.Rate)
	if b.Provider == providerCommand {
		l.MaxConcurrent = 0
	}
	return l
}

// defaultModel is the name of the model that agents without one use, and why it
// is that one ("" if the configuration says so itself).
func (c *Config) defaultModel(look lookup) (name, why string) {
	if c.Model.Default != autoName {
		return c.Model.Default, ""
	}
	blocks := slices.Clone(c.Models)
	slices.SortStableFunc(blocks, func(a, b ModelBlock) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name))
	})
	var not []string
	for _, b := range blocks {
		if b.Provider == providerScripted {
			continue
		}
		err := b.ready(look)
		if err == nil {
			return b.Name, "it is the first configured model that has what it needs"
		}
		not = append(not, b.Name+": "+err.Error())
	}
	if not == nil {
		return scriptedName, "no other model is configured"
	}
	return scriptedName, "no configured model has what it needs (" + strings.Join(not, "; ") + ")"
}

// modelSet are the models of a run. Only those that somebody uses are made.
type modelSet struct {
	routes    map[string]conversation.Model // by name, "" being the default
	limited   map[string]*routing.Limited   // by name, those that have limits
	commands  map[string]*command.Model     // by name, command-line agents
	fallbacks map[string]fallbacks          // by the name of the model that has them
	made      map[string]conversation.Model // by name, within their limits, without fallbacks
	closers   []io.Closer
}

// fallbacks are a route and the names of its fallbacks, in order.
type fallbacks struct {
	route *routing.Model
	names []string
}

// Close lets go of what the models hold.
func (s *modelSet) Close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// models makes the models of a run, which are to be closed also after an error.
// wrap may be nil.
func (c *Config) models(look lookup, log *slog.Logger, wrap func(conversation.Model) conversation.Model) (*modelSet, error) {
	s := &modelSet{
		routes: map[string]conversation.Model{}, limited: map[string]*routing.Limited{}, commands: map[string]*command.Model{},
		fallbacks: map[string]fallbacks{}, made: map[string]conversation.Model{},
	}
	get := func(name string) (conversation.Model, error) {
		if m := s.made[name]; m != nil {
			return m, nil
		}
		m, limits, err := c.one(name, look, log)
		if err != nil {
			return nil, err
		}
		if closer, ok := m.(io.Closer); ok {
			s.closers = append(s.closers, closer)
		}
		if agent := commandAgent(m); agent != nil {
			s.commands[name] = agent
		}
		if wrap != nil {
			m = wrap(m)
		}
		if limits != (routing.Limits{}) {
			l, err := routing.NewLimited(m, limits)
			if err != nil {
				return nil, err
			}
			s.limited[name], m = l, l
		}
		s.made[name] = m
		return m, nil
	}
	def, why := c.defaultModel(look)
	if why != "" {
		log.Info("model.default is auto: a model was chosen", "model", def, "because", why)
	}
	for _, name := range append(c.agentModels(), def, scriptedName) {
		if s.routes[name] != nil {
			continue
		}
		primary, err := get(name)
		if err != nil {
			return s, fmt.Errorf("model %q: %w", name, err)
		}
		s.routes[name] = primary
		b := c.block(name)
		if b == nil || len(b.Fallback) == 0 {
			continue
		}
		o, names := routing.Options{MaxAttempts: c.Retry.MaxAttempts, Logger: log}, []string(nil)
		for _, other := range b.Fallback {
			if fb := c.block(other); fb != nil {
				if err := fb.ready(look); err != nil {
					log.Warn("a fallback cannot be used and is left out", "model", name, "fallback", other, "err", err)
					continue
				}
			}
			m, err := get(other)
			if err != nil {
				return s, fmt.Errorf("model %q: %w", other, err)
			}
			o.Fallback, names = append(o.Fallback, m), append(names, other)
		}
		route, err := routing.New(name, primary, o)
		if err != nil {
			return s, err
		}
		s.routes[name], s.fallbacks[name] = route, fallbacks{route, names}
	}
	s.routes[""] = s.routes[def]
	return s, nil
}

// commandAgent is the command-line agent that a block has made, nil for others.
func commandAgent(m conversation.Model) *command.Model {
	if s, ok := m.(signs); ok {
		m = s.Model
	}
	agent, _ := m.(*command.Model)
	return agent
}

func (c *Config) agentModels() []string {
	var names []string
	for _, a := range c.Agents {
		if a.Model != "" {
			names = append(names, a.Model)
		}
	}
	return names
}

// one makes the model of a name.
func (c *Config) one(name string, look lookup, log *slog.Logger) (conversation.Model, routing.Limits, error) {
	b := c.block(name)
	if b == nil {
		m, err := c.scripted(c.Scripted.TokenDelay, c.Scripted.Script)
		return m, routing.Limits{}, err
	}
	if b.Provider == providerCommand {
		if err := b.ready(look); err != nil { // it may come: each call looks again
			log.Warn("a command-line agent cannot be started as things are", "model", name, "err", err)
		}
	}
	if u, err := url.Parse(b.BaseURL); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) && (b.key() != "" || len(b.Headers) > 0) {
		log.Warn("a model's key goes over the network without encryption; use https", "model", name)
	}
	m, err := b.build(c, func(value string) (string, error) { return filled(value, look) }, log.With("model", name))
	return m, b.limits(), err
}

// scripted is a scripted model; script is a file, "" = the built-in rules.
func (c *Config) scripted(delay time.Duration, script string) (conversation.Model, error) {
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
		return whole{m}, nil
	}
	return m, nil
}

// notice says what answers, for people.
func (c *Config) notice(name string, m conversation.Model) string {
	if b := c.block(name); b != nil && b.Provider != providerScripted {
		return name + " (" + m.Label() + ")"
	}
	return modelNotice
}

// signs is a model that streams, to a caller who wants none of its text: what it
// streams are signs of life (model.stream = false with a command-line agent, for
// whom there is no other way to say that it works).
type signs struct{ conversation.Model }

// Stream is the model's, without text until the end.
func (s signs) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		for out, err := range s.Model.Stream(ctx, r) {
			out.Delta = ""
			if out.Done != nil {
				whole := *out.Done
				whole.Items = slices.Clone(whole.Items)
				for i := range whole.Items {
					whole.Items[i].Streamed = false
				}
				out.Done = &whole
			}
			if !yield(out, err) {
				return
			}
		}
	}
}
