package actors

import (
	"errors"
	"fmt"
	"time"

	"parley/actors/internal/admission"
	"parley/conversation"
	"parley/conversation/option"
	"parley/conversation/policy"
	"parley/conversation/transcript"
)

// OnFull says what becomes of a message that needs a task when every slot is
// taken (admission.on_full).
type OnFull = admission.OnFull

// The choices.
const (
	OnFullWait   = admission.OnFullWait
	OnFullReject = admission.OnFullReject
)

// Config holds the settings of an Engine. DefaultConfig fills in every limit;
// New refuses a limit of zero and names it, so that a zero is never silently
// the default.
//
// The tags describe a field to the configuration: option.FieldError lists them.
type Config struct {
	Rules policy.Rules // policies, agents and tools; given to every session
	Node  conversation.NodeID

	Member conversation.Member // owns the sessions of this engine in a store that several share; zero = it is the engine's alone

	MaxConcurrent int    `key:"admission.max_concurrent" min:"1" max:"1000000"` // root tasks RUNNING at once on this node; default 64
	OnFull        OnFull `key:"admission.on_full" choices:"wait,reject"`        // default wait

	Idle            time.Duration `key:"session.idle" min:"1ms"`                         // a session without work leaves memory after this long; default 15 min
	IdleJitter      time.Duration `key:"session.idle_jitter" min:"0s"`                   // plus up to this, so that a burst does not leave at once; default 5 min, 0 = none
	CacheIdle       time.Duration `key:"session.cache_idle" min:"1ms"`                   // what can be read again from the log is dropped after this long; default 30 s
	MaxWaiting      int           `key:"session.max_waiting" min:"1"`                    // commands of one session that may wait while it loads, leaves or looks something up; default 1,024
	MaxPending      int           `key:"session.max_pending" min:"1"`                    // commands of one session that may wait for a commit; default 4,096
	MaxWaitingBytes int           `key:"session.max_waiting_bytes" min:"1" unit:"bytes"` // bytes of clients' texts that may wait in one session, for whatever; default 16 MiB
	SeenEvery       time.Duration `key:"session.seen_every" min:"1ms"`                   // read cursors are stored at most this often; default 1 s
	MaxFolds        int           `key:"session.max_folds" min:"1"`                      // passive sessions that are folded for a view at once; default 64
	MaxFoldWait     int           `key:"session.max_fold_wait" min:"1"`                  // views that may wait for that; default 4,096

	SnapshotEvery  int           `key:"session.snapshot_every" min:"1"`   // events between two snapshots, twice the open tasks if that is more; default 256
	SnapshotOnIdle int           `key:"session.snapshot_on_idle" min:"1"` // events that make a snapshot pay when a session leaves memory; default 32
	SettleTimeout  time.Duration `key:"storage.settle_timeout" min:"1ms"` // how long the unknown outcome of a commit is looked for; default 30 s
	FullPause      time.Duration `key:"storage.full_pause" min:"1ms"`     // how long new work is refused after the store was full; default 1 s

	DeltaEvery   time.Duration `key:"model.delta_every" min:"1ms"`           // streamed text is shown at most this often; default 30 ms
	ModelIdle    time.Duration `key:"model.idle_timeout" min:"1ms"`          // a model that says nothing for this long has failed; default 2 min
	TitleModel   string        `key:"titles.model"`                          // names sessions behind their first answer; "" = none does: they are called by their first words
	JudgeModel   string        `key:"receipts.judge"`                        // says which shown text answers which message, where several are open; "" = the agent's own model does
	ModelLimit   time.Duration `key:"model.hard_timeout" min:"1ms"`          // a model call takes at most this long; default 10 min
	ToolOutput   int           `key:"tools.max_output" min:"1" unit:"bytes"` // bytes of a tool's result that are kept; default 256 KiB
	ToolGrace    time.Duration `key:"tools.grace" min:"1ms"`                 // how long a tool may go on after its deadline before it is given up; default 5 s
	ToolDeadline time.Duration // for a tool call that brings no deadline of its own; default 60 s

	TellEvery time.Duration `key:"delegation.tell_every" min:"1ms"` // a delegation's objective is sent again this often until it has an answer; default 5 s
	TellRetry time.Duration `key:"delegation.tell_retry" min:"1ms"` // the first pause after a refused delivery between sessions; default 250 ms

	DueEvery     time.Duration `key:"due.every" min:"1ms"`             // scan for sessions with work to do; default 15 s
	DueParallel  int           `key:"due.parallel" min:"1"`            // sessions that a scan loads at once; default 256
	DrainTimeout time.Duration `key:"drain.timeout" min:"1ms"`         // how long open steps may go on; default 10 s
	RetentionAge time.Duration `key:"retention.max_age" min:"0s"`      // idle sessions are erased after this long; 0 = never
	SweepEvery   time.Duration `key:"retention.sweep_every" min:"1ms"` // how often that is looked at; default 10 min
}

// DefaultConfig is a configuration with every limit at its default. Rules and
// Node are the caller's.
func DefaultConfig() Config {
	return Config{
		MaxConcurrent:   64,
		Idle:            15 * time.Minute,
		IdleJitter:      5 * time.Minute,
		CacheIdle:       30 * time.Second,
		MaxWaiting:      1024,
		MaxPending:      4096,
		MaxWaitingBytes: 16 << 20,
		SeenEvery:       time.Second,
		MaxFolds:        64,
		MaxFoldWait:     4096,
		SnapshotEvery:   256,
		SnapshotOnIdle:  32,
		SettleTimeout:   30 * time.Second,
		FullPause:       time.Second,
		DeltaEvery:      30 * time.Millisecond,
		ModelIdle:       2 * time.Minute,
		ModelLimit:      10 * time.Minute,
		ToolOutput:      256 << 10,
		ToolGrace:       5 * time.Second,
		ToolDeadline:    time.Minute,
		TellEvery:       5 * time.Second,
		TellRetry:       250 * time.Millisecond,
		DueEvery:        15 * time.Second,
		DueParallel:     256,
		DrainTimeout:    10 * time.Second,
		SweepEvery:      10 * time.Minute,
	}
}

// Validate says which options cannot be used, by the keys of the configuration.
// The policy, agents and tools in Rules are not looked at.
func (c *Config) Validate() []option.FieldError {
	wrong := option.OutOfBounds(*c)
	if c.ModelIdle > c.ModelLimit {
		wrong = append(wrong, option.FieldError{Key: "model.idle_timeout", AtMost: "model.hard_timeout"})
	}
	return wrong
}

// validate is Validate, and what takes the agents and tools as well.
func (c *Config) validate() error {
	var errs []error
	for _, wrong := range c.Validate() {
		errs = append(errs, fmt.Errorf("actors: %w", wrong))
	}
	if c.ToolDeadline <= 0 {
		errs = append(errs, errors.New("actors: ToolDeadline must be more than 0"))
	}
	if err := transcript.CheckContext(&c.Rules); err != nil {
		errs = append(errs, fmt.Errorf("actors: %w", err))
	}
	if c.OnFull > OnFullReject {
		errs = append(errs, fmt.Errorf("actors: OnFull %d is not known", c.OnFull))
	}
	return errors.Join(errs...)
}
