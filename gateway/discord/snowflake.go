package discord

import (
	"strconv"
	"time"
)

// epoch is Discord's, in milliseconds.
const epoch = 1420070400000

// isID is true for an id of Discord: a number that holds when it was made.
func isID(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}

// number is an id as a number; 0 = it is none.
func number(id string) uint64 {
	n, _ := strconv.ParseUint(id, 10, 64)
	return n
}

// madeAt is when an id was made, by Discord's clock.
func madeAt(id string) time.Time { return time.UnixMilli(int64(number(id)>>22) + epoch) }

// firstAt is the smallest id of a time.
func firstAt(t time.Time) uint64 { return uint64(max(t.UnixMilli()-epoch, 0)) << 22 }

// now is the time by Discord's clock.
func (b *Bot) now() time.Time {
	return time.Now().Add(time.Duration(b.skew.Load()) * time.Millisecond)
}

// recent remembers the newest names that were put into it. Its owner's mutex guards it.
type recent struct {
	max   int
	names map[string]struct{}
	order []string
	next  int
}

// maxSeen bounds what is remembered: more than Discord replays, and than histories bring.
const maxSeen = 20_000

// add adds a name; false = it was there.
func (r *recent) add(name string) bool {
	if r.has(name) {
		return false
	}
	if r.names == nil {
		r.names = map[string]struct{}{}
	}
	if len(r.order) < r.max {
		r.order = append(r.order, name)
	} else {
		delete(r.names, r.order[r.next])
		r.order[r.next] = name
		r.next = (r.next + 1) % r.max
	}
	r.names[name] = struct{}{}
	return true
}

func (r *recent) has(name string) bool {
	_, is := r.names[name]
	return is
}
