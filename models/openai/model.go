// Package openai asks models that speak OpenAI's wire formats: the Responses
// API, and Chat Completions. By its base URL that is OpenAI itself, Ollama,
// vLLM, llama.cpp, OpenRouter, or any gateway that speaks Open Responses.
//
// Requests are built and sent with the official SDK. Answers are read here, and
// leniently, because few of those servers conform: the SDK takes a stream that
// was cut for a whole one, a frame with "error": null for a failure, and an
// answer in output_text for an empty one.
package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"parley/conversation"
)

// API is a wire format.
type API string

// The wire formats.
const (
	Responses API = "responses" // POST {base}/responses
	Chat      API = "chat"      // POST {base}/chat/completions
)

// DefaultBaseURL is the address of OpenAI's own service.
const DefaultBaseURL = "https://api.openai.com/v1"

// Defaults of Options.
const (
	DefaultMaxBytes       = 64 << 20
	DefaultConnectTimeout = 10 * time.Second
)

// Options is what a model is made of. Nothing is read from the environment or
// from files: whoever makes a model brings the key along.
type Options struct {
	// API is the wire format; "" = Responses.
	API API
	// BaseURL is the address up to and without /responses or /chat/completions,
	// for example http://127.0.0.1:11434/v1 for Ollama; "" = DefaultBaseURL.
	BaseURL string
	// Model is the provider's name of the model. Needed.
	Model string
	// APIKey is sent as "Authorization: Bearer …"; "" = not sent, as local servers like it.
	APIKey string
	// Headers are sent along, for example x-openclaw-agent-id. Their values are
	// treated as secrets. An Authorization header takes the place of APIKey.
	Headers map[string]string
	// Stream asks for a stream when the caller wants deltas. False: the upstream
	// call is not a streaming one, and there are no deltas (M-01).
	Stream bool
	// MaxOutputTokens bounds an answer; 0 = the provider's own limit.
	MaxOutputTokens int
	// Temperature, from 0 to 2; nil = the provider's default.
	Temperature *float64
	// Alternate joins consecutive user messages of Chat Completions into one with
	// a blank line between: the templates of some local models refuse two in a row.
	Alternate bool
	// Extra are fields of the request's body that these options do not know, by
	// name, for example {"reasoning": {"effort": "low"}}. They win over the rest.
	Extra map[string]any
	// IdleTimeout ends a call when not a byte comes from the provider for this
	// long; 0 = never (the engine has a watchdog of its own).
	IdleTimeout time.Duration
	// ConnectTimeout bounds dialling and the TLS handshake, each;
	// 0 = DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// MaxBytes bounds what is read of one answer, framing included (a stream has
	// many times the bytes of its text); 0 = DefaultMaxBytes.
	MaxBytes int64
	// Proxy is the address of an HTTP proxy; "" = none.
	Proxy string
	// Label names the model in events, hello and metrics; "" = "openai:" and Model.
	Label string
}

// Model is a model behind one of OpenAI's wire formats. It holds no state of a
// conversation and may be used by any number of goroutines.
type Model struct {
	o         Options
	base      *url.URL
	client    sdk.Client
	transport *http.Transport
	secrets   []string
}

var _ conversation.Model = (*Model)(nil)

// New checks the options. It does not connect. Errors name no secret.
func New(o Options) (*Model, error) {
	if o.API == "" {
		o.API = Responses
	}
	if o.BaseURL == "" {
		o.BaseURL = DefaultBaseURL
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = DefaultConnectTimeout
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Label == "" {
		o.Label = "openai:" + strings.Join(strings.Fields(o.Model), "_")
	}
	base, proxy, err := o.validate()
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	m := &Model{o: o, base: base, transport: newTransport(o.ConnectTimeout, proxy), secrets: secretsOf(o)}
	// A Client made by hand reads nothing from the environment; NewClient would.
	m.client = sdk.Client{Options: []option.RequestOption{
		option.WithBaseURL(base.String()),
		option.WithHTTPClient(&http.Client{Transport: m.transport, CheckRedirect: stay}),
		option.WithMaxRetries(0), // repeating a step is the engine's: it is durable there
	}}
	if base.Scheme == "http" {
		m.client.Options = append(m.client.Options, option.WithUnsafeAllowHTTP())
	}
	if o.APIKey != "" {
		m.client.Options = append(m.client.Options, option.WithAPIKey(o.APIKey))
	}
	for name, value := range o.Headers {
		m.client.Options = append(m.client.Options, option.WithHeader(name, value))
	}
	return m, nil
}

// validate says everything that is wrong at once.
func (o *Options) validate() (base, proxy *url.URL, err error) {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.API != Responses && o.API != Chat {
		refuse("the api is %q or %q, not %q", Responses, Chat, o.API)
	}
	if strings.TrimSpace(o.Model) == "" {
		refuse("the name of the model is missing")
	}
	if base, err = url.Parse(o.BaseURL); err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		refuse("the base URL is not an http or https address")
	} else if base.RawQuery != "" || base.Fragment != "" || base.User != nil {
		refuse("the base URL must have no user, query or fragment; keys go into the key or the headers")
	}
	if o.Proxy != "" {
		if proxy, err = url.Parse(o.Proxy); err != nil || proxy.Host == "" {
			refuse("the proxy is not an address")
		}
	}
	if !sendable(o.APIKey) || strings.TrimSpace(o.APIKey) != o.APIKey {
		refuse("the key has characters that no key has; is there a line break at its end?")
	}
	for name, value := range o.Headers {
		if name == "" || strings.ContainsFunc(name, notToken) || !sendable(value) {
			refuse("the header %q is not a valid one", name)
		}
	}
	if o.MaxOutputTokens < 0 {
		refuse("the most output tokens must not be negative, and are %d", o.MaxOutputTokens)
	}
	if o.Temperature != nil && (*o.Temperature < 0 || *o.Temperature > 2) {
		refuse("the temperature is from 0 to 2, not %g", *o.Temperature)
	}
	if o.IdleTimeout < 0 || o.ConnectTimeout < 0 || o.MaxBytes < 0 {
		refuse("timeouts and limits must not be negative")
	}
	return base, proxy, errors.Join(errs...)
}

// sendable is true for what may stand behind a header's name.
func sendable(value string) bool {
	return !strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

func notToken(c rune) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", c))
}

// Label names the model.
func (m *Model) Label() string { return m.o.Label }

// Close lets go of idle connections. Calls that run go on.
func (m *Model) Close() error {
	m.transport.CloseIdleConnections()
	return nil
}

// errStopped: the caller has stopped reading.
var errStopped = errors.New("the caller has stopped reading")

// Stream asks once. An output without a delta is a sign of life: the provider
// works on something that is not shown. Errors are the context's, or a
// *conversation.ModelError.
func (m *Model) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		answer, err := m.ask(ctx, &r, func(out conversation.Output) error {
			if !yield(out, nil) {
				return errStopped
			}
			return nil
		})
		switch {
		case errors.Is(err, errStopped):
		case err != nil:
			yield(conversation.Output{}, m.failure(ctx, err))
		default:
			yield(conversation.Output{Done: answer}, nil)
		}
	}
}

// ask makes one call. The connection is given up when it returns, whatever the
// provider would still send.
func (m *Model) ask(parent context.Context, r *conversation.Request, show func(conversation.Output) error) (*conversation.ModelAnswer, error) {
	if err := parent.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	w := m.watch(cancel)
	defer w.stop()

	q := m.question(r)
	var res *http.Response
	err := m.client.Post(ctx, q.path, q.body, &res, append(q.options, option.WithMiddleware(w.middleware))...)
	if err == nil {
		defer res.Body.Close()
		if !q.streaming {
			show = nil
		}
		a := newAssembly(q.names, r, show)
		err = m.read(res, q, a)
		if err == nil {
			return a.answer()
		}
	}
	if cause := context.Cause(ctx); cause != nil && parent.Err() == nil && !errors.Is(err, errStopped) {
		return nil, cause
	}
	return nil, err
}

// read takes the answer in whatever form it came: some gateways send a whole
// body though a stream was asked for, and the other way round.
func (m *Model) read(res *http.Response, q *question, a *assembly) error {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch media {
	case "text/html":
		return errHTML // a proxy's page, not a model's words
	case "text/event-stream":
		return m.readStream(res, a)
	}
	if q.streaming && media == "" {
		return m.readStream(res, a)
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	return a.whole(raw)
}

// readStream reads server-sent events until the terminal one. A stream that
// ends without it was cut, and is never an answer.
func (m *Model) readStream(res *http.Response, a *assembly) error {
	frames := ssestream.NewDecoder(res)
	take := a.responsesFrame
	if m.o.API == Chat {
		take = a.chatFrame
	}
	for frames.Next() {
		event := frames.Event()
		over, err := take(event.Type, event.Data)
		if err != nil || over {
			return err
		}
	}
	if a.finished {
		return nil // the connection broke behind the end of the answer
	}
	if err := frames.Err(); err != nil {
		return err
	}
	return errCut
}
