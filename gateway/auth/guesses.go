package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// How guesses are remembered.
const (
	guessesKept   = 10_000           // entries; then those that are not waited for go first
	guessesForget = 10 * time.Minute // without a failure
	guessesSay    = time.Minute      // between two log lines of an entry
	knownKept     = 4_096
	firstWait     = time.Second
)

// guesses holds back those whose sign-ins fail again and again: by the group of their
// address, and by it and the id of the key that they try. Beyond free failures each further
// one doubles the wait. A credential that was right a moment ago is never held back: behind
// one address there may be a guesser and a thousand others.
type guesses struct {
	free int // 0 = nobody is held back
	most time.Duration
	now  func() time.Time

	mu    sync.Mutex
	tries map[string]*try
	known map[[sha256.Size]byte]struct{} // credentials that were right
}

type try struct {
	failures int
	last     time.Time // of the failures
	until    time.Time // nobody is let through before
	said     time.Time // the last log line
	unsaid   int       // failures since
}

func newGuesses(free int, most time.Duration, now func() time.Time) *guesses {
	return &guesses{free: free, most: most, now: now, tries: map[string]*try{}, known: map[[sha256.Size]byte]struct{}{}}
}

// wait says how long a credential has to wait.
func (g *guesses) wait(keys []string, mark [sha256.Size]byte) (longest time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.known[mark]; known {
		return 0
	}
	for _, key := range keys {
		if t := g.tries[key]; t != nil {
			longest = max(longest, t.until.Sub(g.now()))
		}
	}
	return longest
}

// succeeded forgets the failures of a key, not those of an address: who has one right key
// may guess another's.
func (g *guesses) succeeded(keys []string, mark [sha256.Size]byte, remember bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !remember {
		return
	}
	if len(g.known) >= knownKept {
		clear(g.known)
	}
	g.known[mark] = struct{}{}
	delete(g.tries, keys[len(keys)-1])
}

// failed counts a failure, if it was a guess. say is true when a log line is due: once a
// minute and address.
func (g *guesses) failed(keys []string, mark [sha256.Size]byte, guess bool) (failures int, say bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.known, mark)
	now := g.now()
	for i, key := range keys {
		t := g.tries[key]
		if t == nil {
			g.makeRoom(now)
			t = &try{}
			g.tries[key] = t
		}
		if now.Sub(t.last) > guessesForget {
			t.failures = 0
		}
		t.last = now
		if guess {
			t.failures++
		}
		if over := t.failures - g.free; guess && g.free > 0 && over >= 0 {
			t.until = now.Add(min(g.most, firstWait<<min(over, 20)))
		}
		if i > 0 {
			continue
		}
		t.unsaid++
		if now.Sub(t.said) >= guessesSay {
			failures, say = t.unsaid, true
			t.said, t.unsaid = now, 0
		}
	}
	return failures, say
}

// makeRoom keeps the entries below guessesKept: old ones go, then any. The caller holds mu.
func (g *guesses) makeRoom(now time.Time) {
	if len(g.tries) < guessesKept {
		return
	}
	for key, t := range g.tries {
		if now.Sub(t.last) > guessesForget || now.After(t.until) && now.Sub(t.said) > guessesSay {
			delete(g.tries, key)
		}
	}
	for key := range g.tries {
		if len(g.tries) < guessesKept*9/10 {
			return
		}
		delete(g.tries, key)
	}
}
