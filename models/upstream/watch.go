package upstream

import (
	"context"
	"io"
	"net/http"
	"time"
)

// watch looks after the bytes of one call.
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

// maxErrorBody is how much of a refusal is read: enough to find its code.
const maxErrorBody = 64 << 10

// Middleware sits closest to the wire: it turns every refusal into an error of
// this package, before an SDK reads a body without a bound, and loses the status
// of one that is not JSON.
func (w *watch) Middleware(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	res, err := next(req)
	if err != nil {
		return res, err
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
		_ = res.Body.Close()
		return nil, &statusError{status: res.StatusCode, header: res.Header, body: body}
	}
	res.Body = &watchedBody{ReadCloser: res.Body, w: w}
	return res, nil
}

// watchedBody counts what is read, and holds the idle timer off.
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
