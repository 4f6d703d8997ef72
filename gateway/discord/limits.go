package discord

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// limits remembers until when Discord takes no requests, by their route and altogether. The
// zero value knows of none.
type limits struct {
	mu     sync.Mutex
	all    time.Time
	routes map[string]time.Time
}

// maxRoutes bounds how many routes are remembered: each is one that was used up within the
// last seconds.
const maxRoutes = 4096

// rest is how long a route has to rest; 0 = not at all.
func (l *limits) rest(route string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := l.routes[route]
	if l.all.After(until) {
		until = l.all
	}
	return max(time.Until(until), 0)
}

// learn reads what an answer says of the limits of its route.
func (l *limits) learn(route string, status int, h http.Header) {
	if status == 0 || status == http.StatusTooManyRequests || h.Get("X-RateLimit-Remaining") != "0" {
		return
	}
	l.hold(route, headerSeconds(h, "X-RateLimit-Reset-After"), false)
}

// hold has a route rest, or all of them.
func (l *limits) hold(route string, after time.Duration, all bool) {
	if after <= 0 {
		return
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if all {
		l.all = now.Add(after)
		return
	}
	if l.routes == nil || len(l.routes) >= maxRoutes {
		left := map[string]time.Time{}
		for r, until := range l.routes {
			if until.After(now) && len(left) < maxRoutes/2 {
				left[r] = until
			}
		}
		l.routes = left
	}
	l.routes[route] = now.Add(after)
}

// longestRest bounds what an answer may ask for.
const longestRest = time.Hour

func seconds(s float64) time.Duration {
	if !(s > 0) { // NaN, too
		return 0
	}
	return time.Duration(min(s, longestRest.Seconds()) * float64(time.Second))
}

func headerSeconds(h http.Header, name string) time.Duration {
	s, err := strconv.ParseFloat(h.Get(name), 64)
	if err != nil {
		return 0
	}
	return seconds(s)
}

// learnTime learns from an answer how far Discord's clock is ahead of ours.
func (b *Bot) learnTime(h http.Header) {
	if at, err := http.ParseTime(h.Get("Date")); err == nil {
		b.skew.Store(time.Until(at).Milliseconds())
	}
}
