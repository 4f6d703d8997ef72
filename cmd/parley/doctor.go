package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"parley/cmd/parley/internal/assemble"
	"parley/cmd/parley/internal/config"
	"parley/cmd/parley/internal/store"
)

// errDoctor says that at least one check failed; the checks have said which.
var errDoctor = errors.New("this server would not start, or not answer, as it is; see above")

// doctor looks at what a start needs, without starting: the configuration (read
// already), the data directory, the address, the models, the MCP servers and the channels. Models
// are asked for nothing that costs, platforms who the bot is; MCP servers are started or
// connected to, and let go.
func (m *Main) doctor(ctx context.Context) error {
	bad := false
	say := func(what string, err error, fine string) {
		if err != nil {
			bad = true
			fmt.Fprintf(m.Stdout, "BAD %-13s %v\n", what, m.explain(err))
			return
		}
		fmt.Fprintf(m.Stdout, "ok  %-13s %s\n", what, fine)
	}
	note := func(what, text string) { fmt.Fprintf(m.Stdout, "-   %-13s %s\n", what, text) }
	file := "built-in defaults"
	if m.configPath != "" {
		file = m.configPath
	}
	say("configuration", nil, file)
	for _, risk := range m.Config.Risks() {
		note("risk", risk.Code+": "+risk.Text)
	}
	if m.Config.Shared.Postgres != "" {
		m.checkShared(ctx, say, note)
	} else if m.Config.Ephemeral() {
		say("data", nil, "none: memory.mode is ephemeral")
	} else {
		m.checkData(say, note)
	}
	m.checkBackups(say, note)
	say("address", checkAddress(ctx, m.Config.Gateway.Listen), m.Config.Gateway.Listen)
	if m.Config.Gateway.AdminListen != "" {
		say("admin address", checkAddress(ctx, m.Config.Gateway.AdminListen), m.Config.Gateway.AdminListen)
	}
	m.checkCluster(ctx, say)
	m.checkSignIn(say, note)
	m.checkModels(ctx, say, note)
	m.checkMCP(ctx, say, note)
	m.checkChannels(ctx, say, note)
	m.checkWebhooks(ctx, say, note)
	if bad {
		return errDoctor
	}
	return nil
}

// checkData looks at the store as a start would, and reads its tables, which may
// take minutes: every few seconds it says how far it is.
func (m *Main) checkData(say func(what string, err error, fine string), note func(what, text string)) {
	last := time.Now()
	notes, err := store.Check(m.Config.Data, func(done, total int64) {
		if now := time.Now(); now.Sub(last) > 3*time.Second {
			last = now
			note("data", fmt.Sprintf("%d of %d MiB of %s are read", done>>20, total>>20, m.Config.Data))
		}
	})
	say("data", err, m.Config.Data)
	for _, text := range notes {
		note("data", text)
	}
}

func checkAddress(ctx context.Context, addr string) error {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}

// checkModels says of each model whether it has what it needs: its key, its program
// and an address that knows the key and the model. An unused one need not.
func (m *Main) checkModels(ctx context.Context, say func(what string, err error, fine string), note func(what, text string)) {
	c, look := &m.Config, config.LookupIn(m.Environ)
	def, why := c.DefaultModel(look)
	used, fallbacks := c.UsedModels(def)
	if b := c.Block(def); b == nil || b.Provider == config.ProviderScripted {
		say("model", nil, assemble.ScriptedNotice)
	} else {
		say("model", nil, def)
	}
	if why != "" {
		note("model", `model.default is "auto": `+why)
	}
	var found map[string]assemble.Found
	if !m.line.Doctor.Offline {
		found = assemble.Probe(ctx, c, look, probeTime)
	}
	for i := range c.Models {
		b := &c.Models[i]
		what, fine := "model "+b.Name, b.Provider
		switch b.Provider {
		case config.ProviderCommand:
			fine = "the program " + b.Command.Command + " is there"
		case config.ProviderOpenAI, config.ProviderAnthropic:
			fine = b.Connection().Model + " at " + host(b.Connection().BaseURL)
			if f := found[b.Name]; f.Says != "" {
				fine = b.Connection().Model + ", " + f.Says
			} else if m.line.Doctor.Offline {
				fine += ", not asked"
			}
			if b.Key() == "" {
				fine += "; without a key"
			} else {
				fine += "; its key is there"
			}
		}
		err, lacks := found[b.Name].Err, b.Ready(look)
		switch {
		case lacks != nil && fallbacks[b.Name]: // the server starts without it
			note(what, "a fallback, and left out: "+lacks.Error())
		case lacks != nil && !used[b.Name], err != nil && !used[b.Name] && !fallbacks[b.Name]:
			note(what, "not used, and could not be: "+errors.Join(lacks, err).Error())
		default:
			say(what, errors.Join(lacks, err), fine)
		}
		if b.Provider == config.ProviderCommand {
			for _, text := range agentNotes(c, b, m.configPath, ownAccount()) {
				note(what, text)
			}
		}
	}
}

// probeTime is how long a model's address may take to answer.
const probeTime = 5 * time.Second

func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// checkMCP connects to the MCP servers. One that is not there does not keep the
// engine from starting.
func (m *Main) checkMCP(ctx context.Context, say func(what string, err error, fine string), note func(what, text string)) {
	alone := m.Config.Shared.Postgres == ""
	for _, b := range m.Config.MCP {
		if b.Singleton && !alone { // it may run on a node, and must not run twice
			note("mcp "+b.Name, "one node of the cluster runs it; it is not started here")
		}
	}
	servers, err := assemble.OpenMCP(ctx, &m.Config, alone, config.BuiltinTools(), nil, config.LookupIn(m.Environ), slog.New(slog.DiscardHandler))
	if err != nil {
		say("mcp", err, "")
		return
	}
	if servers == nil {
		return
	}
	defer servers.Close()
	for _, s := range servers.Status() {
		what := "mcp " + s.Name
		if s.Connects == 0 {
			note(what, "not connected; the server would start without its tools: "+s.Err)
			continue
		}
		say(what, nil, fmt.Sprintf("%s, %d tools: %s", s.Target, len(s.Tools), strings.Join(s.Tools, ", ")))
		if s.Resources > 0 {
			note(what, fmt.Sprintf("resources: %d, as %s", s.Resources, strings.Join(s.ResourceNames, ", ")))
		}
		if s.Prompts > 0 {
			note(what, fmt.Sprintf("prompts: %d, as %s", s.Prompts, strings.Join(s.PromptNames, ", ")))
		}
		if len(s.Missing) > 0 {
			note(what, "it does not have: "+strings.Join(s.Missing, ", "))
		}
		for _, r := range s.Refused {
			note(what, "cannot be used: "+r)
		}
	}
}
