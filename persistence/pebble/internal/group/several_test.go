package group

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
)

// The sessions are divided among the committers, and the writes of one session end in
// the order in which they came.
func TestSeveralShareTheSessions(t *testing.T) {
	const sessions, writes = 100, 20
	r := start(t, 1<<20) // its store
	close(r.begin)
	with := r.with
	with.Writable = func() error { return nil }
	s := StartSeveral(3, with)
	defer s.Close()
	ends := make([]told, sessions)
	used := map[*Committer]int{}
	for i := range ends {
		key := conversation.SessionKey{Tenant: "t", Session: conversation.SessionID(fmt.Sprint("s", i))}
		ends[i] = make(told, writes)
		used[s.of(key)]++
		for n := range writes {
			b := r.store.NewBatch()
			_ = b.Set([]byte(key.Session), []byte(fmt.Sprint(n)), nil)
			s.Submit(&Write{Key: key, Batch: b, End: ends[i]})
		}
	}
	if len(used) != 3 {
		t.Errorf("%d committers of 3 have sessions", len(used))
	}
	for i := range ends {
		for range writes {
			if err := <-ends[i]; err != nil {
				t.Error(err)
			}
		}
		last, closer, err := r.store.Get([]byte(fmt.Sprint("s", i)))
		if err != nil || string(last) != fmt.Sprint(writes-1) {
			t.Fatalf("session %d holds %s, %v", i, last, err)
		}
		_ = closer.Close()
	}
}

// Without a number there is one for every four processors.
func TestSeveralByProcessors(t *testing.T) {
	store, err := pebble.Open("", memory())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for procs, want := range map[int]int{1: 1, 4: 1, 7: 1, 8: 2, 32: 8} {
		runtime.GOMAXPROCS(procs)
		s := StartSeveral(0, Setup{Store: store})
		s.Close()
		if got := len(s.committers); got != want {
			t.Errorf("with %d processors there are %d, want %d", procs, got, want)
		}
	}
}
