package handover

import (
	"context"
	"time"
)

// Options say who is to leave, and how they are told.
type Options[Actor comparable] struct {
	Left     func() (here []Actor, leaving int) // the actors that are to leave, and how many such sessions are leaving besides
	Tell     func(Actor)
	Patience time.Duration // an actor is told again after this long
}

// How Run waits.
const (
	Look  = 20 * time.Millisecond  // Run looks so often whether all have left
	rest  = 500 * time.Millisecond // or at least so often
	again = 100 * time.Millisecond // and tells one so often that has had its time
)

// Run returns when nobody is left, and says whether anybody was told; or with ctx's error.
func Run[Actor comparable](ctx context.Context, o Options[Actor]) (told bool, err error) {
	next := map[Actor]time.Time{} // when each is to be told again
	for {
		began := time.Now()
		here, leaving := o.Left()
		for _, pid := range here {
			if at, known := next[pid]; !known || !began.Before(at) {
				o.Tell(pid)
				next[pid] = began.Add(again)
				if !known {
					next[pid] = began.Add(max(o.Patience, again))
				}
			}
		}
		if len(here)+leaving == 0 {
			return len(next) > 0, nil
		}
		select {
		case <-ctx.Done():
			return len(next) > 0, ctx.Err()
		case <-time.After(min(max(Look, 2*time.Since(began)), rest)): // a look at very many takes a while
		}
	}
}
