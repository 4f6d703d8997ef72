package command

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"parley/conversation"
	"parley/conversation/option"
	"parley/models/command/internal/guard"
	"parley/models/internal/gate"
)

// RunVariable is a variable in the environment of an agent and of all that it starts.
const RunVariable = guard.RunVariable

// Model is a command-line agent. It holds no state of a conversation and may be
// used by any number of goroutines.
type Model struct {
	o     Options
	log   *slog.Logger
	gate  *gate.Gate // one slot for each process whose group has not gone
	pulse time.Duration

	running, waiting                 atomic.Int64
	started, failed, timeouts, kills atomic.Int64
	cut, strays                      atomic.Int64
}

var _ conversation.Model = (*Model)(nil)

// New checks the options; errors have the names of the configuration. Whether
// the program is there is looked at by Check.
func New(o Options) (*Model, error) {
	if err := option.JoinFieldErrors(o.Validate()); err != nil {
		return nil, fmt.Errorf("command: %w", err)
	}
	if o.Label == "" {
		o.Label = "command:" + strings.Join(strings.Fields(filepath.Base(o.Command)), "_")
	}
	m := &Model{o: o, log: o.Logger, gate: gate.New(o.MaxConcurrent), pulse: gate.Pulse}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	return m, nil
}

// Label names the model.
func (m *Model) Label() string { return m.o.Label }

// Check says why the agent could not be started, without starting it.
func (m *Model) Check() error {
	if m.o.Dir != "" {
		info, err := os.Stat(m.o.Dir)
		if err != nil {
			return fmt.Errorf("dir: %w", err)
		}
		if !info.IsDir() {
			return fmt.Errorf("dir: %s is not a directory", m.o.Dir)
		}
	}
	program := m.o.Command
	if strings.ContainsRune(program, filepath.Separator) && !filepath.IsAbs(program) {
		program = filepath.Join(m.o.Dir, program) // as the process itself would see it
		if !strings.ContainsRune(program, filepath.Separator) {
			program = "." + string(filepath.Separator) + program
		}
	}
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("command: %w", err)
	}
	return guard.Available()
}

// Stats are counts of a model, for metrics.
type Stats struct {
	Running  int64 // processes that have not gone, or have left others that have not
	Waiting  int64 // calls that wait because max_concurrent processes run
	Started  int64 // processes so far
	Failed   int64 // calls that ended with a failure, timeouts included
	Timeouts int64 // processes that ran into the timeout
	Kills    int64 // processes that had to be killed after the grace
	Strays   int64 // processes that had left their agent's group, and were killed
	Cut      int64 // answers that lost something at max_output
}

// Stats returns the counts as of now.
func (m *Model) Stats() Stats {
	return Stats{
		Running: m.running.Load(), Waiting: m.waiting.Load(), Started: m.started.Load(), Failed: m.failed.Load(),
		Timeouts: m.timeouts.Load(), Kills: m.kills.Load(), Strays: m.strays.Load(), Cut: m.cut.Load(),
	}
}

// Stream asks once. An output without a delta is a sign of life. It returns
// when every process of the call has gone, also when ctx ends or the caller
// breaks: within the grace and a moment. Errors are the context's, or a
// *conversation.ModelError.
func (m *Model) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		c := &call{m: m, r: &r, streamed: map[int]bool{}, yield: yield}
		answer, err := c.ask(ctx)
		switch {
		case errors.Is(err, gate.ErrStopped):
		case err != nil:
			var failure *conversation.ModelError
			if errors.As(err, &failure) {
				m.failed.Add(1)
			}
			yield(conversation.Output{}, err)
		default:
			yield(conversation.Output{Done: answer}, nil)
		}
	}
}

// call is one call.
type call struct {
	m        *Model
	r        *conversation.Request
	yield    func(conversation.Output, error) bool
	stopped  bool // the caller reads no more
	streamed map[int]bool
}

// emit hands on an output if the caller wants any; false: no more.
func (c *call) emit(out conversation.Output) bool {
	if c.r.Stream && !c.stopped {
		if out.Delta != "" {
			c.streamed[out.Item] = true
		}
		c.stopped = !c.yield(out, nil)
	}
	return !c.stopped
}

func (c *call) ask(ctx context.Context) (*conversation.ModelAnswer, error) {
	o := &c.m.o
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	parts := readPrompt(c.r, o.AskMarker, o.ContextPairs)
	parts.guarded = o.Guard != GuardNone
	prompt, ok := parts.deliver(o.PromptVia)
	if !ok {
		return nil, nothingRan(conversation.TooLarge, true, "the message is too long for the command-line agent", nil)
	}
	if o.TakesPrompt() {
		prompt.instructions = strings.ReplaceAll(o.instructions(c.r, prompt.broken), "\x00", "")
	}
	if len(prompt.instructions) > maxArg {
		return nil, nothingRan(conversation.TooLarge, true, "the agent's own prompt is too long for the command-line agent", nil)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := c.slot(ctx); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		c.m.release()
		return nil, err
	}
	began := time.Now()
	p, err := c.start(ctx, prompt)
	if err != nil {
		c.m.release()
		if wrong := c.m.Check(); wrong != nil && !lacksResources(err) {
			err = wrong // the system names the program also where it is dir that is missing
		}
		return nil, notStarted(err)
	}
	c.m.started.Add(1)
	reader := c.reader()
	// Most agents write when they have done their work; the caller hears meanwhile
	// that they live. The limit of a process is its timeout.
	beat := time.NewTicker(c.m.pulse)
	defer beat.Stop()
	for output, done := p.output, p.done; done != nil; {
		news := []conversation.Output{{}}
		select {
		case chunk, more := <-output:
			if !more {
				output = nil
				continue
			}
			reader.feed(chunk)
			if deltas := reader.takeDeltas(); len(deltas) > 0 {
				news = deltas
			}
		case <-beat.C:
		case <-done:
			done = nil
			continue
		}
		for _, out := range news {
			if !c.emit(out) {
				cancel()
				break
			}
		}
	}
	if c.stopped {
		return nil, gate.ErrStopped
	}
	whole := reader.end()
	c.logRun(p, reader, prompt, time.Since(began))
	if p.why == endedByCaller {
		return nil, ctx.Err()
	}
	return c.end(p, reader, whole, prompt)
}

// slot waits until a process may be started; the first to come is the first to
// get one. A step that was put off meanwhile starts none.
func (c *call) slot(ctx context.Context) error {
	m, waits := c.m, c.r.Waits
	if waits == nil {
		waits = func(bool) bool { return true }
	}
	m.waiting.Add(1)
	defer m.waiting.Add(-1)
	waits(true)
	_, err := m.gate.Enter(ctx, m.pulse, func() bool { return c.emit(conversation.Output{}) })
	goOn := waits(false)
	if err != nil {
		return err
	}
	m.running.Add(1)
	if !goOn {
		m.release()
		return context.Canceled // as its call will be
	}
	return nil
}

func (m *Model) release() {
	m.running.Add(-1)
	m.gate.Leave()
}

func (c *call) start(ctx context.Context, prompt delivery) (*process, error) {
	o := &c.m.o
	args := append([]string(nil), o.Args...)
	if prompt.instructions != "" {
		args = append(args, o.promptArg(), prompt.instructions)
	}
	if o.Format == FormatStreamJSON {
		args = append(args, "--output-format", "stream-json", "--verbose")
	}
	args = append(args, "-p")
	var input *string
	if prompt.stdin {
		input = &prompt.text
	} else {
		args = append(args, prompt.text)
	}
	cmd := exec.Command(o.Command, args...)
	cmd.Dir = o.Dir
	cmd.Env = o.environment(cmd.Environ())
	return startProcess(ctx, cmd, input, limits{
		timeout: o.Timeout, grace: o.Grace, freed: c.m.release,
		stuck: func(since time.Duration, denied int) {
			log := c.m.log.With("session", c.r.Session, "task", c.r.Task, "killed_for", since)
			if denied > 0 {
				log.Error("a process of the command-line agent may not be killed by this server's user; it keeps its slot", "process", denied)
				return
			}
			log.Error("a process of the command-line agent does not die; it keeps its slot")
		},
	})
}

// end returns the answer of a process that has ended, or its failure.
func (c *call) end(p *process, reader reader, whole bool, prompt delivery) (*conversation.ModelAnswer, error) {
	o := &c.m.o
	if p.why == endedTimeout {
		seconds := strconv.FormatFloat(o.Timeout.Seconds(), 'f', -1, 64)
		return nil, failure(conversation.Timeout, true, strings.ReplaceAll(o.TimeoutText, "{seconds}", seconds), nil)
	}
	if !p.Exit.Succeeded() {
		return nil, failure(conversation.Internal, true, "the command-line agent failed ("+p.Exit.String()+")", nil)
	}
	if reader.cut() {
		c.m.cut.Add(1)
		c.m.log.Warn("the command-line agent wrote more than is kept", "session", c.r.Session, "task", c.r.Task, "max_output", o.MaxOutput)
	}
	if kind := reader.failed(); kind != "" {
		return nil, failure(conversation.Internal, true, "the command-line agent failed", errors.New("its result says "+strconv.Quote(kind)))
	}
	if !whole {
		return nil, failure(conversation.Unavailable, false, "the command-line agent's answer ended in the middle", nil)
	}
	for _, out := range reader.takeDeltas() {
		if !c.emit(out) {
			return nil, gate.ErrStopped
		}
	}
	items, usage := reader.answer()
	if usage == (conversation.Usage{}) {
		usage = conversation.Usage{InputTokens: tokens(prompt.text) + tokens(prompt.instructions), Estimated: true}
		for _, item := range items {
			usage.OutputTokens += tokens(item.Text) + tokens(item.Args)
		}
	}
	for i := range items {
		items[i].Streamed = c.streamed[i]
	}
	return &conversation.ModelAnswer{Items: items, Usage: usage}, nil
}

// tokens returns a guess: text has some four bytes a token.
func tokens(text string) int { return (len(text) + 3) / 4 }

// notStarted returns the failure of a start. Nothing ran, so it may be tried again if
// that can help. The system's error names the program, not the prompt.
func notStarted(err error) error {
	switch {
	case tooLong(err):
		return nothingRan(conversation.TooLarge, true, "the message is too long for the command-line agent", err)
	case lacksResources(err):
		return nothingRan(conversation.Unavailable, false, "the command-line agent cannot be started now", err)
	default:
		return nothingRan(conversation.Internal, true, "the command-line agent could not be started", err)
	}
}

// nothingRan is a failure before anything was started.
func nothingRan(code conversation.Code, permanent bool, sentence string, err error) error {
	return &conversation.ModelError{
		Failure: conversation.Failure{Code: code, Message: sentence}, Permanent: permanent, NothingRan: true, Err: err,
	}
}

func failure(code conversation.Code, permanent bool, sentence string, err error) error {
	return &conversation.ModelError{Failure: conversation.Failure{Code: code, Message: sentence}, Permanent: permanent, Err: err}
}
