package opening

import (
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Patience is how Patiently waits.
type Patience struct {
	For     time.Duration         // from the first failure on
	Failing <-chan error          // gets the failures of flushes
	Begins  func(*GaveUpError)    // is called at the first failure, with what is said if it does not end
	Ends    func(late *pebble.DB) // is called if Open comes to its end after it was given up; late may be nil
}

// GaveUpError says that the disk took no tables for too long.
type GaveUpError struct {
	For     time.Duration
	Failure error
}

// Why says in words why a table cannot be written.
func (e *GaveUpError) Why() string {
	if vfs.IsNoSpaceError(e.Failure) {
		return "the disk is full"
	}
	return "the disk cannot be written to (" + strings.Join(strings.Fields(e.Failure.Error()), " ") + ")"
}

func (e *GaveUpError) Error() string {
	return fmt.Sprintf("%s, and what the log holds could not be written into tables for %v; nothing is lost: make room or mend the disk, and start again", e.Why(), e.For)
}

func (e *GaveUpError) Unwrap() error { return e.Failure }

// Patiently opens Pebble and gives up where Pebble would not: what the logs held is
// written into tables while it opens, and a write that fails is tried again without
// end, without a word to the caller and without a way to stop it (Open waits for a
// condition variable that only a finished flush signals). So it runs in a goroutine
// of its own. After *GaveUpError that one is abandoned: the process is expected to
// end, and until then Pebble has the lock, as long as it may write.
func Patiently(open func() (*pebble.DB, error), how Patience) (*pebble.DB, error) {
	type result struct {
		p   *pebble.DB
		err error
	}
	opened := make(chan result, 1)
	go func() { // ends with Pebble's Open, or with the process
		p, err := open()
		opened <- result{p, err}
	}()
	var up <-chan time.Time
	why := &GaveUpError{For: how.For}
	for {
		select {
		case r := <-opened:
			return r.p, r.err
		case why.Failure = <-how.Failing:
			if up == nil {
				how.Begins(why)
				up = time.After(how.For)
			}
		case <-up:
			go func() { // ends with Pebble's Open, or with the process
				r := <-opened
				how.Ends(r.p)
			}()
			return nil, why
		}
	}
}
