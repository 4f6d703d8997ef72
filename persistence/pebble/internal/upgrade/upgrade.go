package upgrade

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/pebble/internal/layout"
)

// steps takes a store of the layout that is the key to the next one.
var steps = map[uint32]func(p *pebble.DB, now time.Time) error{
	1: timeTombstones,
}

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

// batchKeys bounds what a step writes at once.
const batchKeys = 2000
