package load

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"parley/cmd/parley-bench/internal/report"
)

// result is that of one measurement: how many things were done, in which time, and
// how long each of them took.
type result struct {
	count int
	took  time.Duration
	times []time.Duration
}

func (r result) perSecond() float64 {
	if r.took <= 0 {
		return 0
	}
	return float64(r.count) / r.took.Seconds()
}

// percentile p (0 to 1) of the times, by the nearest rank.
func (r result) percentile(p float64) time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	slices.Sort(r.times)
	return r.times[min(len(r.times)-1, int(p*float64(len(r.times))))]
}

// figures are how fast things were done, and how long each took.
func (r result) figures(thing string) []report.Figure {
	return []report.Figure{
		{Column: thing + "s/s", Value: r.perSecond(), As: report.Whole},
		{Column: "p50", Value: r.percentile(0.5).Seconds(), As: report.Times},
		{Column: "p99", Value: r.percentile(0.99).Seconds(), As: report.Times},
	}
}

// cpuFigure is the processor time of each of n things.
func cpuFigure(column string, cpu time.Duration, n int) report.Figure {
	return report.Figure{Column: column, Value: cpu.Seconds() / float64(max(1, n)), As: report.Times}
}

// A loop is so many workers, each doing one thing after the other: for a time, or
// each so often.
type loop struct {
	workers int
	d       time.Duration
	each    int          // times; 0 = for d
	ready   func() error // called when all are ready, before the clock starts; may be nil
}

// run runs the loop. open makes a worker ready before the clock starts; its step says
// how many things it did.
func (l loop) run(open func(worker int) (step func() (int, error), end func(), err error)) (result, error) {
	n := l.workers
	steps := make([]func() (int, error), n)
	for i := range n {
		step, end, err := open(i)
		if err != nil {
			return result{}, err
		}
		defer end()
		steps[i] = step
	}
	if l.ready != nil {
		if err := l.ready(); err != nil {
			return result{}, err
		}
	}
	counts, times, errs := make([]int, n), make([][]time.Duration, n), make([]error, n)
	var group sync.WaitGroup
	began := time.Now()
	for i := range n {
		group.Go(func() {
			for did := 0; l.each > 0 && did < l.each || l.each == 0 && time.Since(began) < l.d; did++ {
				start := time.Now()
				did, err := steps[i]()
				if err != nil {
					errs[i] = err
					return
				}
				counts[i] += did
				times[i] = append(times[i], time.Since(start))
			}
		})
	}
	group.Wait()
	r := result{took: time.Since(began), times: slices.Concat(times...)}
	for _, c := range counts {
		r.count += c
	}
	return r, errors.Join(errs...)
}

// allAtOnce starts n workers together and measures each, and all of them.
func allAtOnce(n int, do func(worker int) (int, error)) (result, error) {
	counts, times, errs := make([]int, n), make([]time.Duration, n), make([]error, n)
	start := make(chan struct{})
	var group sync.WaitGroup
	var began time.Time
	for i := range n {
		group.Go(func() {
			<-start
			counts[i], errs[i] = do(i)
			times[i] = time.Since(began)
		})
	}
	began = time.Now()
	close(start)
	group.Wait()
	r := result{took: time.Since(began), times: times}
	for _, c := range counts {
		r.count += c
	}
	return r, errors.Join(errs...)
}

// rounds is one sender and n followers: a round ends when every follower has seen it.
type rounds struct {
	n         int
	delivered atomic.Int64
	missing   atomic.Int64
	done      chan error
}

func newRounds(n int) *rounds {
	return &rounds{n: n, done: make(chan error, n+1)}
}

// seen says that one follower has got the round, with so many frames.
func (r *rounds) seen(frames int) {
	r.delivered.Add(int64(frames))
	if r.missing.Add(-1) == 0 {
		r.done <- nil
	}
}

func (r *rounds) fail(err error) { r.done <- err }

// run sends for d: a round as soon as the one before has ended, and not before its
// turn if every is the time between two.
func (r *rounds) run(d, every time.Duration, send func() error) (result, error) {
	var times []time.Duration
	began := time.Now()
	for time.Since(began) < d {
		if next := time.Until(began.Add(time.Duration(len(times)) * every)); every > 0 && next > 0 {
			<-time.After(next)
		}
		r.missing.Store(int64(r.n))
		start := time.Now()
		if err := send(); err != nil {
			return result{}, err
		}
		if err := <-r.done; err != nil {
			return result{}, err
		}
		times = append(times, time.Since(start))
	}
	return result{count: int(r.delivered.Load()), took: time.Since(began), times: times}, nil
}
