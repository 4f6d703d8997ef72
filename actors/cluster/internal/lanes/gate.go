package lanes

import (
	"maps"
	"sync"
	"time"

	"parley/conversation"
)

// Turn is a job's place among those that one node sends to one session.
type Turn struct {
	Round uint64 // a higher one each time that a lane begins, or begins again
	Index uint64 // within the round, from 0
	Told  bool   // the store has told another member that the session is there
}

// Gate lets in what comes to the sessions of a node in its order: behind a job that was lost
// or sent away nothing of the same round is taken, for the sender will send it all again.
// Its methods may be called from any goroutine.
type Gate struct {
	mu    sync.Mutex
	next  map[sender]turn
	swept time.Time
}

type sender struct {
	from conversation.Member
	key  conversation.SessionKey
}

type turn struct {
	Turn
	shut bool
	at   time.Time
}

// forget is how long a Gate remembers a round: no job is under way for so long.
const forget = 2 * time.Minute

// NewGate makes a gate through which nothing has come yet.
func NewGate() *Gate { return &Gate{next: map[sender]turn{}, swept: time.Now()} }

// Enter is false for a job that must be sent again.
func (g *Gate) Enter(from conversation.Member, key conversation.SessionKey, t Turn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if now.Sub(g.swept) > forget {
		g.swept = now
		maps.DeleteFunc(g.next, func(_ sender, t turn) bool { return now.Sub(t.at) > forget })
	}
	s := sender{from, key}
	is, known := g.next[s]
	switch {
	case known && t.Round < is.Round, known && t.Round == is.Round && (is.shut || t.Index != is.Index):
		return false
	case (!known || t.Round > is.Round) && t.Index != 0:
		return false
	}
	t.Index++
	g.next[s] = turn{Turn: t, at: now}
	return true
}

// Shut lets in nothing more of the round of a job that was sent away.
func (g *Gate) Shut(from conversation.Member, key conversation.SessionKey, t Turn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := sender{from, key}
	if is, known := g.next[s]; !known || is.Round <= t.Round {
		g.next[s] = turn{Turn: t, shut: true, at: time.Now()}
	}
}
