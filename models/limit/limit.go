package limit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"parley/conversation"
	"parley/models/internal/gate"
)

// Limits bound how often one model is asked, and how many calls run at once.
// The zero value bounds nothing. The tags describe a field to the configuration:
// option.FieldError lists them.
type Limits struct {
	// Calls is the number of calls that may begin in each Per; more wait. 0 = no limit.
	Calls int
	Per   time.Duration
	// Burst is the number of calls that may begin at the same instant after a quiet time;
	// 0 = as many as the rate allows in a second, and at least 1.
	Burst int `key:"burst" min:"0"`
	// MaxConcurrent is the number of calls that run at once; more wait, in the order in which
	// they came. 0 = no limit.
	MaxConcurrent int `key:"max_concurrent" min:"0"`
}

func (l *Limits) validate() error {
	var errs []error
	if l.MaxConcurrent < 0 {
		errs = append(errs, fmt.Errorf("max_concurrent must not be negative, and is %d", l.MaxConcurrent))
	}
	if l.Calls < 0 || l.Calls > 0 && l.Per <= 0 {
		errs = append(errs, fmt.Errorf("rate must be a number of calls in a time, not %d in %s", l.Calls, l.Per))
	}
	if l.Burst < 0 || l.Burst > 0 && l.Calls == 0 {
		errs = append(errs, fmt.Errorf("burst must be at least 1 and goes with a rate, and is %d", l.Burst))
	}
	return errors.Join(errs...)
}

// Stats are the counts of a limited model, for metrics.
type Stats struct {
	Running int64 // calls that run
	Waiting int64 // calls that wait for their turn
	Calls   int64 // calls that began, so far
	Waited  int64 // of those, calls that had to wait
	GaveUp  int64 // calls that ended while they waited: cancelled, or the caller has gone
}

// Model is a model within limits. All callers of the wrapped model must go through the
// same Model.
type Model struct {
	model conversation.Model
	gate  *gate.Gate    // nil = no limit
	rate  *rate.Limiter // nil = no limit

	running, waiting, calls, waited, gaveUp atomic.Int64
}

var _ conversation.Model = (*Model)(nil)

// New makes a model within limits. Its error has the names of the configuration.
func New(model conversation.Model, limits Limits) (*Model, error) {
	if model == nil {
		return nil, errors.New("limit: a model is needed")
	}
	if err := limits.validate(); err != nil {
		return nil, fmt.Errorf("limit: %w", err)
	}
	l := &Model{model: model}
	if limits.MaxConcurrent > 0 {
		l.gate = gate.New(limits.MaxConcurrent)
	}
	if limits.Calls > 0 {
		perSecond := float64(limits.Calls) / limits.Per.Seconds()
		burst := limits.Burst
		if burst == 0 {
			burst = max(1, int(perSecond))
		}
		l.rate = rate.NewLimiter(rate.Limit(perSecond), burst)
	}
	return l, nil
}

// Label returns the label of the wrapped model.
func (l *Model) Label() string { return l.model.Label() }

// Stats returns the counts as of now.
func (l *Model) Stats() Stats {
	return Stats{
		Running: l.running.Load(), Waiting: l.waiting.Load(), Calls: l.calls.Load(), Waited: l.waited.Load(), GaveUp: l.gaveUp.Load(),
	}
}

// Stream waits for its turn and asks once. While it waits it gives signs of
// life, if the caller wants a stream; ctx and the caller's break end the wait.
func (l *Model) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		alive := func() bool { return !r.Stream || yield(conversation.Output{}, nil) }
		leave, err := l.waitForTurn(ctx, alive)
		if err != nil {
			if !errors.Is(err, gate.ErrStopped) {
				yield(conversation.Output{}, err)
			}
			return
		}
		defer leave()
		for out, err := range l.model.Stream(ctx, r) {
			if !yield(out, err) || err != nil {
				return
			}
		}
	}
}

// waitForTurn waits for a slot and then for the rate. It holds the slot while it waits
// for the rate: another call could not use it then either. leave gives the slot back.
func (l *Model) waitForTurn(ctx context.Context, alive func() bool) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	waited := false
	if l.gate != nil {
		var err error
		if waited, err = l.gate.Enter(ctx, gate.Pulse, alive); err != nil {
			l.gaveUp.Add(1)
			return nil, err
		}
	}
	if l.rate != nil {
		booked := l.rate.Reserve()
		if delay := booked.Delay(); delay > 0 {
			waited = true
			timer := time.NewTimer(delay)
			err := gate.Wait(ctx, gate.Pulse, timer.C, alive)
			timer.Stop()
			if err != nil {
				booked.Cancel()
				l.gaveUp.Add(1)
				if l.gate != nil {
					l.gate.Leave()
				}
				return nil, err
			}
		}
	}
	l.calls.Add(1)
	if waited {
		l.waited.Add(1)
	}
	l.running.Add(1)
	return func() {
		l.running.Add(-1)
		if l.gate != nil {
			l.gate.Leave()
		}
	}, nil
}
