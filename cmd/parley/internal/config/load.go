package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"parley/conversation/option"
	"parley/models/command"
)

// A problem is one thing that is wrong with a configuration.
type problem struct {
	where string // "config.toml:12", "PARLEY_INBOX_MODE", "--set", "config.toml"
	line  int    // of the file, for the order; 0 = no file
	text  string
}

// Error is everything that is wrong with a configuration, so that it can
// be put right at one go. Exit code 2.
type Error struct{ problems []problem }

// NewError is an Error of one problem that is found after reading: where names a
// section or source.
func NewError(where string, err error) *Error {
	return &Error{[]problem{{where: where, text: err.Error()}}}
}

func (e *Error) Error() string {
	lines := make([]string, 0, len(e.problems))
	for _, p := range e.problems {
		lines = append(lines, p.where+": "+p.text)
	}
	return strings.Join(lines, "\n")
}

// Sources are where a configuration comes from, weakest first.
type Sources struct {
	Path     string   // the file
	Required bool     // the file was asked for: its absence is an error
	Environ  []string // KEY=VALUE, as os.Environ
	Listen   string   // --listen; "" = not given
	Data     string   // --data
	Set      []string // --set KEY=VALUE
}

// Load reads defaults < file < environment < command line. Its error is a
// *Error with every problem of every source, or the file's read error.
func Load(s Sources) (Config, error) {
	l := loader{
		lookup: LookupIn(s.Environ),
		config: Default(),
		fields: map[string]field{},
		origin: map[string]problem{},
	}
	for _, f := range fieldsOf(reflect.TypeFor[Config]()) {
		l.fields[f.key] = f
	}
	if s.Path != "" {
		data, err := os.ReadFile(s.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !s.Required:
		case errors.Is(err, fs.ErrNotExist):
			l.complain(problem{where: s.Path}, "there is no such file; leave --config out to run with the defaults")
		case err != nil:
			l.complain(problem{where: s.Path}, "cannot be read: %v", errors.Unwrap(err))
		default:
			l.file(s.Path, data)
		}
	}
	l.environ(s.Environ)
	l.flag("--listen", "listen", s.Listen)
	l.flag("--data", "data", s.Data)
	for _, kv := range s.Set {
		l.assign(kv)
	}
	l.check()
	if len(l.problems) > 0 {
		slices.SortStableFunc(l.problems, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
		return l.config, &Error{l.problems}
	}
	return l.config, nil
}

type loader struct {
	config   Config
	fields   map[string]field
	origin   map[string]problem // where each key was set last, for later complaints
	problems []problem
	broken   map[string]bool // keys with a complaint already

	lookup    Lookup
	variables map[string]bool // of the environment, that the file names
	marked    []string        // command-line agents without an ask_marker of their own
}

func (l *loader) complain(at problem, format string, args ...any) {
	at.text = fmt.Sprintf(format, args...)
	l.problems = append(l.problems, at)
}

// file reads a TOML document twice: go-toml's decoder finds what is not TOML
// and gives the values, its parser gives the line of each key.
func (l *loader) file(path string, data []byte) {
	var doc map[string]any
	if err := toml.Unmarshal(data, &doc); err != nil {
		var bad *toml.DecodeError
		if errors.As(err, &bad) {
			line, column := bad.Position()
			l.complain(problem{where: fmt.Sprintf("%s:%d:%d", path, line, column), line: line}, "%s", strings.TrimPrefix(bad.Error(), "toml: "))
			return
		}
		l.complain(problem{where: path}, "%v", err)
		return
	}
	at := positions(path, data)
	l.table(at, "", doc)
}

func (l *loader) table(at map[string]problem, prefix string, table map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		key := prefix + name
		where := at[key]
		value := table[name]
		if lists := map[string]func(map[string]problem, any){"agents": l.agents, "models": l.models, "mcp": l.mcp, "auth.keys": l.authKeys, "chats.webhooks": l.webhooks}; lists[key] != nil {
			lists[key](at, value)
			continue
		}
		if f, ok := l.fields[key]; ok {
			if err := f.set(reflect.ValueOf(&l.config).Elem(), value); err != nil {
				l.refuse(where, key, showValue(value), err)
				continue
			}
			l.origin[key] = where
			continue
		}
		sub, isTable := value.(map[string]any)
		if isTable && l.isSection(key) {
			l.table(at, key+".", sub)
			continue
		}
		if l.isSection(key) {
			l.complain(where, "%s is a section: write [%s] and its keys below", key, key)
			continue
		}
		l.unknown(where, key)
	}
}

func (l *loader) refuse(where problem, key, shown string, err error) {
	l.breaks(key)
	l.complain(where, "%s = %s: %v", key, shown, err)
}

func (l *loader) isSection(key string) bool {
	for k := range l.fields {
		if strings.HasPrefix(k, key+".") {
			return true
		}
	}
	return false
}

func (l *loader) unknown(where problem, key string) {
	if near := option.Nearest(key, slices.Sorted(maps.Keys(l.fields))); near != "" {
		l.complain(where, "there is no key %s; did you mean %s?", key, near)
		return
	}
	l.complain(where, "there is no key %s; \"parley config print\" shows them all", key)
}

// agents reads the [[agents]] blocks: one of a built-in name changes that agent.
func (l *loader) agents(at map[string]problem, value any) {
	blocks, ok := value.([]any)
	if !ok {
		l.complain(at["agents"], "agents: write each agent as a block that starts with [[agents]]")
		return
	}
	fields := map[string]field{}
	for _, f := range fieldsOf(reflect.TypeFor[Agent]()) {
		fields[f.key] = f
	}
	seen := map[string]bool{}
	for i, b := range blocks {
		prefix := fmt.Sprintf("agents.%d", i)
		table, ok := b.(map[string]any)
		if !ok {
			l.complain(at["agents"], "agents: write each agent as a block that starts with [[agents]]")
			return
		}
		name, _ := table["name"].(string)
		if name == "" {
			l.complain(at[prefix], "an agent needs a name: name = \"…\"")
		} else if seen[name] {
			l.complain(at[prefix], "agent %q is there twice", name)
		}
		seen[name] = true
		agent := Agent{Models: []string{}, MayAsk: true, Tools: []string{"*"}}
		place := slices.IndexFunc(l.config.Agents, func(a Agent) bool { return a.Name == name })
		if place >= 0 {
			agent = l.config.Agents[place]
			if _, ok := table["prompt_file"]; ok {
				agent.Prompt = ""
			}
		}
		for _, k := range slices.Sorted(maps.Keys(table)) {
			where := at[prefix+"."+k]
			f, ok := fields[k]
			if !ok {
				l.complain(where, "an agent has no key %s; it has: %s", k, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
				continue
			}
			if err := f.set(reflect.ValueOf(&agent).Elem(), table[k]); err != nil {
				l.complain(where, "agent %q: %s = %s: %v", name, k, showValue(table[k]), err)
			}
		}
		agent = l.promptFile(at[prefix+".prompt_file"], agent)
		l.origin["agents."+name] = at[prefix]
		if place >= 0 {
			l.config.Agents[place] = agent
		} else {
			l.config.Agents = append(l.config.Agents, agent)
		}
	}
}

// promptFile puts the file's text into Prompt. The path is relative to the
// configuration file, so that the two can be moved together.
func (l *loader) promptFile(where problem, a Agent) Agent {
	if a.PromptFile == "" {
		return a
	}
	if a.Prompt != "" {
		l.complain(where, "agent %q: give prompt or prompt_file, not both", a.Name)
		return a
	}
	text, err := os.ReadFile(beside(where, a.PromptFile))
	if err != nil {
		l.complain(where, "agent %q: prompt_file = %q: %v", a.Name, a.PromptFile, errors.Unwrap(err))
		return a
	}
	a.Prompt = strings.TrimSpace(string(text))
	return a
}

// environ takes every variable that starts with PARLEY_: a misspelt one is a
// problem, not a silence.
func (l *loader) environ(environ []string) {
	byName := map[string]field{}
	for _, f := range l.fields {
		byName[f.env()] = f
	}
	for _, kv := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "PARLEY_") || l.variables[name] || name == command.RunVariable { // that one: an agent has started us
			continue
		}
		where := problem{where: name}
		f, ok := byName[name]
		if !ok {
			if near := option.Nearest(name, slices.Sorted(maps.Keys(byName))); near != "" {
				l.complain(where, "no key belongs to this variable; did you mean %s?", near)
				continue
			}
			l.complain(where, "no key belongs to this variable; the key inbox.mode is PARLEY_INBOX_MODE, and so on")
			continue
		}
		l.text(where, f, value)
	}
}

func (l *loader) flag(flag, key, value string) {
	if value != "" {
		l.text(problem{where: flag}, l.fields[key], value)
	}
}

func (l *loader) assign(kv string) {
	key, value, ok := strings.Cut(kv, "=")
	where := problem{where: "--set " + key}
	if !ok {
		l.complain(where, "write --set KEY=VALUE, for example --set inbox.mode=queue")
		return
	}
	if f, ok := l.fields[strings.TrimSpace(key)]; ok {
		l.text(where, f, value)
		return
	}
	for _, blocks := range []string{"agents", "models", "mcp", "auth.keys", "chats.webhooks"} {
		if key == blocks || strings.HasPrefix(key, blocks+".") {
			l.complain(where, "%s can only be changed in the file", blocks)
			return
		}
	}
	l.unknown(where, key)
}

func (l *loader) text(where problem, f field, value string) {
	if err := f.setText(reflect.ValueOf(&l.config).Elem(), value); err != nil {
		l.refuse(where, f.key, fmt.Sprintf("%q", value), err)
		return
	}
	l.origin[f.key] = where
	delete(l.broken, f.key)
}

// showValue is a value of the file as a complaint quotes it.
func showValue(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%q", v)
	case map[string]any:
		return "a table"
	default:
		return fmt.Sprint(v)
	}
}
