package pace

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// A Pace keeps a connection's commands within what the server takes: tokens come at a
// rate, up to a burst, and each command takes one.
type Pace struct {
	mu     sync.Mutex
	rate   float64 // a second; 0 = no limit
	burst  float64
	tokens float64
	at     time.Time
}

// New stays a little below the limits: on the way frames come closer together.
func New(perSecond float64, burst int, now time.Time) *Pace {
	most := max(1, float64(burst)*0.8-1) // hello took one
	return &Pace{rate: perSecond * 0.95, burst: most, tokens: most, at: now}
}

// Take takes a token and says how long to wait until it is there.
func (p *Pace) Take(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate <= 0 {
		return 0
	}
	p.tokens = min(p.burst, p.tokens+now.Sub(p.at).Seconds()*p.rate)
	p.at = now
	p.tokens--
	if p.tokens >= 0 {
		return 0
	}
	return time.Duration(-p.tokens / p.rate * float64(time.Second))
}

// Wait waits for d; an error is the end of ctx.
func Wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// Jitter is a random pause between least and a bound that begins at twice that, doubles
// with each attempt, and is most in the end.
func Jitter(least, most time.Duration, attempt int) time.Duration {
	bound := most
	if attempt < 20 {
		bound = min(most, 2*least<<attempt)
	}
	return least + rand.N(max(bound-least, 0)+1)
}
