package losses

import (
	"sync"
	"time"

	"parley/conversation"
)

// Options are the settings of Losses. All are needed.
type Options struct {
	// Pause is how long a session is left alone after its first loss, MaxPause the longest: it
	// doubles with each, until the session has kept for four times the longest.
	Pause, MaxPause time.Duration
	// Age is how long a loss is remembered at least, of a session that is not loaded again here:
	// another engine has it. It is forgotten at the latest after twice that.
	Age time.Duration
	// Limit is how many may be remembered in an Age. With more, those of before are forgotten
	// earlier.
	Limit int
}

// Losses are the sessions that were lost. Its methods may be called from any goroutine.
type Losses struct {
	o Options

	mu         sync.Mutex
	young, old map[conversation.SessionKey]loss
	since      time.Time // young has been filled
}

type loss struct {
	at    time.Time
	pause time.Duration // after it
	open  bool          // the session was not loaded since
}

// New remembers nothing yet.
func New(o Options) *Losses {
	return &Losses{o: o, young: map[conversation.SessionKey]loss{}, since: time.Now()}
}

// Note notes a loss. The session should be left alone for the pause.
func (l *Losses) Note(key conversation.SessionKey) (pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	before := l.take(key, now)
	pause = l.o.Pause
	if !before.at.IsZero() && now.Sub(before.at) < 4*l.o.MaxPause {
		pause = min(max(2*before.pause, l.o.Pause), l.o.MaxPause)
	}
	if len(l.young) >= l.o.Limit {
		l.turn(now)
	}
	l.young[key] = loss{at: now, pause: pause, open: true}
	return pause
}

// Loaded is told that the session is in memory again, and is true if it was lost since it was
// there last.
func (l *Losses) Loaded(key conversation.SessionKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.take(key, time.Now())
	if open := was.open; open {
		was.open = false
		l.young[key] = was // its pause counts on
		return true
	}
	return false
}

// Count is how many are remembered.
func (l *Losses) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.age(time.Now())
	return len(l.young) + len(l.old)
}

// take takes a loss out. The caller holds mu.
func (l *Losses) take(key conversation.SessionKey, now time.Time) loss {
	l.age(now)
	was, known := l.young[key]
	if !known {
		was = l.old[key]
	}
	delete(l.young, key)
	delete(l.old, key)
	return was
}

// age forgets what is too old. The caller holds mu.
func (l *Losses) age(now time.Time) {
	switch {
	case now.Sub(l.since) < l.o.Age:
	case now.Sub(l.since) < 2*l.o.Age:
		l.turn(now)
	default:
		l.turn(now)
		l.old = nil
	}
}

// turn begins the next time in which losses are noted. The caller holds mu.
func (l *Losses) turn(now time.Time) {
	l.young, l.old, l.since = map[conversation.SessionKey]loss{}, l.young, now
}
