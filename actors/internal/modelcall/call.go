package modelcall

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"parley/actors/internal/mail"
	"parley/actors/internal/observe"
	"parley/actors/internal/shown"
	"parley/conversation"
	"parley/conversation/attached"
	"parley/metrics"
)

// Env holds what model calls need from the engine. All exported fields are required.
type Env struct {
	Context   context.Context // of every call; ends with the engine
	Publisher conversation.Publisher
	Metrics   *metrics.Actors
	Log       *slog.Logger
	Go        func(what string, do func(), failed func(error)) // runs do in a goroutine; failed gets a panic in it

	ShowEvery time.Duration // streamed text is shown at most this often
	IdleLimit time.Duration // a model that says nothing for this long has failed
	Limit     time.Duration // a call takes at most this long

	// Files reads what is attached to the messages of a session; nil = nothing.
	Files func(ctx context.Context, key conversation.SessionKey, f attached.File) ([]byte, error)

	spread  sync.Once
	parents [64]context.Context
	next    atomic.Uint32
}

// parent is a context that ends with Env.Context. There are several: a call's context
// enters itself in its parent, and with one parent all calls would meet at its lock. It
// was a third of what the locks of the engine were waited for.
func (e *Env) parent() context.Context {
	e.spread.Do(func() {
		for i := range e.parents {
			ctx, cancel := context.WithCancel(e.Context)
			context.AfterFunc(ctx, cancel)
			e.parents[i] = ctx
		}
	})
	return e.parents[e.next.Add(1)%uint32(len(e.parents))]
}

// file is Request.File for a session.
func (e *Env) file(key conversation.SessionKey) func(context.Context, attached.File) ([]byte, error) {
	if e.Files == nil {
		return nil
	}
	return func(ctx context.Context, f attached.File) ([]byte, error) { return e.Files(ctx, key, f) }
}

// Options say what one call is for.
type Options struct {
	Key       conversation.SessionKey
	Ask       conversation.AskModel
	Model     conversation.Model // nil: the call fails, because none is configured
	Meter     *metrics.Model     // counts the call
	Request   conversation.Request
	HeldBack  func(text string) bool // true while a text may still become a no-reply sentinel, which is not shown
	Published *shown.Position        // the session's last published event
	TraceID   string                 // of the task's trace, for exemplars; "" = it has none
	Report    func(*End)             // hands an end to the session; must not block
}

// Call is one attempt of a model call. It has one outcome, unless the session stops
// it before. One that was stopped says when it has ended: then nothing of it runs
// any more. Its methods may be called from any goroutine.
type Call struct {
	env    *Env
	o      Options
	began  time.Time
	cancel context.CancelFunc

	mu         sync.Mutex
	label      string              // the model's, once its goroutine has asked it
	ended      bool                // nothing more of it counts,
	usage      *conversation.Usage // but what it has cost
	stopped    bool                // by the session
	spoken     bool                // the model has: text has come of it
	returned   bool                // the model has: whatever it had started has ended
	holding    bool                // text gathers, and none is shown
	waits      bool                // the model does at a limit of its own: nothing has begun,
	putOff     bool                // and nothing may any more
	lastOutput time.Time           // when the model said something last
	drafts     drafts
	timer      *time.Timer // nil: no text waits to be shown
	lastShown  time.Time   // when text was shown last
}

// End is a message to the session: the outcome of its call, or ModelStopped when one
// that was stopped has ended. Drafts are the texts that were shown; they end with the
// outcome, unless a part takes their place.
type End struct {
	mail.DeadLetterOK
	Call    *Call
	Command conversation.Command
	Drafts  []conversation.DraftDropped
}

// Start begins a call. The start of its step must be durable.
func Start(env *Env, o Options) *Call {
	o.Meter.Running.Inc()
	c := &Call{env: env, o: o, began: time.Now(), drafts: drafts{ask: o.Ask}}
	c.lastOutput = c.began
	if o.Model == nil {
		c.returned = true
		c.end("permanent", c.failure(conversation.Internal, "no model is configured for this agent", true))
		return c
	}
	c.o.Request.Waits = c.wait
	c.o.Request.File = env.file(o.Key)
	ctx, cancel := context.WithCancel(env.parent())
	c.cancel = cancel
	env.Go("a model call", func() {
		defer cancel()
		label := c.o.Model.Label() // o would be on the heap twice
		c.mu.Lock()
		c.label = label
		c.mu.Unlock()
		c.run(ctx)
		c.over()
	}, func(error) {
		c.end("panic", c.failure(conversation.Internal, "something went wrong while asking the model", false))
		c.over()
	})
	return c
}

// Meter counts what the call has cost, also after its end.
func (c *Call) Meter() *metrics.Model { return c.o.Meter }

// For returns the effect that started the call.
func (c *Call) For() conversation.AskModel { return c.o.Ask }

// wait is Request.Waits.
func (c *Call) wait(waits bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits = waits && !c.putOff
	return !c.putOff
}

// putOffIfWaiting reports whether the model waits at a limit of its own, which it does
// to the end then.
func (c *Call) putOffIfWaiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.waits {
		return false
	}
	c.waits, c.putOff = false, true
	return true
}

// Drafts are the texts that stream right now.
func (c *Call) Drafts() []conversation.DraftView {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drafts.views()
}

// run asks the model. A model that ignores its cancelled context does not keep
// the attempt from ending in time.
func (c *Call) run(ctx context.Context) {
	for out, err := range c.o.Model.Stream(ctx, c.o.Request) {
		switch {
		case err != nil:
			c.failed(err)
			return
		case out.Done != nil:
			c.end("ok", conversation.ModelAnswered{
				Step: c.o.Ask.Step, Attempt: c.o.Ask.Attempt, Model: cmp.Or(out.Done.Model, c.label), Answer: *out.Done, Took: time.Since(c.began), Shown: c.o.Request.Open,
			})
			return
		default:
			c.delta(out.Item, out.Delta)
		}
	}
	c.end("cut", c.failure(conversation.Unavailable, "the model's answer ended in the middle", false))
}

// Due is the time from which the model is too slow, unless it says something before. The
// session's timer looks then: one of its own would cost each call more than the
// rest of it does.
func (c *Call) Due() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle, limit := c.lastOutput.Add(c.env.IdleLimit), c.began.Add(c.env.Limit)
	if idle.Before(limit) {
		return idle
	}
	return limit
}

// EndIfOverdue ends the attempt if the model has been too slow.
func (c *Call) EndIfOverdue(now time.Time) {
	if c.Due().After(now) {
		return
	}
	sentence := "the model said nothing for too long"
	if !c.began.Add(c.env.Limit).After(now) {
		sentence = "the model took too long"
	}
	c.end("timeout", c.failure(conversation.Timeout, sentence, false))
	if c.cancel != nil {
		c.cancel()
	}
}

func (c *Call) failure(code conversation.Code, sentence string, permanent bool) conversation.ModelFailed {
	c.mu.Lock()
	label := c.label
	c.mu.Unlock()
	f := conversation.ModelFailed{
		Step: c.o.Ask.Step, Attempt: c.o.Ask.Attempt, Model: label, Permanent: permanent, Jitter: rand.Float64(),
		Failure: conversation.Failure{Code: code, Message: sentence},
	}
	f.Took = time.Since(c.began)
	return f
}

// failed ends the attempt with an adapter's error. The text of one that the adapter
// did not understand goes to the log only.
func (c *Call) failed(err error) {
	var known *conversation.ModelError
	if !errors.As(err, &known) {
		if !errors.Is(err, context.Canceled) {
			c.log().Error("a model call failed", "session", c.o.Key.Session, "tenant", c.o.Key.Tenant, "model", c.label, "error", err)
		}
		c.end("error", c.failure(conversation.Unavailable, "the model could not be asked", false))
		return
	}
	if known.Err != nil {
		c.log().Warn("a model call failed", "session", c.o.Key.Session, "tenant", c.o.Key.Tenant, "model", c.label,
			"code", known.Failure.Code, "retry_after", known.RetryAfter, "error", known.Err)
	}
	f := c.failure(known.Failure.Code, known.Failure.Message, known.Permanent)
	f.Model, f.RetryAfter, f.Usage, f.NothingRan = cmp.Or(known.Model, c.label), known.RetryAfter, known.Usage, known.NothingRan
	outcome := "error"
	switch {
	case known.Permanent:
		outcome = "permanent"
	case known.Failure.Code == conversation.RateLimited: // the provider is well, and has enough of us
		outcome = "rate_limited"
	}
	c.end(outcome, f)
}

// log is the log, with the task's trace if it has one.
func (c *Call) log() *slog.Logger {
	if c.o.TraceID == "" {
		return c.env.Log
	}
	return c.env.Log.With("trace_id", c.o.TraceID)
}

// end hands the outcome to the session, behind everything that was streamed.
func (c *Call) end(outcome string, cmd conversation.Command) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch known := cmd.(type) {
	case conversation.ModelAnswered:
		c.spoke(time.Now())
		usage := known.Answer.Usage // of its own: the answer may be long
		c.usage = &usage
	case conversation.ModelFailed:
		c.usage = known.Usage
	}
	if c.ended {
		if !c.stopped { // else the session is told
			observe.Unused(c.env.Metrics, c.o.Meter, string(c.o.Key.Tenant), cmd)
		}
		return
	}
	c.show()
	c.finish(outcome)
	c.o.Report(&End{Call: c, Command: cmd, Drafts: c.drafts.shown()})
}

// Stop ends the attempt: nothing of it is shown any more when Stop has returned. The
// drafts that were shown are the caller's to end. The session is told when the model
// has returned.
func (c *Call) Stop() []conversation.DraftDropped {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.finish("cancelled")
	}
	if c.cancel != nil {
		c.cancel()
	}
	if c.stopped = true; c.returned {
		c.reportStopped()
	}
	return c.drafts.shown()
}

// over notes that the model has returned.
func (c *Call) over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.returned = true; c.stopped {
		c.reportStopped()
	}
}

// reportStopped tells the session that a call which it has stopped has ended. The
// caller holds mu.
func (c *Call) reportStopped() {
	c.o.Report(&End{Call: c, Command: conversation.ModelStopped{
		Step: c.o.Ask.Step, Attempt: c.o.Ask.Attempt, Usage: c.usage, Took: time.Since(c.began),
	}})
}

// HoldFor says what the machine must know of the call to decide a command; a nil Call
// is none. While a command is decided that may stop the call, nothing more of it is
// shown, until Resume: what a stop keeps is what followers have seen. A drain puts off
// a model that waits at a limit of its own: it begins nothing any more.
func (c *Call) HoldFor(cmd conversation.Command) (asking conversation.Attempt, shown []conversation.DraftView) {
	if c == nil {
		return asking, nil
	}
	asking = conversation.Attempt{Step: c.o.Ask.Step, N: c.o.Ask.Attempt}
	if _, drains := cmd.(conversation.Drain); drains && c.putOffIfWaiting() {
		return conversation.Attempt{}, nil // it has asked nobody
	}
	if _, mayInterrupt := cmd.(conversation.Say); !mayInterrupt && !cmd.Class().Stops {
		return asking, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holding = true
	return asking, c.drafts.views()
}

// Resume shows what has gathered since HoldFor, if that has held anything.
func (c *Call) Resume() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holding = false; !c.ended && c.timer == nil {
		c.show()
	}
}

// finish is the one way to the end. The caller holds mu.
func (c *Call) finish(outcome string) {
	c.ended = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.o.Meter.Running.Dec()
	c.o.Meter.Called(outcome, time.Since(c.began).Seconds(), c.o.TraceID)
}

// spoke notes that text, or an answer, has come of the model. The caller holds mu.
func (c *Call) spoke(now time.Time) {
	if !c.spoken && !c.ended {
		c.spoken = true
		metrics.Observe(c.o.Meter.FirstOutput, now.Sub(c.began).Seconds(), c.o.TraceID)
	}
}

// delta gathers text and shows it: the first at once, then every so often. Without
// text it is a sign of life.
func (c *Call) delta(item int, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if text != "" {
		c.spoke(now)
	}
	c.lastOutput = now
	if c.ended || !c.drafts.add(item, text) || c.timer != nil { // with a timer it will be shown soon
		return
	}
	wait := c.env.ShowEvery - now.Sub(c.lastShown)
	if wait <= 0 {
		c.show()
		return
	}
	c.timer = time.AfterFunc(wait, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.timer = nil
		if !c.ended {
			c.show()
		}
	})
}

// show hands on all text that may be shown: nothing of a step that a nudge opened, for what
// it says may have been shown before. The caller holds mu.
func (c *Call) show() {
	if c.holding || c.o.Ask.Form != conversation.NudgePlain {
		return
	}
	c.drafts.show(c.o.HeldBack, func(delta conversation.Delta) {
		c.env.Publisher.Show(c.o.Key, c.o.Published.Epoch(), c.o.Published.Seq(), delta)
		c.env.Metrics.Deltas.Inc()
		c.lastShown = time.Now()
	})
}
