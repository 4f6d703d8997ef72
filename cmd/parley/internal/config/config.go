package config

import (
	"time"

	"parley/actors"
	"parley/cmd/parley/internal/store"
	"parley/conversation"
	"parley/gateway"
)

// Config is everything that an operator may say. A field's toml tag is its key
// (with its section's: "inbox.mode"), and the same dotted key serves --set and,
// as PARLEY_INBOX_MODE, the environment.
//
// The tags choices, min and max are checked mechanically (config_check.go);
// what takes more than one field is in Config.validate. config.toml at the top
// of the repository shows every key with its default; a test holds the two together.
type Config struct {
	Listen      string `toml:"listen"`                                        // host:port of the main listener
	Data        string `toml:"data"`                                          // the data directory; unused with memory.mode = "ephemeral"
	EmptyAnswer string `toml:"empty_answer" choices:"apologise,silent,retry"` // requirements: empty_answer

	Memory     MemoryConfig     `toml:"memory"`
	Inbox      InboxConfig      `toml:"inbox"`
	Admission  AdmissionConfig  `toml:"admission"`
	Coverage   CoverageConfig   `toml:"coverage"`
	Task       TaskConfig       `toml:"task"`
	Reply      ReplyConfig      `toml:"reply"`
	NoReply    NoReplyConfig    `toml:"no_reply"`
	Parts      PartsConfig      `toml:"parts"`
	Retry      RetryConfig      `toml:"retry"`
	Delegation DelegationConfig `toml:"delegation"`
	Tools      ToolsConfig      `toml:"tools"`
	Context    ContextConfig    `toml:"context"`
	Cancel     CancelConfig     `toml:"cancel"`
	Drain      DrainConfig      `toml:"drain"`
	Session    SessionConfig    `toml:"session"`
	Due        DueConfig        `toml:"due"`
	Retention  RetentionConfig  `toml:"retention"`
	Model      ModelConfig      `toml:"model"`
	Scripted   ScriptedConfig   `toml:"scripted"`
	Command    CommandConfig    `toml:"command_agent"`
	Auth       AuthConfig       `toml:"auth"`
	Gateway    GatewayConfig    `toml:"gateway"`
	Admin      AdminConfig      `toml:"admin"`
	Limits     LimitsConfig     `toml:"limits"`
	Storage    StorageConfig    `toml:"storage"`
	Process    ProcessConfig    `toml:"process"`
	Log        LogConfig        `toml:"log"`
	Texts      TextsConfig      `toml:"texts"`
	Channels   ChannelsConfig   `toml:"channels"`
	MCPLimits  MCPLimitsConfig  `toml:"mcp_limits"`

	// Models are the [models.NAME] blocks, by name. The model "scripted" is always
	// there and not among them.
	Models []ModelBlock `toml:"models"`

	// MCP are the [[mcp]] blocks, in the order of the file.
	MCP []MCPBlock `toml:"mcp"`

	// Agents are the built-in ones, changed by [[agents]] blocks of the same
	// name, and then the added ones in the order of the file.
	Agents []Agent `toml:"agents"`
}

// MemoryConfig says how long anything is remembered.
type MemoryConfig struct {
	Mode string `toml:"mode" choices:"durable,ephemeral"` // ephemeral: on a memory file system, gone with the process
}

// InboxConfig says what becomes of messages that arrive while a task runs.
type InboxConfig struct {
	Mode          string        `toml:"mode" choices:"steer,queue,collect,interrupt,reject"`
	CollectWindow time.Duration `toml:"collect_window" min:"1ms" max:"1h"`
	MaxQueued     int           `toml:"max_queued" min:"0" max:"1000000"` // waiting messages of one session; 0 = no limit
	TriageAgent   string        `toml:"triage_agent"`                     // "" = none
}

// AdmissionConfig bounds what runs at once on this node.
type AdmissionConfig struct {
	MaxConcurrent int           `toml:"max_concurrent" min:"1" max:"1000000"` // root tasks RUNNING
	OnFull        string        `toml:"on_full" choices:"wait,reject"`
	MaxWait       time.Duration `toml:"max_wait" min:"0s"` // 0 = for ever
}

// CoverageConfig is the last-resort net under unanswered messages.
type CoverageConfig struct {
	Mode      string `toml:"mode" choices:"strict,seen,off"`
	MaxNudges int    `toml:"max_nudges" min:"0" max:"100"` // per task
}

// TaskConfig bounds a task.
type TaskConfig struct {
	MaxSteps int `toml:"max_steps" min:"1" max:"100000"`
}

// ReplyConfig is about the reply route.
type ReplyConfig struct {
	OnBusy string `toml:"on_busy" choices:"conflict,queue"`
}

// NoReplyConfig names the texts that mean "nothing to say".
type NoReplyConfig struct {
	Sentinels []string `toml:"sentinels"`
	Fallback  bool     `toml:"fallback"` // true: they are shown like any text
}

// PartsConfig holds the kill switch of several parts per answer.
type PartsConfig struct {
	Enabled bool `toml:"enabled"`
}

// RetryConfig is about model calls that fail or are cut off by a crash.
type RetryConfig struct {
	MaxAttempts    int           `toml:"max_attempts" min:"1" max:"100"`
	MaxInterrupted int           `toml:"max_interrupted" min:"0" max:"1000"`
	BackoffMin     time.Duration `toml:"backoff_min" min:"0s"`
	BackoffMax     time.Duration `toml:"backoff_max" min:"0s"`
}

// DelegationConfig bounds delegations.
type DelegationConfig struct {
	Timeout     time.Duration `toml:"timeout" min:"1ms"`
	MaxDepth    int           `toml:"max_depth" min:"0" max:"16"`
	MaxParallel int           `toml:"max_parallel" min:"1" max:"1000"` // per task
	TellEvery   time.Duration `toml:"tell_every" min:"1ms"`            // a delegation is told again this often until it answers
	TellRetry   time.Duration `toml:"tell_retry" min:"1ms"`            // the first pause after a delivery between sessions was refused
}

// ToolsConfig bounds tool calls.
type ToolsConfig struct {
	Timeout   time.Duration `toml:"timeout" min:"1ms"`
	Grace     time.Duration `toml:"grace" min:"1ms"`    // after its deadline, before a tool that does not stop is given up
	MaxOutput Bytes         `toml:"max_output" min:"1"` // of a result; the rest is cut
}

// ContextConfig bounds what a model is shown, in tokens as conversation.Tokens
// estimates them.
type ContextConfig struct {
	Budget     int   `toml:"budget" min:"0"`      // a larger request is shown less; 0 = no limit
	Threshold  int   `toml:"threshold" min:"0"`   // a larger context is summarised; 0 = never
	Keep       int   `toml:"keep" min:"0"`        // what stays verbatim then
	Summary    int   `toml:"summary" min:"0"`     // a longer summary is cut
	ToolResult Bytes `toml:"tool_result" min:"0"` // bytes of a call's result that are shown; 0 = all of it
}

// CancelConfig is about tools that do not stop when they are told to.
type CancelConfig struct {
	Grace time.Duration `toml:"grace" min:"0s"`
}

// DrainConfig is about the end of the process.
type DrainConfig struct {
	Timeout time.Duration `toml:"timeout" min:"1ms"`
}

// SessionConfig is about sessions in memory.
type SessionConfig struct {
	Idle           time.Duration `toml:"idle" min:"1ms"`           // a session with nothing to do leaves memory after this
	IdleJitter     time.Duration `toml:"idle_jitter" min:"0s"`     // plus up to this
	CacheIdle      time.Duration `toml:"cache_idle" min:"1ms"`     // its transcript leaves memory after this
	MaxWaiting     int           `toml:"max_waiting" min:"1"`      // commands while it loads
	MaxPending     int           `toml:"max_pending" min:"1"`      // commands that wait for a commit
	MaxFolds       int           `toml:"max_folds" min:"1"`        // sessions not in memory that are read at once
	MaxFoldWait    int           `toml:"max_fold_wait" min:"1"`    // reads that may wait for that
	SeenEvery      time.Duration `toml:"seen_every" min:"1ms"`     // read cursors are stored at most this often
	SnapshotEvery  int           `toml:"snapshot_every" min:"1"`   // events between two snapshots
	SnapshotOnIdle int           `toml:"snapshot_on_idle" min:"1"` // events that make one worth while when it leaves memory
}

// DueConfig is about the scan for sessions that have something to do.
type DueConfig struct {
	Every    time.Duration `toml:"every" min:"1ms"`
	Parallel int           `toml:"parallel" min:"1"` // sessions that it loads at once
}

// RetentionConfig says when idle sessions are erased.
type RetentionConfig struct {
	MaxAge     time.Duration `toml:"max_age" min:"0s"` // 0 = never
	SweepEvery time.Duration `toml:"sweep_every" min:"1ms"`
}

// ModelConfig is about the model that agents without one of their own use.
type ModelConfig struct {
	Default     string        `toml:"default"`               // the name of a model; "auto": the first configured one that has what it needs, else scripted
	Stream      bool          `toml:"stream"`                // false: answers come whole, without deltas
	DeltaEvery  time.Duration `toml:"delta_every" min:"1ms"` // streamed text is shown at most this often
	IdleTimeout time.Duration `toml:"idle_timeout" min:"1ms"`
	HardTimeout time.Duration `toml:"hard_timeout" min:"1ms"`
}

// ScriptedConfig is about the scripted demo model.
type ScriptedConfig struct {
	TokenDelay time.Duration `toml:"token_delay" min:"0s" max:"10s"`
	Script     string        `toml:"script"` // a file that replaces the built-in rules; "" = built in
}

// CommandConfig is about all command-line agents.
type CommandConfig struct {
	AskMarker string `toml:"ask_marker"` // of the blocks that say nothing else
}

// AuthConfig says how clients prove who they are.
type AuthConfig struct {
	Mode string `toml:"mode"`
}

// GatewayConfig is about browsers and proxies.
type GatewayConfig struct {
	AllowedOrigins []string `toml:"allowed_origins"` // "https://app.example.org"
	PublicHosts    []string `toml:"public_hosts"`    // "chat.example.org"

	HelloTimeout   time.Duration `toml:"hello_timeout" min:"1ms"`   // how long a socket may be without hello
	Heartbeat      time.Duration `toml:"heartbeat" min:"1ms"`       // of silence, before the server speaks up
	ReadDeadline   time.Duration `toml:"read_deadline" min:"1ms"`   // silence of a client that ends its connection
	WriteTimeout   time.Duration `toml:"write_timeout" min:"1ms"`   // a write blocked for longer ends its connection
	CloseTimeout   time.Duration `toml:"close_timeout" min:"1ms"`   // the wait for the answer to a close frame
	RequestTimeout time.Duration `toml:"request_timeout" min:"1ms"` // of an HTTP request, or of the wait for an engine's answer
	WaitMax        time.Duration `toml:"wait_max" min:"1ms"`        // the longest ?wait=
	SSEComment     time.Duration `toml:"sse_comment" min:"1ms"`     // of silence on an SSE stream, before a comment
	DrainSpread    time.Duration `toml:"drain_spread" min:"0s"`     // at the end clients are told to come back within this time
}

// AdminConfig is about the listener for operators.
type AdminConfig struct {
	Listen string `toml:"listen"` // "" = none
}

// LimitsConfig bounds what clients may do; 0 = none.
type LimitsConfig struct {
	FrameBytes                       Bytes `toml:"frame_bytes" min:"0"`
	TextBytes                        Bytes `toml:"text_bytes" min:"0"`
	CommandsPerSecond                int   `toml:"commands_per_second" min:"0"`
	CommandsBurst                    int   `toml:"commands_burst" min:"0"`
	FollowsPerConnection             int   `toml:"follows_per_connection" min:"0"`
	ConnectionsPerUser               int   `toml:"connections_per_user" min:"0"`
	ConnectionsPerTenant             int   `toml:"connections_per_tenant" min:"0"`
	ConnectionsBeforeHello           int   `toml:"connections_before_hello" min:"0"`
	ConnectionsBeforeHelloPerAddress int   `toml:"connections_before_hello_per_address" min:"0"`
	ReplayPage                       int   `toml:"replay_page" min:"1" max:"10000"` // events read at a time; cannot be 0
	ReplayMax                        int   `toml:"replay_max" min:"0"`              // how far back a follow may begin, in events
	QueueFrames                      int   `toml:"queue_frames" min:"1"`            // frames that may wait for one connection; cannot be 0
	QueueBytes                       Bytes `toml:"queue_bytes" min:"1"`             // bytes that may; cannot be 0
	BodyBytes                        Bytes `toml:"body_bytes" min:"1"`              // of an HTTP request; cannot be 0
	Streams                          int   `toml:"streams" min:"0"`                 // open SSE streams
}

// StorageConfig is about the embedded store and the disk under it.
type StorageConfig struct {
	SoftFree Bytes `toml:"soft_free" min:"0" auto:"true"` // free bytes below which commands from outside are refused
	HardFree Bytes `toml:"hard_free" min:"0" auto:"true"` // free bytes below which everything is
	Ballast  Bytes `toml:"ballast" min:"0"`               // a file that is given up when the disk is full all the same; 0 = none

	CheckEvery time.Duration `toml:"check_every" min:"1ms"` // how often free space is read
	MemTable   Bytes         `toml:"mem_table" min:"1"`     // size of a memory table
	Cache      Bytes         `toml:"cache" min:"1"`         // size of the block cache
	Heads      int           `toml:"heads" min:"1"`         // sessions whose head is kept in memory for the next commit

	SettleTimeout time.Duration `toml:"settle_timeout" min:"1ms"` // how long the outcome of an unclear commit is looked for
	FullPause     time.Duration `toml:"full_pause" min:"1ms"`     // commands are refused for this long after the store was full
}

// ProcessConfig is about the process as a whole.
type ProcessConfig struct {
	HeapFloor Bytes `toml:"heap_floor" min:"0"` // the heap grows to this before it is collected; 0 = Go's own rule
}

// LogConfig is about the program's own log, on standard error.
type LogConfig struct {
	Level  string `toml:"level" choices:"debug,info,warn,error"`
	Format string `toml:"format" choices:"auto,text,json"` // auto: text on a terminal, else JSON
}

// TextsConfig are the sentences that the engine itself says to users.
type TextsConfig struct {
	Busy       string `toml:"busy"`
	Overloaded string `toml:"overloaded"`
	Empty      string `toml:"empty"`
	Failed     string `toml:"failed"`
	Limit      string `toml:"limit"`
}

// ChannelsConfig gives the doors that messages come through a mode of their own.
type ChannelsConfig struct {
	WebSocket ChannelConfig `toml:"websocket"`
	HTTP      ChannelConfig `toml:"http"`
}

// ChannelConfig is one door.
type ChannelConfig struct {
	Mode string `toml:"mode" choices:",steer,queue,collect,interrupt,reject"` // "" = inbox.mode
}

// Agent is one agent.
type Agent struct {
	Name        string   `toml:"name"`
	Description string   `toml:"description"`                    // shown to the agents that may delegate to it
	Prompt      string   `toml:"prompt"`                         // the system prompt
	PromptFile  string   `toml:"prompt_file"`                    // or a file that holds it, beside the configuration file
	Model       string   `toml:"model"`                          // a name of [models.NAME], or "scripted"; "" = model.default
	Tools       []string `toml:"tools"`                          // names of tools; "*" = all
	MaxSteps    int      `toml:"max_steps" min:"0" max:"100000"` // 0 = task.max_steps
	MayAsk      bool     `toml:"may_ask"`
	Delegates   bool     `toml:"delegates"`
	Delegable   bool     `toml:"delegable"`
	Coverage    string   `toml:"coverage" choices:",strict,seen,off"` // "" = coverage.mode
}

// Bytes is a size: in a file a number of bytes, or a text such as "256 KiB".
// Where "auto" is allowed it is store.Auto, a negative number.
type Bytes int64

// Default is the configuration of someone who says nothing.
func Default() Config {
	p, a, g := conversation.DefaultPolicy(), actors.DefaultConfig(), gateway.DefaultConfig()
	return Config{
		Listen:      "127.0.0.1:8080",
		Data:        "./data",
		EmptyAnswer: p.EmptyAnswer.String(),
		Memory:      MemoryConfig{Mode: "durable"},
		Inbox:       InboxConfig{Mode: p.Mode.String(), CollectWindow: p.CollectWindow, MaxQueued: p.MaxQueued},
		Admission:   AdmissionConfig{MaxConcurrent: a.MaxConcurrent, OnFull: "wait", MaxWait: p.MaxWait},
		Coverage:    CoverageConfig{Mode: p.Coverage.String(), MaxNudges: p.MaxNudges},
		Task:        TaskConfig{MaxSteps: p.MaxSteps},
		Reply:       ReplyConfig{OnBusy: p.ReplyOnBusy.String()},
		NoReply:     NoReplyConfig{Sentinels: p.Sentinels, Fallback: p.Fallback},
		Parts:       PartsConfig{Enabled: p.PartsEnabled},
		Retry: RetryConfig{
			MaxAttempts: p.MaxAttempts, MaxInterrupted: p.MaxInterrupts,
			BackoffMin: p.BackoffMin, BackoffMax: p.BackoffMax,
		},
		Delegation: DelegationConfig{
			Timeout: p.DelegateTime, MaxDepth: p.MaxDepth, MaxParallel: p.MaxParallel,
			TellEvery: a.TellEvery, TellRetry: a.TellRetry,
		},
		Tools: ToolsConfig{Timeout: p.ToolTimeout, Grace: a.ToolGrace, MaxOutput: Bytes(a.ToolOutput)},
		Context: ContextConfig{
			Budget: p.Context.Budget, Threshold: p.Context.Threshold, Keep: p.Context.Keep,
			Summary: p.Context.Summary, ToolResult: Bytes(p.Context.ToolResult),
		},
		Cancel: CancelConfig{Grace: p.CancelGrace},
		Drain:  DrainConfig{Timeout: a.DrainTimeout},
		Session: SessionConfig{
			Idle: a.Idle, IdleJitter: a.IdleJitter, CacheIdle: a.CacheIdle,
			MaxWaiting: a.MaxWaiting, MaxPending: a.MaxPending, MaxFolds: a.MaxFolds, MaxFoldWait: a.MaxFoldWait,
			SeenEvery: a.SeenEvery, SnapshotEvery: a.SnapshotEvery, SnapshotOnIdle: a.SnapshotOnIdle,
		},
		Due:       DueConfig{Every: a.DueEvery, Parallel: a.DueParallel},
		Retention: RetentionConfig{MaxAge: a.RetentionAge, SweepEvery: a.SweepEvery},
		Model: ModelConfig{
			Default: "scripted", Stream: true, DeltaEvery: a.DeltaEvery,
			IdleTimeout: a.ModelIdle, HardTimeout: a.ModelLimit,
		},
		Scripted: ScriptedConfig{TokenDelay: 20 * time.Millisecond},
		Auth:     AuthConfig{Mode: "none"},
		Gateway: GatewayConfig{
			AllowedOrigins: []string{}, PublicHosts: []string{},
			HelloTimeout: g.Times.Hello, Heartbeat: g.Times.Heartbeat, ReadDeadline: g.Times.ReadDeadline,
			WriteTimeout: g.Times.Write, CloseTimeout: g.Times.Close, RequestTimeout: g.Times.Request,
			WaitMax: g.Times.WaitMax, SSEComment: g.Times.Comment, DrainSpread: g.Times.DrainSpread,
		},
		Limits: LimitsConfig{
			FrameBytes: Bytes(g.Limits.FrameBytes), TextBytes: Bytes(g.Limits.TextBytes),
			CommandsPerSecond: int(g.Limits.CommandsPerSecond), CommandsBurst: g.Limits.CommandsBurst,
			FollowsPerConnection:             g.Limits.FollowsPerConnection,
			ConnectionsPerUser:               g.Limits.ConnectionsPerUser,
			ConnectionsPerTenant:             g.Limits.ConnectionsPerTenant,
			ConnectionsBeforeHello:           g.Limits.ConnectionsBeforeHello,
			ConnectionsBeforeHelloPerAddress: g.Limits.ConnectionsBeforeHelloByAddress,
			ReplayPage:                       g.Limits.ReplayPage, ReplayMax: g.Limits.ReplayMax,
			QueueFrames: g.Limits.QueueFrames, QueueBytes: Bytes(g.Limits.QueueBytes),
			BodyBytes: Bytes(g.Limits.BodyBytes), Streams: g.Limits.Streams,
		},
		Process: ProcessConfig{HeapFloor: 128 << 20},
		Storage: StorageConfig{
			SoftFree: store.Auto, HardFree: store.Auto, Ballast: Bytes(store.Defaults().Ballast),
			CheckEvery: time.Second, MemTable: 128 << 20, Cache: 64 << 20, Heads: 16384,
			SettleTimeout: a.SettleTimeout, FullPause: a.FullPause,
		},
		Log: LogConfig{Level: "info", Format: "auto"},
		Texts: TextsConfig{
			Busy: p.Texts.Busy, Overloaded: p.Texts.Overloaded, Empty: p.Texts.Empty,
			Failed: p.Texts.Failed, Limit: p.Texts.Limit,
		},
		MCPLimits: defaultMCPLimits(),
		Agents:    builtinAgents(),
	}
}
