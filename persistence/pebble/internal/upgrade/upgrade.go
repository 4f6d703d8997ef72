package upgrade

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/wire"
	"parley/persistence/pebble/internal/layout"
)

// steps takes a store of the layout that is the key to the next one.
var steps = map[uint32]func(p *pebble.DB, now time.Time) error{
	1: timeTombstones,
	2: listClaims,
	3: nothing,
	4: nothing, // what can be found is made behind the start, and there were no attachments
	5: nothing, // what can be found is made again behind the start
}

// nothing is the step from layout 3, which had no tables of what channels remember, from
// layout 4, which had none of what is attached to messages, and from layout 5, which had none of
// gates and sieves: a program that does not know them would erase a session and leave them.
func nothing(*pebble.DB, time.Time) error { return nil }

// Layout is the version of the layout that a store has; 0 = it names none.
func Layout(p pebble.Reader) (version uint32, err error) {
	v, closer, err := p.Get(layout.KeySchema)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("the layout's version: %w", err)
	}
	return Version(v), closer.Close()
}

// Version reads the value that names the version; 0 = it cannot be read.
func Version(v []byte) uint32 {
	if len(v) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(v)
}

// Store takes a store to the layout of this program and says which it had.
func Store(p *pebble.DB, now time.Time) (from uint32, err error) {
	if from, err = Layout(p); err != nil {
		return 0, err
	}
	if from == 0 {
		return 0, errors.New("the store names no layout")
	}
	for version := from; version < layout.Version; version++ {
		step, ok := steps[version]
		if !ok {
			return from, fmt.Errorf("no way leads from layout %d to %d", version, version+1)
		}
		if err := step(p, now); err != nil {
			return from, fmt.Errorf("upgrade from layout %d to %d: %w", version, version+1, err)
		}
		// Its sync makes what the step wrote before durable as well.
		if err := p.Set(layout.KeySchema, layout.AppendU32(nil, version+1), pebble.Sync); err != nil {
			return from, err
		}
	}
	return from, nil
}

// timeTombstones is the step from layout 1: tombstones had no time. They get the
// time of the upgrade, and the text of their sessions is to be taken off the disk.
func timeTombstones(p *pebble.DB, now time.Time) (err error) {
	prefix := []byte{layout.TableTombstone}
	it, err := p.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	b := p.NewBatch()
	for ok := it.First(); ok; ok = it.Next() {
		key, _, fits := layout.CutSession(it.Key()[1:])
		epoch, at, readable := layout.CutTombstone(it.Value())
		if !fits || !readable {
			return fmt.Errorf("tombstone %x cannot be read", it.Key())
		}
		if !at.IsZero() {
			continue
		}
		_ = b.Set(it.Key(), layout.AppendTombstone(nil, epoch, now), nil)
		_ = b.Set(layout.KeyUncleared(nil, key), nil, nil)
		if b.Count() >= batchKeys {
			if err := p.Apply(b, pebble.NoSync); err != nil {
				return err
			}
			b.Reset()
		}
	}
	return errors.Join(it.Error(), p.Apply(b, pebble.NoSync), b.Close())
}

// listClaims is the step from layout 2: nothing said which tasks wait for an outside
// runtime. It reads the list of all tasks once: the RUNNING ones of outside sessions,
// of which none was handed out yet.
func listClaims(p *pebble.DB, _ time.Time) (err error) {
	prefix := []byte{layout.TableTasks}
	it, err := p.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	b := p.NewBatch()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if len(v) == 0 || conversation.TaskStatus(v[0]) != conversation.TaskRunning {
			continue
		}
		if err := listClaim(p, b, it.Key(), v); err != nil {
			return err
		}
		if b.Count() >= batchKeys {
			if err := p.Apply(b, pebble.NoSync); err != nil {
				return err
			}
			b.Reset()
		}
	}
	return errors.Join(it.Error(), p.Apply(b, pebble.NoSync), b.Close())
}

// listClaim lists one RUNNING task, if a runtime may claim it. What cannot be read is
// left as it is: its session says so when it is loaded.
func listClaim(p *pebble.DB, b *pebble.Batch, k, v []byte) error {
	tenant, _, fits := layout.CutString(k[1:])
	task, _, ok := layout.CutTaskTime(k)
	if !ok || !fits {
		return nil
	}
	key := conversation.SessionKey{Tenant: conversation.TenantID(tenant), Session: conversation.SessionID(v[1:])}
	stored, found, err := get(p, layout.KeyTask(nil, key, task))
	if err != nil || !found {
		return err
	}
	row, bad := wire.DecodeTaskRow(stored)
	if bad != nil || !row.Agent.Outside() {
		return nil
	}
	stored, found, err = get(p, layout.KeyHead(nil, key))
	if err != nil || !found {
		return err
	}
	h, bad := layout.DecodeHead(stored)
	if bad != nil {
		return nil
	}
	h.Row.Claim = &conversation.Claimable{Task: task, Agent: row.Agent, Since: row.CreatedAt}
	_ = b.Set(layout.KeyHead(nil, key), layout.AppendHead(nil, h, wire.AppendHead(nil, h.Row)), nil)
	_ = b.Set(layout.KeyClaim(nil, key, row.CreatedAt.UnixMilli()), nil, nil)
	return nil
}

// get reads a value; found is false if the key is not there.
func get(p *pebble.DB, k []byte) (v []byte, found bool, err error) {
	got, closer, err := p.Get(k)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	v = append([]byte{}, got...)
	return v, true, closer.Close()
}

// batchKeys bounds what a step writes at once.
const batchKeys = 2000
