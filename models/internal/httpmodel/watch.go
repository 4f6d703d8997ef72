package httpmodel

import (
	"context"
	"io"
	"time"
)

// watch bounds the silence and the number of bytes of one call.
type watch struct {
	idle  time.Duration
	timer *time.Timer // nil = no idle timeout
	left  int64
}

func newWatch(idle time.Duration, most int64, cancel context.CancelCauseFunc) *watch {
	w := &watch{idle: idle, left: most}
	if idle > 0 {
		w.timer = time.AfterFunc(idle, func() { cancel(errIdle) })
	}
	return w
}

func (w *watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// watchedBody counts the bytes of an answer, and restarts the idle timer with each.
type watchedBody struct {
	io.ReadCloser
	w *watch
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.w.timer != nil && n > 0 {
		b.w.timer.Reset(b.w.idle)
	}
	b.w.left -= int64(n)
	if b.w.left < 0 {
		return 0, errTooLong
	}
	return n, err
}
