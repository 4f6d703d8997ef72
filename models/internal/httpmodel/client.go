package httpmodel

import (
	"context"
	"errors"
	"io"
	"iter"
	"mime"
	"net"
	"net/http"
	"net/url"
	"time"

	"parley/conversation"
	"parley/conversation/option"
	"parley/models/internal/gate"
)

// Provider describes an adapter's provider.
type Provider struct {
	Name           string  // the beginning of the labels of its models
	BaseURL        string  // of its own service
	AskPath        string  // below the base URL: where calls go
	ListPath       string  // below the base URL: where its models are listed
	MaxTemperature float64 // the highest that it takes
	// ParseError finds the error object in the body of a refusal. It never returns nil.
	ParseError func(body []byte) ProviderError
	// Members are those of a request's body that Options.Without may name, Required
	// those that it may not. What begins with KeptPrefix is a member of earlier answers.
	Members, Required []string
	KeptPrefix        string
	// Headers are sent with every request, unless the options have one of the same name.
	Headers map[string]string
}

// Client asks one model over HTTP. It holds no state of a conversation, and remembers of the
// provider only whether it refuses a tool_choice (Call.MustCall). It may be
// used by any number of goroutines.
type Client struct {
	o         Options
	provider  Provider
	base      *url.URL
	transport *http.Transport
	http      *http.Client
	header    http.Header // of every request; not to be changed
	secrets   []string
	choice    choice
}

// New checks the options. It does not connect. Errors name no secret.
func New(o Options, p Provider) (*Client, error) {
	o.setDefaults(p)
	base, proxy, wrong := o.check(p)
	if err := option.JoinFieldErrors(wrong); err != nil {
		return nil, err
	}
	transport := newTransport(o.ConnectTimeout, proxy)
	return &Client{
		o: o, provider: p, base: base, transport: transport, header: o.header(p), secrets: o.secrets(),
		http: &http.Client{Transport: transport, CheckRedirect: noRedirect},
	}, nil
}

// newTransport makes one model's own pool of connections. It takes no proxy from the
// environment.
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

// Options returns the options with the defaults filled in.
func (c *Client) Options() Options { return c.o }

// Base returns the address of the provider.
func (c *Client) Base() *url.URL { return c.base }

// noRedirect does not follow redirects: a key is sent to the configured address only.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Origin names the model and its server. Opaque items of an answer go back only to
// the origin that wrote them.
func (c *Client) Origin() string { return c.provider.Name + ":" + c.o.Model + "@" + c.base.Host }

// Label names the model.
func (c *Client) Label() string { return c.o.Label }

// Close closes idle connections. Calls that run go on.
func (c *Client) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// Call is one call to the provider.
type Call struct {
	client *Client
	watch  *watch
	// Show hands deltas and signs of life to the caller. Its error must end the call.
	Show func(conversation.Output) error
	// TraceParent is that of the request; "" = Post sends none.
	TraceParent string

	chosen bool // the request says that its answer must be calls
	free   bool // it may not say so
	said   bool // some text was shown
}

// Exchange sends a request with Call.Post and reads its answer in a provider's format.
type Exchange func(ctx context.Context, c *Call) (*conversation.ModelAnswer, error)

// Ask asks once, but for what Call.MustCall says. An output without a delta is a sign of life: the provider
// works on something that is not shown. Errors are the context's, or a
// *conversation.ModelError.
func (c *Client) Ask(ctx context.Context, wire Exchange) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		answer, err := c.call(ctx, wire, func(out conversation.Output) error {
			if !yield(out, nil) {
				return gate.ErrStopped
			}
			return nil
		})
		switch {
		case errors.Is(err, gate.ErrStopped):
		case err != nil:
			yield(conversation.Output{}, c.failure(ctx, err))
		default:
			yield(conversation.Output{Done: answer}, nil)
		}
	}
}

// call makes one call, or a second one without a tool_choice that was refused.
func (c *Client) call(ctx context.Context, wire Exchange, show func(conversation.Output) error) (*conversation.ModelAnswer, error) {
	first := &Call{client: c}
	first.Show = func(out conversation.Output) error {
		first.said = first.said || out.Delta != ""
		return show(out)
	}
	answer, err := c.exchange(ctx, wire, first)
	if err == nil || !first.chosen || first.said {
		return answer, err
	}
	refused, named := c.choiceRefused(ctx, err)
	if !refused {
		return nil, err
	}
	answer, err = c.exchange(ctx, wire, &Call{client: c, Show: show, free: true})
	if err == nil && named {
		c.choice.refused.Store(true)
	}
	return answer, err
}

// exchange sends a request and reads its answer. When it returns the connection is given
// up, even if the provider has more to send.
func (c *Client) exchange(parent context.Context, wire Exchange, call *Call) (*conversation.ModelAnswer, error) {
	if err := parent.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	w := newWatch(c.o.IdleTimeout, c.o.MaxBytes, cancel)
	defer w.stop()
	call.watch = w
	answer, err := wire(ctx, call)
	if err == nil {
		return answer, nil
	}
	if cause := context.Cause(ctx); cause != nil && parent.Err() == nil && !errors.Is(err, gate.ErrStopped) {
		return nil, cause
	}
	return nil, err
}

// ReadAnswer reads an answer as a stream or as a whole body, by its content type: some
// gateways send a body though a stream was asked for, and the other way round.
func ReadAnswer(res *http.Response, streaming bool, stream func() error, whole func(body []byte) error) error {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if media == "text/html" {
		return errHTML // a proxy's page, not a model's words
	}
	if media == "text/event-stream" || streaming && media == "" {
		return stream()
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	return whole(raw)
}
