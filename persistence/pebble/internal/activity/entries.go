package activity

import (
	"container/heap"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/persistence/pebble/internal/layout"
)

// Entry is an entry of table 03.
type Entry struct {
	Key      conversation.SessionKey
	Activity int64 // milliseconds
}

// Newest reads entries of one tenant, newest first, behind at if begun.
func Newest(from pebble.Reader, at Entry, begun bool, n int) (found []Entry, err error) {
	lower := layout.TenantPrefix(nil, layout.TableActivity, at.Key.Tenant)
	upper := layout.After(lower)
	if begun {
		lower = append(layout.KeyActivity(nil, at.Key, at.Activity), 0)
	}
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok && len(found) < n; ok = it.Next() {
		key, ms, fits := layout.CutActivity(it.Key())
		if !fits {
			return found, fmt.Errorf("key %x is not one of the list of sessions", it.Key())
		}
		found = append(found, Entry{key, ms})
	}
	return found, it.Error()
}

// Oldest reads entries of all tenants, oldest first, behind at if begun: the
// exact reverse of Newest within a tenant, merged over the tenants. That costs a
// seek for each tenant and each entry, for a sweeper that comes once in a while;
// an index of its own would cost every commit.
func Oldest(from pebble.Reader, at Entry, begun bool, n int) (found []Entry, err error) {
	lower := []byte{layout.TableActivity}
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: layout.After(lower)})
	if err != nil {
		return nil, err
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
			return nil, fmt.Errorf("key %x is not one of the list of sessions", it.Key())
		}
		id := conversation.TenantID(tenant)
		end := layout.After(layout.TenantPrefix(nil, layout.TableActivity, id))
		start := end
		if begun {
			at.Key.Tenant = id
			start = layout.KeyActivity(nil, at.Key, at.Activity)
		}
		if err := before(id, start); err != nil {
			return nil, err
		}
		ok = it.SeekGE(end)
	}
	if err := it.Error(); err != nil {
		return nil, err
	}
	for next.Len() > 0 && len(found) < n {
		l := heap.Pop(&next).(Entry)
		found = append(found, l)
		if err := before(l.Key.Tenant, layout.KeyActivity(nil, l.Key, l.Activity)); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// oldestFirst is a heap of the oldest entry of each tenant.
type oldestFirst []Entry

func (o oldestFirst) Len() int      { return len(o) }
func (o oldestFirst) Swap(i, j int) { o[i], o[j] = o[j], o[i] }
func (o oldestFirst) Less(i, j int) bool {
	if o[i].Activity != o[j].Activity {
		return o[i].Activity < o[j].Activity
	}
	if o[i].Key.Session != o[j].Key.Session {
		return o[i].Key.Session > o[j].Key.Session
	}
	return o[i].Key.Tenant > o[j].Key.Tenant
}
func (o *oldestFirst) Push(x any) { *o = append(*o, x.(Entry)) }
func (o *oldestFirst) Pop() any {
	old := *o
	x := old[len(old)-1]
	*o = old[:len(old)-1]
	return x
}
