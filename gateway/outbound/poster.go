package outbound

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
)

// Poster posts bodies.
type Poster struct {
	http *http.Client
	idle func() // closes connections that are open still
	now  func() time.Time
}

// Using says how a Poster works.
type Using struct {
	Reach   Reach
	Timeout time.Duration    // of one try
	PerHost int              // connections to one host at a time
	Now     func() time.Time // nil = time.Now

	// Transport takes the place of the network, for tests; nil = the network.
	Transport http.RoundTripper
}

// NewPoster makes one.
func NewPoster(u Using) *Poster {
	p := &Poster{idle: func() {}, now: u.Now}
	if p.now == nil {
		p.now = time.Now
	}
	to := u.Transport
	if to == nil {
		dialer := &net.Dialer{Timeout: u.Timeout, Control: u.Reach.check}
		t := &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: u.Timeout, ResponseHeaderTimeout: u.Timeout,
			MaxResponseHeaderBytes: 64 << 10, MaxConnsPerHost: u.PerHost, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		}
		to, p.idle = t, t.CloseIdleConnections
	}
	p.http = &http.Client{
		Transport: to, Timeout: u.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p
}

// CloseIdle closes connections that nothing is sent over.
func (p *Poster) CloseIdle() { p.idle() }

// Error implements error.
func (n *NotTaken) Error() string { return n.Reason + ": " + n.Text }

// The reasons why a body was not taken, as metrics have them.
const (
	ReasonGone       = "gone"
	ReasonRedirect   = "redirect"
	ReasonRate       = "rate_limited"
	ReasonClient     = "client_error"
	ReasonServer     = "server_error"
	ReasonPrivate    = "private_address"
	ReasonTimeout    = "timeout"
	ReasonConnection = "connection"
)

// NotTaken is why a body was not taken.
type NotTaken struct {
	Reason string
	Text   string        // for the log, without the address
	After  time.Duration // when the receiver wants to be asked again; 0 = it has not said
}

// maxAnswer is how much of an answer is read, so that its connection may be used again.
const maxAnswer = 16 << 10

// Post sends a body once. Names of headers must be spelled as package net/http has them.
func (p *Poster) Post(ctx context.Context, address string, header http.Header, body []byte) *NotTaken {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return &NotTaken{Reason: ReasonConnection, Text: "the url is none"}
	}
	req.Header = header
	req.Header.Set("User-Agent", "parley")
	resp, err := p.http.Do(req)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // what it says is known already
	return judge(resp, p.now())
}

// judge makes of an answer why the body was not taken; nil = it was.
func judge(resp *http.Response, now time.Time) *NotTaken {
	f := &NotTaken{Text: "status " + strconv.Itoa(resp.StatusCode), After: retryAfter(resp.Header.Get("Retry-After"), now)}
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusGone:
		f.Reason = ReasonGone
	case code == http.StatusTooManyRequests:
		f.Reason = ReasonRate
	case code >= 500:
		f.Reason = ReasonServer
	case code >= 400:
		f.Reason = ReasonClient
	default:
		f.Reason = ReasonRedirect
	}
	return f
}

// failed is why there was no answer. The error of package net/http has the address in it, the
// one inside has not.
func failed(err error) *NotTaken {
	var outer *url.Error
	timeout := errors.As(err, &outer) && outer.Timeout()
	if outer != nil {
		err = outer.Err
	}
	f := &NotTaken{Reason: ReasonConnection, Text: "what came back is no answer of HTTP"}
	switch {
	case errors.Is(err, ErrPrivate):
		f.Reason, f.Text = ReasonPrivate, ErrPrivate.Error()
	case errors.Is(err, errOutside):
		f.Reason, f.Text = ReasonPrivate, errOutside.Error()
	case timeout:
		f.Reason, f.Text = ReasonTimeout, conversation.Excerpt(err.Error(), maxText)
	case ours(err):
		f.Text = conversation.Excerpt(err.Error(), maxText)
	}
	return f
}

// maxText bounds the text of a failure, in code points.
const maxText = 300

// ours is true for an error that says nothing of what the other side has written. Those of package
// net/http about an answer quote it, and a receiver may send back what it was sent.
func ours(err error) bool {
	return errors.As(err, new(*net.OpError)) || errors.As(err, new(*net.DNSError)) ||
		errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(tls.RecordHeaderError)) ||
		errors.Is(err, http.ErrSchemeMismatch) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled)
}

// maxRetryAfter bounds what a receiver may ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads a Retry-After: seconds, or a date. 0 = it says nothing that could be one.
func retryAfter(value string, now time.Time) time.Duration {
	if value = strings.TrimSpace(value); value == "" {
		return 0
	}
	if n, err := strconv.ParseUint(value, 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
