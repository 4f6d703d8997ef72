package observe

import (
	"sync"
	"sync/atomic"
	"time"

	"parley/metrics"
)

// Pulses are the signs of life of the sessions that have open work. Each session writes its
// own, without a lock that others have; a scrape reads them all. The zero value is empty.
type Pulses struct {
	begin  sync.Once
	base   time.Time // all times are counted from it
	next   atomic.Uint32
	shards [16]struct {
		mu   sync.Mutex
		list map[*pulse]struct{}
	}
}

// pulse is one session's. Only the session writes it.
type pulse struct {
	shard   uint32
	base    time.Time
	waiting atomic.Int64 // messages that nobody has read
	oldest  atomic.Int64 // when the oldest of them was accepted, Unix milliseconds: by the clock that stamps events
	running atomic.Int64 // tasks
	durable atomic.Int64 // when something became durable last, since base

	tools, delegations atomic.Int64 // calls that are open
}

func (p *pulse) set(waiting int64, oldest time.Time, running int64, durable time.Time) {
	p.oldest.Store(oldest.UnixMilli())
	p.waiting.Store(waiting)
	p.durable.Store(int64(durable.Sub(p.base)))
	p.running.Store(running)
}

func (p *Pulses) add(one *pulse) {
	p.begin.Do(func() { p.base = time.Now() })
	one.base = p.base
	one.shard = p.next.Add(1) % uint32(len(p.shards))
	shard := &p.shards[one.shard]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if shard.list == nil {
		shard.list = map[*pulse]struct{}{}
	}
	shard.list[one] = struct{}{}
}

func (p *Pulses) remove(one *pulse) {
	shard := &p.shards[one.shard]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	delete(shard.list, one)
}

// Now sums them up for a scrape.
func (p *Pulses) Now() metrics.Sessions {
	p.begin.Do(func() { p.base = time.Now() })
	return p.sum(time.Since(p.base), time.Now())
}

// sum is Now at a time since base, which stands still while the machine is suspended, and
// by the clock, which may be set.
func (p *Pulses) sum(since time.Duration, clock time.Time) metrics.Sessions {
	var s metrics.Sessions
	age := func(since time.Duration) float64 { return max(since.Seconds(), 0) }
	for i := range p.shards {
		shard := &p.shards[i]
		shard.mu.Lock()
		for one := range shard.list {
			s.Tools += int(one.tools.Load())
			s.Delegations += int(one.delegations.Load())
			if n := one.waiting.Load(); n > 0 {
				s.Waiting += int(n)
				s.Oldest = max(s.Oldest, age(clock.Sub(time.UnixMilli(one.oldest.Load()))))
			}
			if n := one.running.Load(); n > 0 {
				s.Running += int(n)
				s.Silence = max(s.Silence, age(since-time.Duration(one.durable.Load())))
			}
		}
		shard.mu.Unlock()
	}
	return s
}
