// Package anthropic asks models over Anthropic's Messages API: Anthropic itself,
// or a gateway that speaks it.
//
// Requests are built and sent with the official SDK. Streams are read here,
// because the SDK takes one that was cut for a whole one.
package anthropic

import (
	"context"
	"fmt"
	"iter"
	"net/http"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/ssestream"

	"parley/conversation"
	"parley/models/upstream"
)

// DefaultBaseURL is the address of Anthropic's own service.
const DefaultBaseURL = "https://api.anthropic.com"

// DefaultMaxOutputTokens bounds an answer, which the API wants to be told.
const DefaultMaxOutputTokens = 8192

// Options is what a model is made of. The base URL ends before /v1/messages.
// Thinking is switched on in Extra; its blocks are given back within a task.
type Options struct{ upstream.Options }

// Model is a model behind the Messages API. It holds no state of a conversation
// and may be used by any number of goroutines.
type Model struct {
	o Options
	*upstream.Client
	sdk sdk.Client
}

var _ conversation.Model = (*Model)(nil)

// New checks the options. It does not connect. Errors name no secret.
func New(o Options) (*Model, error) {
	if o.MaxOutputTokens == 0 {
		o.MaxOutputTokens = DefaultMaxOutputTokens
	}
	client, err := upstream.New(o.Options, upstream.Provider{
		Name: "anthropic", BaseURL: DefaultBaseURL, MaxTemperature: 1,
		ErrorIn: func(body []byte) upstream.Told { return errorIn(body) },
	})
	if err != nil {
		return nil, fmt.Errorf("anthropic: %w", err)
	}
	o.Options = client.Options()
	options := []option.RequestOption{
		option.WithoutEnvironmentDefaults(),
		option.WithoutOpenTelemetry(),
		option.WithBaseURL(client.Base().String()),
		option.WithHTTPClient(client.HTTP()),
		option.WithMaxRetries(0), // repeating a step is the engine's: it is durable there
	}
	if o.APIKey != "" {
		options = append(options, option.WithAPIKey(o.APIKey))
	}
	for name, value := range o.Headers {
		options = append(options, option.WithHeader(name, value))
	}
	return &Model{Client: client, o: o, sdk: sdk.NewClient(options...)}, nil
}

// Stream asks once.
func (m *Model) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return m.Ask(ctx, func(ctx context.Context, c *upstream.Call) (*conversation.ModelAnswer, error) {
		streaming := m.o.Stream && r.Stream
		names := upstream.NewNames(&r)
		options := []option.RequestOption{option.WithJSONSet("stream", streaming), option.WithMiddleware(c.Middleware)}
		for key, value := range m.o.Extra {
			options = append(options, option.WithJSONSet(key, value))
		}
		params := m.params(&r, names)
		if m.mustThink() && !mayThink(params.Messages) {
			options = append(options, option.WithJSONSet("thinking", noThinking))
		}
		var res *http.Response
		if err := m.sdk.Post(ctx, "v1/messages", params, &res, options...); err != nil {
			return nil, err
		}
		defer func() { _ = res.Body.Close() }()
		show := c.Show
		if !streaming {
			show = nil
		}
		a := newAssembly(names, &r, show)
		a.Origin = m.Origin()
		if err := upstream.Read(res, streaming, func() error { return readStream(res, a) }, a.whole); err != nil {
			return nil, err
		}
		return a.answer()
	})
}

// readStream reads server-sent events until message_stop. A stream that ends
// without it was cut, and is never an answer.
func readStream(res *http.Response, a *assembly) error {
	frames := ssestream.NewDecoder(res)
	for frames.Next() {
		event := frames.Event()
		over, err := a.frame(event.Type, event.Data)
		if err != nil || over {
			return err
		}
	}
	if err := frames.Err(); err != nil {
		return err
	}
	return upstream.ErrCut
}
