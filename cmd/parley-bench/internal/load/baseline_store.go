package load

import (
	"crypto/rand"
	"encoding/binary"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// storeBaseline measures the durable commits a second of the store's engine by
// itself: writers that each commit one batch of four keys with size bytes
// altogether and wait for the sync, as often as they can.
func storeBaseline(writers, size int, d time.Duration) (result, error) {
	dir, err := os.MkdirTemp("", "parley-baseline-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	options := &pebble.Options{
		FormatMajorVersion: pebble.FormatValueSeparation,
		MemTableSize:       128 << 20,
		Logger:             quiet{},
	}
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(dir, options)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	value := make([]byte, max(1, size/4-24))
	if _, err := rand.Read(value); err != nil {
		return result{}, err
	}
	return loop{workers: writers, d: d}.run(func(worker int) (func() (int, error), func(), error) {
		key := make([]byte, 24)
		binary.BigEndian.PutUint64(key, uint64(worker))
		n := uint64(0)
		return func() (int, error) {
			batch := db.NewBatch()
			defer batch.Close()
			for table := range 4 {
				n++
				key[8] = byte(table)
				binary.BigEndian.PutUint64(key[16:], n)
				if err := batch.Set(key, value, nil); err != nil {
					return 0, err
				}
			}
			return 1, batch.Commit(pebble.Sync)
		}, func() {}, nil
	})
}

// quiet drops all messages of the engine but the fatal ones.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	pebble.DefaultLogger.Fatalf(format, args...)
}
