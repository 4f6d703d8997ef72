package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"parley/tools/mcp/secret"
	"regexp"
	"sync"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// errTooLong is the error of a message that is longer than Limits.Message.
var errTooLong = errors.New("the server sent a message that is too long")

// endpoint is a connection to a streamable HTTP server.
type endpoint struct {
	url     *url.URL
	headers http.Header
	limits  Limits
	base    *http.Transport
	ctx     context.Context // ends all requests
	cancel  context.CancelFunc

	mu     sync.Mutex
	failed func(error) // called for requests that did not get through; may be nil
}

func newEndpoint(s *Server, limits Limits, lookup func(string) (string, bool)) (e *endpoint, secrets []string, err error) {
	address, found, err := NewSecret(s.URL).Fill(lookup)
	if err != nil {
		return nil, nil, fmt.Errorf("url: %w", err)
	}
	secrets = append(secrets, found...)
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, nil, errors.New("url: what its references stand for makes no address") // the error would repeat it
	}
	for name, values := range u.Query() {
		if secret.Sensitive(name) {
			secrets = append(secrets, values...)
		}
	}
	headers := http.Header{}
	for _, name := range sorted(s.Headers) {
		value, found, err := fill(name, s.Headers[name], lookup, true)
		if err != nil {
			return nil, nil, fmt.Errorf("headers: %s: %w", name, err)
		}
		headers.Set(name, value)
		secrets = append(secrets, found...)
	}
	e = &endpoint{url: u, headers: headers, limits: limits}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	dialer := net.Dialer{Timeout: s.ConnectTimeout}
	e.base = &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: s.ConnectTimeout,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     dialer.Timeout,
	}
	return e, secrets, nil
}

// Connect makes the logical connection; the first request is the handshake's.
func (e *endpoint) Connect(ctx context.Context) (sdk.Connection, error) {
	return (&sdk.StreamableClientTransport{
		Endpoint: e.url.String(),
		HTTPClient: &http.Client{
			Transport: e,
			CheckRedirect: func(r *http.Request, via []*http.Request) error {
				if !e.same(r.URL) {
					return errors.New("the server redirects to another host")
				}
				if len(via) > 5 {
					return errors.New("the server redirects in circles")
				}
				return nil
			},
		},
		// Proxies close idle streams: that is no loss, as long as the next one opens.
		MaxRetries:   100,
		MaxEventSize: e.limits.Message,
	}).Connect(ctx)
}

func (e *endpoint) same(u *url.URL) bool { return u.Scheme == e.url.Scheme && u.Host == e.url.Host }

// RoundTrip adds the headers, which are for this host alone, binds the request
// to the connection's life, and bounds what comes back.
func (e *endpoint) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	unbind := context.AfterFunc(e.ctx, cancel)
	release := func() { unbind(); cancel() }
	out := r.Clone(ctx)
	if e.same(r.URL) {
		for name, values := range e.headers {
			out.Header[name] = values
		}
	}
	resp, err := e.base.RoundTrip(out)
	if err != nil {
		ended := ctx.Err() != nil
		release()
		if !ended {
			e.reportFailure(err)
		}
		return nil, err
	}
	if forgotten(r, resp) {
		markNotTaken(r.Context())
		e.reportFailure(errForgotten)
	}
	body := &limitedBody{ReadCloser: resp.Body, left: int64(e.limits.Message), release: release}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/event-stream" && resp.StatusCode/100 == 2 {
		body.left = -1 // a stream may go on; the length of its events is bounded
	}
	resp.Body = body
	return resp, nil
}

// errForgotten ends a connection whose session the endpoint does not know any more:
// it was started again, or had waited for too long.
var errForgotten = errors.New("the server does not know this session any more")

// unknownSession matches what servers say of a session that they do not know. The
// protocol's answer to it is 404; several answer 400 with a message.
var unknownSession = regexp.MustCompile(`(?i)\b(no valid|not a valid|invalid|unknown|expired|no such)\b.{0,20}\bsession|\bsession\b.{0,20}\b(not found|not valid|invalid|unknown|expired|does not exist)`)

// forgotten tells whether the endpoint refused a message because it does not know the
// session; then it certainly did nothing about it.
func forgotten(r *http.Request, resp *http.Response) bool {
	if r.Method != http.MethodPost || r.Header.Get("Mcp-Session-Id") == "" {
		return false
	}
	switch resp.StatusCode {
	case http.StatusNotFound:
		return true
	case http.StatusBadRequest:
		head, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		resp.Body = readCloser{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
		return err == nil && unknownSession.Match(head)
	}
	return false
}

type readCloser struct {
	io.Reader
	io.Closer
}

type watchKey struct{}

// watched returns a context for one request, and what says later whether the server
// certainly did not take it.
func watched(ctx context.Context) (context.Context, *atomic.Bool) {
	notTaken := new(atomic.Bool)
	return context.WithValue(ctx, watchKey{}, notTaken), notTaken
}

func markNotTaken(ctx context.Context) {
	if notTaken, ok := ctx.Value(watchKey{}).(*atomic.Bool); ok {
		notTaken.Store(true)
	}
}

func (e *endpoint) reportFailure(err error) {
	e.mu.Lock()
	report := e.failed
	e.mu.Unlock()
	if report != nil {
		report(err)
	}
}

func (e *endpoint) onFailure(f func(error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failed = f
}

func (e *endpoint) terminate() string {
	e.cancel()
	e.base.CloseIdleConnections()
	return ""
}

// limitedBody fails when more than left bytes are read; left < 0 = no limit.
type limitedBody struct {
	io.ReadCloser
	left    int64
	release func()
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return b.ReadCloser.Read(p)
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		b.left = 0
		return 0, errTooLong
	}
	b.left -= int64(n)
	return n, err
}

func (b *limitedBody) Close() error {
	err := b.ReadCloser.Close()
	b.release()
	return err
}
