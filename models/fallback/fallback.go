package fallback

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"parley/conversation"
)

// Options are the options of a route.
type Options struct {
	// Fallback are the models to ask when the route's own fails, in order.
	Fallback []conversation.Model
	// Acts says of each model, the route's own first, whether it acts on the world:
	// after such a one no other is asked, unless it has certainly done nothing. nil =
	// none does.
	Acts []bool
	// MaxAttempts is the number of attempts that the engine makes at a step:
	// retry.max_attempts. At least 1.
	MaxAttempts int
	// MaxRetryAfter is how long the engine waits for a model that wants to be left alone:
	// retry.max_retry_after. One that says more is passed over at once, and until then.
	MaxRetryAfter time.Duration
	// Logger gets each change of model; nil = no log.
	Logger *slog.Logger
}

// Model asks its own model, and the others when that fails. Which model an attempt
// begins with follows from the attempt's number. What it remembers is which models
// want to be left alone, for longer than anybody waits.
//
// Each fallback has one of the last attempts of a step, the route's own model
// has those before: with three attempts and one fallback it is asked twice. So
// every model has its turn before the step fails, also after text was shown,
// because the engine withdraws shown text between attempts. Within an attempt the
// next model is asked at once after a permanent failure, or one that is not over
// within Options.MaxRetryAfter, and in the last attempt after any; but never when text
// was shown.
type Model struct {
	name        string
	models      []conversation.Model // the route's own is the first
	acts        []bool
	maxAttempts int
	maxWait     time.Duration
	log         *slog.Logger
	counts      []counts                    // one for each model
	resting     []atomic.Pointer[time.Time] // of each model: until when it wants to be left alone; nil = it has never said so
}

// counts counts the calls of one model, and those with a whole answer.
type counts struct{ calls, answers atomic.Int64 }

// Stats are the counts of one fallback of a route, for metrics.
type Stats struct {
	Calls   int64 // that it was asked instead of the route's own model, so far
	Answers int64 // of those, whole answers
}

var _ conversation.Model = (*Model)(nil)

// New makes the route of a model. name is its name in the configuration, for the log.
func New(name string, primary conversation.Model, o Options) (*Model, error) {
	models := append([]conversation.Model{primary}, o.Fallback...)
	if slices.Contains(models, nil) {
		return nil, fmt.Errorf("fallback: %s: a model is missing", name)
	}
	if o.MaxAttempts < 1 {
		return nil, fmt.Errorf("fallback: %s: the attempts must be at least 1, and are %d", name, o.MaxAttempts)
	}
	m := &Model{name: name, models: models, acts: o.Acts, maxAttempts: o.MaxAttempts, maxWait: o.MaxRetryAfter, log: o.Logger}
	m.counts, m.resting = make([]counts, len(models)), make([]atomic.Pointer[time.Time], len(models))
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	return m, nil
}

// Label names the route's own model. An answer of another one says so.
func (m *Model) Label() string { return m.models[0].Label() }

// Fallbacks returns the counts as of now, in the order of Options.Fallback.
func (m *Model) Fallbacks() []Stats {
	stats := make([]Stats, len(m.counts)-1)
	for i := range stats {
		t := &m.counts[i+1]
		stats[i] = Stats{Calls: t.calls.Load(), Answers: t.answers.Load()}
	}
	return stats
}

// next is the first model from the i-th on that does not want to be left alone; the last
// one if all do.
func (m *Model) next(i int) int {
	for i+1 < len(m.models) && m.rests(i) {
		i++
	}
	return i
}

func (m *Model) rests(i int) bool {
	until := m.resting[i].Load()
	return until != nil && time.Now().Before(*until)
}

// begin is the model that is asked first in an attempt: the one that its number says, or
// one behind it, or, if all of these want to be left alone, one before it.
func (m *Model) begin(attempt int) int {
	i := m.next(m.first(attempt))
	if m.rests(i) {
		i = m.next(0)
	}
	return i
}

// first returns the model that an attempt of that number begins with.
func (m *Model) first(attempt int) int {
	own := max(1, m.maxAttempts-len(m.models)+1)
	return min(max(attempt-own, 0), len(m.models)-1)
}

// Stream makes one attempt. If more than one model failed in it, the error is the
// last one's, permanent only if all were, with the usage of all.
func (m *Model) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		a := attempt{m: m, ctx: ctx, r: &r, permanent: true}
		for i := m.begin(r.Attempt); ; i = m.next(i + 1) {
			outcome, err := a.ask(i, yield)
			if outcome == ended {
				return
			}
			a.recordFailure(i, err)
			if outcome == failedAfterText || i+1 == len(m.models) || ctx.Err() != nil || !a.asksNext(err) {
				if err != nil {
					yield(conversation.Output{}, a.combinedError(err))
				}
				return // without an error: cut short, which the engine sees
			}
			m.log.Warn("a model failed; asking the next one", "route", m.name, "session", r.Session, "task", r.Task,
				"step", r.Step, "attempt", r.Attempt, "model", m.models[i].Label(), "next", m.models[m.next(i+1)].Label(), "error", logText(err))
			a.failures++
		}
	}
}

// outcome says how one model's answer ended.
type outcome uint8

const (
	ended            outcome = iota // with the whole answer, or the caller has stopped reading
	failedBeforeText                // with a failure, before any text
	failedAfterText                 // with a failure, after some text
)

// attempt is one attempt at a step, over one or more models.
type attempt struct {
	m         *Model
	ctx       context.Context
	r         *conversation.Request
	failures  int  // models that failed before this one
	ran       bool // one that acts may have done something
	permanent bool
	usage     conversation.Usage
	counted   bool
}

func (a *attempt) ask(i int, yield func(conversation.Output, error) bool) (outcome, error) {
	model, end := a.m.models[i], failedBeforeText
	a.m.counts[i].calls.Add(1)
	for out, err := range model.Stream(a.ctx, *a.r) {
		if err != nil {
			return end, err
		}
		if out.Done != nil {
			a.m.counts[i].answers.Add(1)
			if i > 0 {
				a.m.log.Info("a fallback model has answered", "route", a.m.name, "session", a.r.Session, "task", a.r.Task,
					"step", a.r.Step, "attempt", a.r.Attempt, "model", model.Label())
			}
			whole := *out.Done
			if whole.Model == "" && i > 0 {
				whole.Model = model.Label()
			}
			if a.counted {
				whole.Usage = addUsage(whole.Usage, a.usage)
			}
			out.Done = &whole
			yield(out, nil)
			return ended, nil
		}
		if out.Delta != "" {
			end = failedAfterText
		}
		if !yield(out, nil) {
			return ended, nil
		}
	}
	return end, nil
}

// recordFailure notes the failure of a model; nil stands for an answer that was cut.
func (a *attempt) recordFailure(i int, err error) {
	var known *conversation.ModelError
	if i < len(a.m.acts) && a.m.acts[i] && !(errors.As(err, &known) && known.NothingRan) {
		a.ran = true
	}
	if !errors.As(err, &known) {
		a.permanent = false
		return
	}
	tooLate := a.m.tooLate(known)
	if tooLate {
		until := time.Now().Add(known.RetryAfter)
		a.m.resting[i].Store(&until)
	}
	a.permanent = a.permanent && (known.Permanent || tooLate)
	if known.Usage != nil {
		a.usage, a.counted = addUsage(a.usage, *known.Usage), true
	}
}

// asksNext reports whether the next model is asked in the same attempt.
func (a *attempt) asksNext(err error) bool {
	var known *conversation.ModelError
	if a.ran {
		return false
	}
	return a.r.Attempt >= a.m.maxAttempts || errors.As(err, &known) && (known.Permanent || a.m.tooLate(known))
}

// tooLate is true for a model that wants to be left alone for longer than the engine waits.
func (m *Model) tooLate(e *conversation.ModelError) bool { return e.RetryAfter > m.maxWait }

// combinedError returns the error of the whole attempt.
func (a *attempt) combinedError(err error) error {
	var known *conversation.ModelError
	if !errors.As(err, &known) {
		return err
	}
	all := *known
	all.NothingRan = !a.ran
	if a.failures == 0 {
		return &all
	}
	all.Permanent = a.permanent
	if a.counted {
		all.Usage = &a.usage
	}
	return &all
}

func addUsage(a, b conversation.Usage) conversation.Usage {
	return conversation.Usage{
		InputTokens: a.InputTokens + b.InputTokens, OutputTokens: a.OutputTokens + b.OutputTokens,
		CachedTokens: a.CachedTokens + b.CachedTokens, Estimated: a.Estimated || b.Estimated,
	}
}

// logText returns the text of a failure for the log. Adapters keep secrets out of it.
func logText(err error) string {
	var known *conversation.ModelError
	switch {
	case err == nil:
		return "the answer ended in the middle"
	case errors.As(err, &known) && known.Err != nil:
		return known.Failure.Message + ": " + known.Err.Error()
	default:
		return err.Error()
	}
}
