package pebble

import (
	"iter"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"parley/conversation"
	"parley/persistence/persistencetest"
)

// TestMemoryIsTheModel compares every answer with that of the map-backed store.
func TestMemoryIsTheModel(t *testing.T) {
	persistencetest.RunModel(t, func(rt *rapid.T) (func() conversation.Store, func(conversation.Store) error) {
		fs := vfs.NewMem()
		o := Options{MemTableBytes: 256 << 10, CacheBytes: 1 << 20, Heads: 1, OnFatal: func(err error) { rt.Fatalf("fatal: %v", err) }}
		open := func() conversation.Store {
			db, err := openOn(fs, "store", o)
			if err != nil {
				rt.Fatalf("open: %v", err)
			}
			return db
		}
		return open, func(s conversation.Store) error { return whole(s.(*DB), false) }
	})
}

func listOf[T any](seq iter.Seq2[T, error]) (all []T, err error) {
	for v, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}
