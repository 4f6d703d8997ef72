package outbound

import (
	"context"
	"math/rand/v2"
	"time"
)

// firstPause is the pause behind the first try, about.
const firstPause = time.Second

// Pauses are the times to wait between tries: each about twice the one before, up to most, and
// never two senders at the same moment for long.
func Pauses(most time.Duration) func() time.Duration {
	next := min(firstPause, most)
	return func() time.Duration {
		p := next
		next = min(2*next, most)
		return p/2 + rand.N(p/2+1)
	}
}

// Rest waits, or until ctx ends: then it returns the context's error.
func Rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
