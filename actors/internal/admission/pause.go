package admission

import (
	"sync/atomic"
	"time"
)

// Pause is a time in which something is not done. It goes by the process's own clock: one
// on the wall that is set back would make it longer. Any goroutine may use it.
type Pause struct {
	base  time.Time     // any time of the process; what is before it was long ago
	until *atomic.Int64 // nanoseconds since then
}

// NewPause is a Pause that is over.
func NewPause() Pause { return Pause{base: time.Now(), until: new(atomic.Int64)} }

// Begin has the pause end after d.
func (p Pause) Begin(d time.Duration) { p.until.Store(int64(time.Since(p.base) + d)) }

// On is true until its end.
func (p Pause) On() bool { return int64(time.Since(p.base)) < p.until.Load() }

// Begun is true once it has ever begun.
func (p Pause) Begun() bool { return p.until.Load() != 0 }
