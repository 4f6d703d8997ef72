package assemble

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"parley/cmd/parley/internal/config"
	"parley/conversation"
	"parley/models/command"
	"parley/models/fallback"
	"parley/models/given"
	"parley/models/limit"
	"parley/models/window"
)

// ScriptedNotice is said wherever the scripted model could be taken for more than it is.
const ScriptedNotice = "scripted demo model: rules, not AI"

// Models are the models of a run. Only those that somebody uses are made.
type Models struct {
	Routes    map[string]conversation.Model // by name, "" being the default
	limited   map[string]*limit.Model       // by name, those that have limits
	windows   map[string]*window.Model      // by name, those that say what they hold
	given     map[string]*given.Model       // by name, all
	commands  map[string]*command.Model     // by name, command-line agents
	fallbacks map[string]fallbacks          // by the name of the model that has them
	made      map[string]conversation.Model // by name, within their limits, without fallbacks
	closers   []io.Closer
}

// fallbacks are a route and the names of its fallbacks, in order.
type fallbacks struct {
	route *fallback.Model
	names []string
}

// Close lets go of what the models hold.
func (s *Models) Close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Label is a model's label, by its name; "" is the default model.
func (s *Models) Label(name string) string {
	if m := s.Routes[name]; m != nil {
		return m.Label()
	}
	return name
}

// OpenModels makes the models of a run, which are to be closed also after an error.
// wrap may be nil.
func OpenModels(c *config.Config, look config.Lookup, log *slog.Logger, wrap func(conversation.Model) conversation.Model) (*Models, error) {
	s := &Models{
		Routes: map[string]conversation.Model{}, limited: map[string]*limit.Model{}, windows: map[string]*window.Model{}, commands: map[string]*command.Model{},
		given: map[string]*given.Model{}, fallbacks: map[string]fallbacks{}, made: map[string]conversation.Model{},
	}
	get := func(name string) (conversation.Model, error) {
		if m := s.made[name]; m != nil {
			return m, nil
		}
		m, limits, err := one(c, name, look, log)
		if err != nil {
			return nil, err
		}
		if closer, ok := m.(io.Closer); ok {
			s.closers = append(s.closers, closer)
		}
		if agent := config.CommandAgent(m); agent != nil {
			s.commands[name] = agent
		}
		g := given.New(m, attachments(c, name, log))
		s.given[name] = g
		if m = newTold(g, c, name, log); wrap != nil {
			m = wrap(m)
		}
		if b := c.Block(name); b != nil && b.Context > 0 {
			w, err := window.New(m, b.Holds().Request(), log)
			if err != nil {
				return nil, err
			}
			s.windows[name], m = w, w
		}
		if limits != (limit.Limits{}) {
			l, err := limit.New(m, limits)
			if err != nil {
				return nil, err
			}
			s.limited[name], m = l, l
		}
		s.made[name] = m
		return m, nil
	}
	def, why := c.DefaultModel(look)
	if why != "" {
		log.Info("model.default is auto: a model was chosen", "model", def, "because", why)
	}
	for _, name := range append(c.AgentModels(), def, config.ScriptedName) {
		if s.Routes[name] != nil {
			continue
		}
		primary, err := get(name)
		if err != nil {
			return s, fmt.Errorf("model %q: %w", name, err)
		}
		s.Routes[name] = primary
		b := c.Block(name)
		if b == nil || len(b.Fallback) == 0 {
			continue
		}
		o, names := fallback.Options{Acts: []bool{b.Acts}, MaxAttempts: c.Policy().MaxAttempts, MaxRetryAfter: c.Policy().MaxRetryAfter, Logger: log}, []string(nil)
		for _, other := range b.Fallback {
			if fb := c.Block(other); fb != nil {
				if err := fb.Ready(look); err != nil {
					log.Warn("a fallback cannot be used and is left out", "model", name, "fallback", other, "error", err)
					continue
				}
			}
			m, err := get(other)
			if err != nil {
				return s, fmt.Errorf("model %q: %w", other, err)
			}
			fb := c.Block(other)
			o.Fallback, o.Acts, names = append(o.Fallback, m), append(o.Acts, fb != nil && fb.Acts), append(names, other)
		}
		route, err := fallback.New(name, primary, o)
		if err != nil {
			return s, err
		}
		s.Routes[name], s.fallbacks[name] = route, fallbacks{route, names}
	}
	s.Routes[""] = s.Routes[def]
	return s, nil
}

// one makes the model of a name.
func one(c *config.Config, name string, look config.Lookup, log *slog.Logger) (conversation.Model, limit.Limits, error) {
	b := c.Block(name)
	if b == nil {
		m, err := c.ScriptedModel(c.Scripted.Options, c.Scripted.Script)
		return m, limit.Limits{}, err
	}
	if b.Provider == config.ProviderCommand {
		if err := b.Ready(look); err != nil { // it may come: each call looks again
			log.Warn("a command-line agent cannot be started as things are", "model", name, "error", err)
		}
	}
	if b.SendsKeyInClear() {
		log.Warn("a model's key goes over the network without encryption; use https", "model", name)
	}
	m, err := b.Build(c, func(value string) (string, error) { return config.Fill(value, look) }, log.With("model", name))
	return m, b.Limits(), err
}

// Notice says what answers, for people.
func Notice(c *config.Config, name string, m conversation.Model) string {
	if b := c.Block(name); b != nil && b.Provider != config.ProviderScripted {
		return name + " (" + m.Label() + ")"
	}
	return ScriptedNotice
}
