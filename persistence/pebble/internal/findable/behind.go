package findable

import (
	"context"
	"sync"

	"parley/conversation"
)

// mostBehind bounds the sessions that are noted.
const mostBehind = 1 << 16

// behind knows which sessions may have more in their logs than is kept of them. It is told
// after each commit and before anybody else hears of that, so what it does not name has no
// more that anybody was told of. It is in memory alone: after a start all have to be looked at.
type behind struct {
	mu        sync.Mutex
	following bool
	whole     bool // all sessions were looked at since it follows
	clock     uint64
	of        map[conversation.SessionKey]note
}

type note struct {
	time   uint64 // of its last commit
	unread bool   // it cannot be kept
}

// Follow implements search.Guide.
func (x *Index) Follow() {
	b := &x.behind
	b.mu.Lock()
	defer b.mu.Unlock()
	b.following, b.whole, b.of = true, false, map[conversation.SessionKey]note{}
}

// Whole implements search.Guide.
func (x *Index) Whole() {
	b := &x.behind
	b.mu.Lock()
	defer b.mu.Unlock()
	b.whole = b.following
}

// Goes notes that a log has gone on, or may have.
func (x *Index) Goes(key conversation.SessionKey) { x.behind.note(key, false) }

// Unread implements search.Guide.
func (x *Index) Unread(key conversation.SessionKey) { x.behind.note(key, true) }

func (b *behind) note(key conversation.SessionKey, unread bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.following || key.Session.Depth() > 0 {
		return
	}
	b.clock++
	if b.of[key] = (note{b.clock, unread}); len(b.of) > mostBehind {
		b.following, b.whole, b.of = false, false, nil
	}
}

// time is when a session was noted last; 0 = it is not.
func (b *behind) time(key conversation.SessionKey) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[key].time
}

// caughtUp forgets a session that was noted last at a time.
func (b *behind) caughtUp(key conversation.SessionKey, time uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of[key].time == time {
		delete(b.of, key)
	}
}

// in are the sessions of a tenant that are noted; ok is false if it does not know all.
func (b *behind) in(tenant conversation.TenantID) (all map[conversation.SessionID]bool, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.whole {
		return nil, false
	}
	all = map[conversation.SessionID]bool{}
	for key := range b.of {
		if key.Tenant == tenant {
			all[key.Session] = true
		}
	}
	return all, true
}

// Behind implements search.Guide.
func (x *Index) Behind(ctx context.Context, most int) (all []conversation.SessionKey, whole bool, err error) {
	if err := x.Enter(ctx); err != nil {
		return nil, false, err
	}
	defer x.Leave()
	b := &x.behind
	b.mu.Lock()
	whole = b.whole
	noted := map[conversation.SessionKey]uint64{}
	for key, n := range b.of {
		if !n.unread {
			noted[key] = n.time
		}
	}
	b.mu.Unlock()
	for key, time := range noted {
		h, err := x.head(key)
		if err != nil {
			return nil, whole, err
		}
		to, _, err := x.reached(key)
		if err != nil {
			return nil, whole, err
		}
		if h == nil || to.Through == h.Row.Last { // it is gone, or nothing was said
			b.caughtUp(key, time)
			continue
		}
		if all = append(all, key); len(all) == most {
			break
		}
	}
	return all, whole, nil
}
