package openai

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// newTransport is one model's own pool of connections. It takes no proxy from
// the environment.
func newTransport(connect time.Duration, proxy *url.URL) *http.Transport {
	t := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: connect, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: connect,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
	}
	if proxy != nil {
		t.Proxy = http.ProxyURL(proxy)
	}
	return t
}

// stay does not follow redirects: a key is sent to the configured address only.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// What a call fails with before its failure is told (failure.go).
var (
	errIdle    = errors.New("not a byte came within the idle timeout")
	errTooLong = errors.New("the answer is longer than the limit")
	errCut     = errors.New("the stream ended without its terminal event")
	errHTML    = errors.New("the answer is a page of HTML")
)

// watch looks after the bytes of one call.
type watch struct {
	idle  time.Duration
	timer *time.Timer // nil = no idle timeout
	left  int64
}

func (m *Model) watch(cancel context.CancelCauseFunc) *watch {
	w := &watch{idle: m.o.IdleTimeout, left: m.o.MaxBytes}
	if w.idle > 0 {
		w.timer = time.AfterFunc(w.idle, func() { cancel(errIdle) })
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

// middleware sits closest to the wire: it turns every refusal into a
// *statusError, before the SDK reads a body without a bound, and loses the
// status of one that is not JSON.
func (w *watch) middleware(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
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
