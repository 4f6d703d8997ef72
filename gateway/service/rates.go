package service

import (
	"math"
	"sync"
	"time"
)

// Rates bound how often each of many (users, addresses) may do something: rate times a
// second, burst at once.
type Rates struct {
	rate  float64 // 0 = no bound
	burst float64

	mu    sync.Mutex
	of    map[any]allowance
	sweep int // so many entries are looked through for those that say nothing any more
}

// allowance is what one may still do. One that is whole is as good as none.
type allowance struct {
	tokens float64
	at     time.Time
}

// Allowed is what Take answers.
type Allowed struct {
	Left  int           // times at once from now on
	Whole time.Duration // until the allowance is whole again
	Wait  time.Duration // above 0: refused, and to be tried again after this time
}

// NewRates makes a bound; rate 0 = none.
func NewRates(rate float64, burst int) *Rates {
	return &Rates{rate: rate, burst: float64(burst), of: make(map[any]allowance), sweep: 1024}
}

// Bounded is false for a bound that refuses nothing.
func (r *Rates) Bounded() bool { return r.rate > 0 }

// Take takes one from the allowance of who, which must be comparable.
func (r *Rates) Take(who any, now time.Time) Allowed {
	if !r.Bounded() {
		return Allowed{Left: math.MaxInt}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a, known := r.of[who]
	if !known {
		r.forget(now)
		a = allowance{r.burst, now}
	}
	a.tokens, a.at = r.tokens(a, now), now
	var wait time.Duration
	if a.tokens < 1 {
		wait = r.seconds(1 - a.tokens)
	} else {
		a.tokens--
	}
	r.of[who] = a
	return Allowed{Left: int(a.tokens), Whole: r.seconds(r.burst - a.tokens), Wait: wait}
}

// GiveBack undoes a Take that has turned out to be somebody else's to count.
func (r *Rates) GiveBack(who any, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, known := r.of[who]; known {
		a.tokens, a.at = min(r.burst, r.tokens(a, now)+1), now
		r.of[who] = a
	}
}

func (r *Rates) tokens(a allowance, now time.Time) float64 {
	return min(r.burst, a.tokens+max(0, now.Sub(a.at).Seconds())*r.rate)
}

func (r *Rates) seconds(tokens float64) time.Duration {
	return time.Duration(math.Ceil(tokens / r.rate * float64(time.Second)))
}

// forget drops allowances that are whole, when there are twice as many as it last left:
// who sends from ever new addresses fills no memory.
func (r *Rates) forget(now time.Time) {
	if len(r.of) < r.sweep {
		return
	}
	for who, a := range r.of {
		if r.tokens(a, now) >= r.burst {
			delete(r.of, who)
		}
	}
	r.sweep = max(1024, 2*len(r.of))
}
