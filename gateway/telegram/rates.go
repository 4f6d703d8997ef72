package telegram

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"parley/gateway/chat"
)

// How often a bot may write, as https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this
// has it: 30 messages a second altogether, one a second in a chat with short bursts, 20 a minute
// in a group. Who keeps to that hears 429 rarely.
const (
	allPerSecond = 30
	chatBurst    = 3
	groupBurst   = 5
	groupEvery   = 4 * time.Second // 15 a minute, and the burst
	// longestTurn bounds how long a message waits for its turn here. What would wait longer is
	// given back, with the time.
	longestTurn = 5 * time.Second
	// keptRates is how many chats are remembered before those are forgotten that have been
	// quiet for long enough.
	keptRates = 1000
)

// rates keeps to the platform's limits.
type rates struct {
	all *rate.Limiter

	mu   sync.Mutex
	each map[int64]*rate.Limiter
}

func newRates() *rates {
	return &rates{all: rate.NewLimiter(allPerSecond, allPerSecond), each: map[int64]*rate.Limiter{}}
}

// of is the limiter of a chat.
func (r *rates) of(id int64) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.each[id]
	if l == nil {
		if len(r.each) >= keptRates {
			for other, l := range r.each {
				if l.Tokens() >= float64(l.Burst()) { // a new one would be the same
					delete(r.each, other)
				}
			}
		}
		if l = rate.NewLimiter(1, chatBurst); id < 0 {
			l = rate.NewLimiter(rate.Every(groupEvery), groupBurst)
		}
		r.each[id] = l
	}
	return l
}

// turn waits until something may be sent to a chat. The error is a *chat.Failure: nothing was
// sent.
func (r *rates) turn(ctx context.Context, id int64) error {
	now := time.Now()
	one, all := r.of(id).ReserveN(now, 1), r.all.ReserveN(now, 1)
	wait := max(one.DelayFrom(now), all.DelayFrom(now))
	giveBack := func() { one.Cancel(); all.Cancel() }
	if wait > longestTurn {
		giveBack()
		return &chat.Failure{Trouble: chat.Later, After: wait, Text: "Telegram takes no more messages for this chat in so short a time"}
	}
	if wait == 0 {
		return nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		giveBack()
		return &chat.Failure{Trouble: chat.Later, Text: "the message was not sent before the end"}
	}
}

// spare takes a turn for what need not be sent at all; false = there is none just now.
func (r *rates) spare() bool { return r.all.Allow() }
