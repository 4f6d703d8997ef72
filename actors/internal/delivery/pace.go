package delivery

import (
	"context"
	"time"
)

// Pace keeps a distance between attempts, whoever makes them: a store or a session
// that comes back after an outage must not be met by everybody at once. The first
// attempt after a quiet time is free. Its method may be called from any goroutine.
type Pace struct {
	every time.Duration
	turn  chan struct{} // holds a token while somebody waits for the next time
	next  time.Time     // when the next attempt may be made; of who holds the token
}

// NewPace makes a pace of one attempt in this time.
func NewPace(every time.Duration) *Pace {
	return &Pace{every: every, turn: make(chan struct{}, 1)}
}

// Wait returns when the caller may make an attempt, or the error of ctx when that
// ends before. Who gives up takes nobody's turn.
func (p *Pace) Wait(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.turn }()
	if wait := time.Until(p.next); wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.next = time.Now().Add(p.every)
	return nil
}
