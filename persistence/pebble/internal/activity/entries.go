package activity

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/persistence/pebble/internal/layout"
)

// Entry is a session and its newest activity. Table 03 has it there, or at most
// layout.ActivityLag earlier: only the session's head knows exactly. So a list reads
// on until nothing that comes can belong before what it has, and reads the head of
// each session that it meets: it costs its own length, and the sessions that were
// active within the lag of its two ends.
type Entry struct {
	Key      conversation.SessionKey
	Activity int64 // milliseconds
}

// Found is a session of a list.
type Found struct {
	Entry
	Head *layout.Head
	Err  error // the head cannot be read; Entry is what table 03 says
}

// A part is the first sessions of a list behind a place, in the list's order.
type part struct {
	from  pebble.Reader
	at    Entry
	begun bool
	most  int
	order func(a, b Entry) int
	found []Found
	heads int // read for it
}

// see takes a session that table 03 has at e, if it is one of the first.
func (p *part) see(e Entry) {
	f := Found{Entry: e}
	p.heads++
	if f.Head, f.Err = head(p.from, e.Key); f.Err == nil {
		f.Activity = f.Head.Latest
	}
	if p.begun && (f.Activity == p.at.Activity && f.Key.Session == p.at.Key.Session || p.order(f.Entry, p.at) < 0) {
		return
	}
	i, _ := slices.BinarySearchFunc(p.found, f, func(a, b Found) int { return p.order(a.Entry, b.Entry) })
	if p.found = slices.Insert(p.found, i, f); len(p.found) > p.most {
		p.found = p.found[:p.most]
	}
}

// last is the last session of a part that is full.
func (p *part) last() (e Entry, full bool) {
	if len(p.found) < p.most {
		return e, false
	}
	return p.found[p.most-1].Entry, true
}

func head(from pebble.Reader, key conversation.SessionKey) (*layout.Head, error) {
	v, closer, err := from.Get(layout.KeyHead(nil, key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, fmt.Errorf("%w: %s is listed", layout.ErrHead, key)
	}
	if err != nil {
		return nil, err
	}
	h, err := layout.DecodeHead(v)
	if err == nil && h.Summary == nil {
		err = fmt.Errorf("%w: %s is listed", layout.ErrHead, key)
	}
	return h, errors.Join(err, closer.Close())
}

// One reads one session as the list has it; it is not there if nothing was committed.
func One(from pebble.Reader, key conversation.SessionKey) (found []Found, heads int, err error) {
	if key.Session.Depth() > 0 {
		return nil, 0, nil
	}
	v, closer, err := from.Get(layout.KeyHead(nil, key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	f := Found{Entry: Entry{Key: key}}
	if f.Head, f.Err = layout.DecodeHead(v); f.Err == nil && f.Head.Listed {
		f.Activity = f.Head.Latest
		found = []Found{f}
	}
	return found, 1, errors.Join(f.Err, closer.Close())
}

// newest orders sessions as Newest does.
func newest(a, b Entry) int {
	return cmp.Or(cmp.Compare(b.Activity, a.Activity), cmp.Compare(a.Key.Session, b.Key.Session), cmp.Compare(a.Key.Tenant, b.Key.Tenant))
}

// oldest is the exact reverse.
func oldest(a, b Entry) int { return newest(b, a) }

// Newest reads the first n sessions of one tenant, newest first, behind at if begun.
// Fewer than n are the last ones. heads is how many heads had to be read for them.
func Newest(from pebble.Reader, at Entry, begun bool, n int) (found []Found, heads int, err error) {
	lower := layout.TenantPrefix(nil, layout.TableActivity, at.Key.Tenant)
	upper := layout.After(lower)
	if begun { // who is behind a moment was not listed later than that
		lower = layout.AppendU64(lower, ^layout.Ordered(at.Activity))
	}
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	p := part{from: from, at: at, begun: begun, most: n, order: newest}
	for ok := it.First(); ok; ok = it.Next() {
		key, ms, fits := layout.CutActivity(it.Key())
		if !fits {
			return p.found, p.heads, fmt.Errorf("key %x is not one of the list of sessions", it.Key())
		}
		if last, full := p.last(); full && last.Activity-ms >= layout.ActivityLag {
			break
		}
		p.see(Entry{key, ms})
	}
	return p.found, p.heads, it.Error()
}

// Oldest reads the first n sessions of all tenants, oldest first, behind at if begun:
// the exact reverse of Newest within a tenant, merged over the tenants. That costs a
// seek for each tenant and each session, for a sweeper that comes once in a while;
// an index of its own would cost every commit.
func Oldest(from pebble.Reader, at Entry, begun bool, n int) (found []Found, heads int, err error) {
	lower := []byte{layout.TableActivity}
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: layout.After(lower)})
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()

	var next oldestFirst
	before := func(tenant conversation.TenantID, key []byte) error {
		if !it.SeekLT(key) {
			return it.Error()
		}
		key2, ms, ok := layout.CutActivity(it.Key())
		if !ok {
			return fmt.Errorf("key %x is not one of the list of sessions", it.Key())
		}
		if key2.Tenant == tenant {
			heap.Push(&next, Entry{key2, ms})
		}
		return nil
	}
	for ok := it.First(); ok; {
		tenant, _, fits := layout.CutString(it.Key()[1:])
		if !fits {
			return nil, 0, fmt.Errorf("key %x is not one of the list of sessions", it.Key())
		}
		id := conversation.TenantID(tenant)
		prefix := layout.TenantPrefix(nil, layout.TableActivity, id)
		end := layout.After(prefix)
		start := end
		if begun && at.Activity > math.MinInt64+layout.ActivityLag { // listed later than this
			start = layout.AppendU64(prefix, ^layout.Ordered(at.Activity-layout.ActivityLag))
		}
		if err := before(id, start); err != nil {
			return nil, 0, err
		}
		ok = it.SeekGE(end)
	}
	if err := it.Error(); err != nil {
		return nil, 0, err
	}
	p := part{from: from, at: at, begun: begun, most: n, order: oldest}
	for next.Len() > 0 {
		l := heap.Pop(&next).(Entry)
		if last, full := p.last(); full && last.Activity < l.Activity {
			break
		}
		p.see(l)
		if err := before(l.Key.Tenant, layout.KeyActivity(nil, l.Key, l.Activity)); err != nil {
			return nil, 0, err
		}
	}
	return p.found, p.heads, nil
}

// oldestFirst is a heap of the oldest entry of each tenant.
type oldestFirst []Entry

func (o oldestFirst) Len() int           { return len(o) }
func (o oldestFirst) Swap(i, j int)      { o[i], o[j] = o[j], o[i] }
func (o oldestFirst) Less(i, j int) bool { return oldest(o[i], o[j]) < 0 }
func (o *oldestFirst) Push(x any)        { *o = append(*o, x.(Entry)) }
func (o *oldestFirst) Pop() any {
	old := *o
	x := old[len(old)-1]
	*o = old[:len(old)-1]
	return x
}
