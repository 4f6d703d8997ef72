package config

import (
	"parley/actors"
	"parley/cmd/parley/internal/backups"
	"parley/cmd/parley/internal/config/platforms"
	"parley/cmd/parley/internal/store"
	"parley/conversation/policy"
	"parley/gateway"
	"parley/gateway/attach"
	"parley/gateway/audit"
	"parley/gateway/auth"
	"parley/gateway/feed"
	"parley/gateway/push"
	"parley/gateway/webhook"
	"parley/metrics"
	"parley/metrics/tracing"
	"parley/models/scripted"
	"parley/tools/mcp"
)

// Config is everything that an operator may say. The options of a room are the
// room's own struct, with its defaults; what is left here belongs to the program.
//
// A field's key tag is its key ("inbox.mode"), and the same dotted key serves
// --set and, as PARLEY_INBOX_MODE, the environment. option.FieldError lists
// the other tags; they are checked mechanically (fields.go), what takes more than
// one field by the rooms' Validate and in check.go. config.toml at the top of the
// repository shows every key with its default; a test holds the two together.
type Config struct {
	Data   string `key:"data"`                                    // the data directory; unused with memory.mode = "ephemeral"
	Memory string `key:"memory.mode" choices:"durable,ephemeral"` // ephemeral: on a memory file system, gone with the process

	Engine    actors.Config  // with the policy in Rules; internal/assemble adds agents, tools and Node
	Gateway   gateway.Config // internal/assemble adds Node, Version and Model
	Auth      auth.SignIn    // how clients prove who they are; with its [[auth.keys]] blocks
	Audit     audit.Keep
	Store     store.Options // main adds Logger, Metrics and OnFatal
	Shared    SharedStore   // the store that several nodes share
	Cluster   Cluster
	MCPLimits mcp.Limits // of any MCP server

	Model    Model
	Scripted Scripted
	Process  Process
	Log      Log
	Backup   backups.Settings
	Tracing  tracing.Config
	Metrics  metrics.Options // internal/assemble adds Prices
	Channels platforms.Channels
	Feeds    feed.Polling
	Files    attach.Settings   // what is attached to messages
	Kept     webhook.Retention // of feeds
	Pushes   push.Rules        // which addresses of clients are told of tasks

	AskMarker string `key:"command_agent.ask_marker"` // of the command-line agents that say nothing else

	// Models are the [models.NAME] blocks, by name. The model "scripted" is always
	// there and not among them.
	Models []ModelBlock `blocks:"models"`

	// Webhooks are the [[chats.webhooks]] blocks, in the order of the file.
	Webhooks []webhook.Hook `blocks:"chats.webhooks"`

	// MCP are the [[mcp]] blocks, in the order of the file.
	MCP []MCPBlock `blocks:"mcp"`

	// Agents are the built-in ones, changed by [[agents]] blocks of the same
	// name, and then the added ones in the order of the file.
	Agents []Agent `blocks:"agents"`
}

// Policy is the policy of sessions that have none of their own.
func (c *Config) Policy() *policy.Policy { return &c.Engine.Rules.Policy }

// Ephemeral is true if nothing is kept on disk.
func (c *Config) Ephemeral() bool { return c.Memory == "ephemeral" }

// directory is where the sessions are; "" = in memory.
func (c *Config) directory() string {
	if c.Ephemeral() {
		return ""
	}
	return c.Data
}

// Model is about the model that agents without one of their own use.
type Model struct {
	Default string `key:"model.default"` // the name of a model; "auto": the first configured one that has what it needs, else scripted
	Stream  bool   `key:"model.stream"`  // false: answers come whole, without deltas
}

// Scripted is about the scripted demo model.
type Scripted struct {
	Options scripted.Options `prefix:"scripted."`    // without Script
	Script  string           `key:"scripted.script"` // a file that replaces the built-in rules; "" = built in
}

// Process is about the process as a whole.
type Process struct {
	Procs      int   `key:"process.procs" min:"0" max:"1024"`        // threads that run Go code at a time; 0 = by the number of processors
	Contention bool  `key:"process.contention"`                      // the profiles of locks and waits are recorded
	HeapFloor  int64 `key:"process.heap_floor" min:"0" unit:"bytes"` // the heap grows to this before it is collected; 0 = Go's own rule
}

// Log is about the program's own log, on standard error.
type Log struct {
	Level  string `key:"log.level" choices:"debug,info,warn,error"`
	Format string `key:"log.format" choices:"auto,text,json"` // auto: text on a terminal, else JSON

	Requests bool `key:"log.requests"`                     // a line for each HTTP request and each command of a WebSocket
	Repeat   int  `key:"log.repeat" min:"0" max:"1000000"` // warnings and errors of the same message in ten seconds before the rest are left out; 0 = none are
}

// Agent is one agent.
type Agent struct {
	Name        string   `key:"name"`
	Description string   `key:"description"`                    // shown to the agents that may delegate to it
	Prompt      string   `key:"prompt"`                         // the system prompt
	PromptFile  string   `key:"prompt_file"`                    // or a file that holds it, beside the configuration file
	Model       string   `key:"model"`                          // a name of [models.NAME], or "scripted"; "" = model.default
	Models      []string `key:"models"`                         // others that a session may have it answer with
	Tools       []string `key:"tools"`                          // names of tools; "*" = all
	MaxSteps    int      `key:"max_steps" min:"0" max:"100000"` // 0 = task.max_steps
	MayAsk      bool     `key:"may_ask"`
	Delegates   bool     `key:"delegates"`
	Delegable   bool     `key:"delegable"`
	Coverage    string   `key:"coverage" choices:",strict,seen,off"` // "" = coverage.mode
	Read        string   `key:"read" choices:",auto,one,all"`        // "" = inbox.read
}

// Default is the configuration of someone who says nothing.
func Default() Config {
	c := Config{
		Data: "./data", Memory: "durable", Auth: auth.DefaultSignIn(),
		Engine: actors.DefaultConfig(), Gateway: gateway.DefaultConfig(), Audit: audit.DefaultKeep(), Store: store.Defaults(), Shared: defaultShared(), Cluster: defaultCluster(), MCPLimits: mcp.DefaultLimits(),
		Model:    Model{Default: ScriptedName, Stream: true},
		Scripted: Scripted{Options: scripted.DefaultOptions()},
		Process:  Process{HeapFloor: 128 << 20},
		Log:      Log{Level: "info", Format: "auto", Repeat: 10}, Backup: backups.Defaults(),
		Tracing:  tracing.DefaultConfig(),
		Metrics:  metrics.Defaults(),
		Channels: platforms.Default(), Feeds: feed.DefaultPolling(), Files: attach.Defaults(), Kept: webhook.DefaultRetention(), Pushes: push.DefaultRules(),
		Agents: builtinAgents(),
	}
	c.Engine.Rules.Policy = policy.DefaultPolicy()
	c.Gateway.AllowedOrigins, c.Gateway.PublicHosts, c.Gateway.TrustedProxies, c.Gateway.TLS.ACMEHosts, c.Gateway.Starters = []string{}, []string{}, []string{}, []string{}, []string{} // as they are read back
	return c
}
