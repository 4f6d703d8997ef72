package anthropic

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"parley/conversation"
	"parley/conversation/option"
	"parley/models/internal/httpmodel"
)

// DefaultBaseURL is the address of Anthropic's own service.
const DefaultBaseURL = "https://api.anthropic.com"

// Version is the version of the API that requests are written for. A header
// "anthropic-version" of the options takes its place.
const Version = "2026-10-21"

// askPath is where calls go, below the base URL.
const askPath = "v1/messages"

// DefaultMaxOutputTokens bounds an answer, in tokens. The API requires such a bound.
const DefaultMaxOutputTokens = 8192

// MaxPicture is the size of the largest picture that the API takes: 5 MiB as base64.
const MaxPicture = 5 << 20 / 4 * 3

// DefaultCacheTTL is how long the API keeps what a mark asks it to keep.
const DefaultCacheTTL = "5m"

// Connection is the part of the options that all models behind HTTP share. It is
// one type for all adapters, so that one value serves whichever is chosen.
type Connection = httpmodel.Options

// Defaults of Connection: the time to dial and shake hands, each, and the bytes
// that are read of one answer.
const (
	DefaultConnectTimeout = httpmodel.DefaultConnectTimeout
	DefaultMaxBytes       = httpmodel.DefaultMaxBytes
)

// Options are the options of a model. The base URL ends before /v1/messages.
// Thinking is switched on in Extra; its blocks are given back within a task.
type Options struct {
	Connection
	// Cache marks each request so that the provider keeps what the next step shows
	// again. There are gateways that refuse the marks. A cache_control of Extra has the
	// API place them itself, and takes their place.
	Cache bool `key:"cache" after:"temperature"`
	// CacheTTL is how long it is kept after it was last read; "" = 5m. Kept for 1h it
	// costs twice the price of input instead of a quarter more.
	CacheTTL string `key:"cache_ttl" choices:"5m,1h" after:"cache"`
}

func (o *Options) mark() *cacheMark {
	c := &cacheMark{Type: "ephemeral"}
	if o.CacheTTL != "" && o.CacheTTL != DefaultCacheTTL {
		c.TTL = o.CacheTTL
	}
	return c
}

// DefaultOptions returns the options of a configuration that says nothing. They
// have no model, which is required.
func DefaultOptions() Options {
	return Options{Cache: true, CacheTTL: DefaultCacheTTL, Connection: Connection{
		BaseURL: DefaultBaseURL, Stream: true, MaxOutputTokens: DefaultMaxOutputTokens,
		ConnectTimeout: DefaultConnectTimeout, MaxBytes: DefaultMaxBytes,
		Schema: httpmodel.SchemaFull, Without: []string{}, // a list as it is read back
	}}
}

// provider tells the shared part of the options from those of other providers.
func provider() httpmodel.Provider {
	return httpmodel.Provider{
		Name: "anthropic", BaseURL: DefaultBaseURL, AskPath: askPath, ListPath: "v1/models?limit=1000", MaxTemperature: 1,
		ParseError: func(body []byte) httpmodel.ProviderError { return parseError(body) },
		Headers:    map[string]string{"anthropic-version": Version},
		Members:    []string{"metadata", "system", "temperature", "tool_choice", "tools"},
		Required:   []string{"max_tokens", "messages", "model", "stream"},
	}
}

// Validate returns what is wrong with the options. The sentences name no secret.
func (o Options) Validate() []option.FieldError {
	var wrong []option.FieldError
	if o.CacheTTL != "" && o.CacheTTL != DefaultCacheTTL && o.CacheTTL != "1h" {
		wrong = append(wrong, option.FieldError{Key: "cache_ttl", Sentence: fmt.Sprintf("cache_ttl is 5m or 1h, not %q", o.CacheTTL)})
	}
	if o.Temperature != nil && (o.BaseURL == "" || o.BaseURL == DefaultBaseURL) && !o.versioned() {
		wrong = append(wrong, option.FieldError{Key: "temperature", Sentence: "the API refuses a temperature since its version " + Version + ": leave it out"})
	}
	return append(wrong, o.Connection.Validate(provider())...)
}

// versioned reports whether the options ask for a version of the API themselves.
func (o Options) versioned() bool {
	for name := range o.Headers {
		if strings.EqualFold(name, "anthropic-version") {
			return true
		}
	}
	return false
}

// Model is a model behind the Messages API. It holds no state of a conversation
// and may be used by any number of goroutines.
type Model struct {
	o Options
	*httpmodel.Client
}

var _ conversation.Model = (*Model)(nil)

// New checks the options. It does not connect. Errors name no secret.
func New(o Options) (*Model, error) {
	if o.MaxOutputTokens == 0 {
		o.MaxOutputTokens = DefaultMaxOutputTokens
	}
	client, err := httpmodel.New(o.Connection, provider())
	if err != nil {
		return nil, fmt.Errorf("anthropic: %w", err)
	}
	o.Connection = client.Options()
	return &Model{Client: client, o: o}, nil
}

// Stream asks once.
func (m *Model) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return m.Ask(ctx, func(ctx context.Context, c *httpmodel.Call) (*conversation.ModelAnswer, error) {
		streaming := m.o.Stream && r.Stream
		names := httpmodel.NewNames(&r)
		body, prefix, err := m.body(&r, names, streaming, c)
		if err != nil {
			return nil, err
		}
		c.TraceParent = r.TraceParent
		res, err := c.Post(ctx, askPath, "", body)
		if err != nil {
			return nil, err
		}
		defer func() { _ = res.Body.Close() }()
		show := c.Show
		if !streaming {
			show = nil
		}
		a := newAssembly(names, &r, show)
		a.Origin, a.prefix = m.Origin(), prefix
		if err := httpmodel.ReadAnswer(res, streaming, func() error { return httpmodel.ReadEvents(res.Body, a.frame) }, a.readBody); err != nil {
			return nil, err
		}
		return a.answer()
	})
}
