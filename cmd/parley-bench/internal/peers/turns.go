package peers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"parley/cmd/parley-bench/internal/cputime"
)

// contender is a running program that does durable turns.
type contender interface {
	// client is ready to do turns in a session of its own, one after the other.
	client(handler string) (turn func() error, end func(), err error)
	cpu() time.Duration
	stop()
}

// entrant is a program that can be a contender, with the handlers that it offers.
type entrant struct {
	name     string
	handlers []string
	start    func(ctx context.Context, dir string) (contender, error)
}

// measured is what one cell says: turns a second, latencies and processor time.
type measured struct {
	perSecond, p50, p99, server, client float64
}

// turns lets n clients of a contender do one turn after the other for d.
func turns(c contender, handler string, n int, d time.Duration) (measured, error) {
	steps := make([]func() error, n)
	for i := range steps {
		turn, end, err := c.client(handler)
		if err != nil {
			return measured{}, err
		}
		defer end()
		if err := turn(); err != nil { // the first turn makes the session
			return measured{}, err
		}
		steps[i] = turn
	}
	times, errs := make([][]time.Duration, n), make([]error, n)
	var group sync.WaitGroup
	server, client, began := c.cpu(), cputime.Own(), time.Now()
	for i := range n {
		group.Go(func() {
			for time.Since(began) < d {
				start := time.Now()
				if errs[i] = steps[i](); errs[i] != nil {
					return
				}
				times[i] = append(times[i], time.Since(start))
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	server, client = c.cpu()-server, cputime.Own()-client
	all := slices.Concat(times...)
	slices.Sort(all)
	return measured{
		perSecond: float64(len(all)) / took.Seconds(),
		p50:       milliseconds(nearest(0.5, all)), p99: milliseconds(nearest(0.99, all)),
		server: each(server, len(all)), client: each(client, len(all)),
	}, errors.Join(errs...)
}

// cells are the rounds of one entrant's handler with one number of clients.
type cells struct {
	perSecond, p50, p99, server, client spread
}

func (c *cells) add(m measured) {
	c.perSecond, c.p50, c.p99 = append(c.perSecond, m.perSecond), append(c.p50, m.p50), append(c.p99, m.p99)
	c.server, c.client = append(c.server, m.server), append(c.client, m.client)
}
