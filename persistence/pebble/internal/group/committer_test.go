package group

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
)

// rig is a committer over a store in memory, and what it was told to say.
type rig struct {
	*Committer
	store    *pebble.DB
	inFlight atomic.Int64
	refuse   error // of Writable
	begin    chan struct{}
	began    chan struct{}

	mu      sync.Mutex
	batches []int
	fatal   []error
}

func memory() *pebble.Options { return &pebble.Options{FS: vfs.NewMem()} }

func start(t *testing.T, maxBytes int) *rig {
	t.Helper()
	store, err := pebble.Open("", memory())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{store: store, begin: make(chan struct{}), began: make(chan struct{}, 100)}
	r.Committer = Start(Setup{
		Store: store, How: func() *pebble.WriteOptions { return pebble.Sync }, InFlight: &r.inFlight,
		Writable: func() error { // the applier comes by before each batch
			r.began <- struct{}{}
			<-r.begin
			return r.refuse
		},
		Dead: func() error { return nil },
		Fatal: func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.fatal = append(r.fatal, err)
		},
		Synced: func(writes int, keys uint32) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.batches = append(r.batches, writes); int(keys) != writes {
				t.Errorf("%d keys of %d writes", keys, writes)
			}
		},
		MaxBytes: maxBytes,
	})
	t.Cleanup(func() {
		r.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		if n := r.inFlight.Load(); n != 0 {
			t.Errorf("%d batches are still in flight", n)
		}
	})
	return r
}

type told chan error

func (t told) End(err error) { t <- err }

func (r *rig) submit(value string, end told) {
	b := r.store.NewBatch()
	_ = b.Set([]byte("key"), []byte(value), nil)
	r.Submit(&Write{Key: conversation.SessionKey{Session: "s"}, Batch: b, End: end})
}

// What waits while a batch is on its way becomes the next ones: bounded by their number
// and by their bytes, and in the order in which they came. One that alone is larger goes alone.
func TestBatchesAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		maxBytes, writes int
		value            string
		want             []int
	}{
		"one":            {1 << 20, 1, "v", []int{1}},
		"few":            {1 << 20, 41, "v", []int{1, 40}},
		"full":           {1 << 20, 1 + maxWrites, "v", []int{1, maxWrites}},
		"more than full": {1 << 20, 2 + maxWrites, "v", []int{1, maxWrites, 1}},
		"bytes":          {1000, 6, strings.Repeat("v", 400), []int{1, 2, 2, 1}},
		"too large":      {1000, 4, strings.Repeat("v", 2000), []int{1, 1, 1, 1}},
	} {
		r := start(t, c.maxBytes)
		end := make(told, c.writes)
		for i := range c.writes {
			r.submit(fmt.Sprint(c.value, i), end)
			if i == 0 {
				<-r.began // all others wait
			}
		}
		close(r.begin)
		for range c.writes {
			if err := <-end; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		r.mu.Lock()
		if !slices.Equal(r.batches, c.want) {
			t.Errorf("%s: batches of %v writes, want %v", name, r.batches, c.want)
		}
		r.mu.Unlock()
		last, closer, err := r.store.Get([]byte("key"))
		if err != nil || string(last) != fmt.Sprint(c.value, c.writes-1) {
			t.Errorf("%s: the last write is %.10s, %v", name, last, err)
		} else {
			_ = closer.Close()
		}
	}
}

// A store that takes nothing more refuses a batch before it is begun: nothing is written.
func TestBatchesAreRefused(t *testing.T) {
	r := start(t, 1<<20)
	close(r.begin)
	r.refuse = errors.New("no more")
	end := make(told, 1)
	r.submit("v", end)
	if err := <-end; !errors.Is(err, r.refuse) {
		t.Errorf("told %v", err)
	}
	if _, _, err := r.store.Get([]byte("key")); !errors.Is(err, pebble.ErrNotFound) {
		t.Errorf("it was written: %v", err)
	}
}

// A panic of Pebble's is fatal, and the outcome of the batch unknown: told, not refused.
func TestPanicIsFatal(t *testing.T) {
	r := start(t, 1<<20)
	close(r.begin)
	b := r.store.NewBatch()
	_ = b.Set([]byte("key"), nil, nil)
	if err := r.store.Apply(b, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	end := make(told, 1)
	r.Submit(&Write{Batch: b, End: end}) // a second time: Pebble panics
	if err := <-end; err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("told %v", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.fatal) != 1 {
		t.Errorf("fatal: %v", r.fatal)
	}
}
