package find

import (
	"context"
	"slices"
	"sync"
	"time"

	"parley/conversation"
)

// mostWaiting is how many searches of one user wait for a place.
const mostWaiting = 8

// errBusy refuses one more.
var errBusy = &conversation.Error{
	Code: conversation.RateLimited, Message: "too many of your searches wait already; try again in a moment", RetryAfter: time.Second,
}

// who is a user of a tenant.
type who struct {
	tenant conversation.TenantID
	user   conversation.UserID
}

// turns gives out the places for searches. A user has no more of them than he leaves to others,
// so whoever comes finds one, or waits for one search; those who wait get them in turn, however
// many searches each has.
type turns struct {
	mu      sync.Mutex
	left    int
	running map[who]int
	waiting map[who][]chan struct{} // each is closed when its search may run
	next    []who                   // those of waiting, in their turn
	changed func(waiting int)       // hears how many more wait, or fewer; nil = nobody
}

func newTurns(places int, changed func(int)) *turns {
	return &turns{left: places, running: map[who]int{}, waiting: map[who][]chan struct{}{}, changed: changed}
}

// take waits for a place; done gives it back.
func (t *turns) take(ctx context.Context, w who) (done func(), err error) {
	t.mu.Lock()
	if len(t.waiting[w]) == 0 && t.fits(w) {
		t.run(w)
		t.mu.Unlock()
		return func() { t.end(w) }, nil
	}
	if len(t.waiting[w]) == mostWaiting {
		t.mu.Unlock()
		return nil, errBusy
	}
	turn := make(chan struct{})
	if len(t.waiting[w]) == 0 {
		t.next = append(t.next, w)
	}
	t.waiting[w] = append(t.waiting[w], turn)
	t.changed(1)
	t.mu.Unlock()
	select {
	case <-turn:
		return func() { t.end(w) }, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting[w], turn); i >= 0 {
		t.remove(w, i)
	} else { // its turn came at the same moment
		t.give(w)
	}
	return nil, ctx.Err()
}

// fits says whether a user may have one more place.
func (t *turns) fits(w who) bool {
	mine := t.running[w]
	return t.left > 0 && (mine == 0 || mine < t.left)
}

func (t *turns) run(w who) {
	t.left--
	t.running[w]++
}

// remove takes away one who waits.
func (t *turns) remove(w who, i int) {
	t.changed(-1)
	if t.waiting[w] = slices.Delete(t.waiting[w], i, i+1); len(t.waiting[w]) > 0 {
		return
	}
	delete(t.waiting, w)
	t.next = slices.DeleteFunc(t.next, func(n who) bool { return n == w })
}

func (t *turns) end(w who) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.give(w)
}

// give gives a place back, and on to those whose turn it is.
func (t *turns) give(w who) {
	t.left++
	if t.running[w]--; t.running[w] == 0 {
		delete(t.running, w)
	}
	for {
		i := slices.IndexFunc(t.next, t.fits)
		if i < 0 {
			return
		}
		w := t.next[i]
		turn := t.waiting[w][0]
		t.next = append(slices.Delete(t.next, i, i+1), w) // behind the others
		t.remove(w, 0)
		t.run(w)
		close(turn)
	}
}
