package openai

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"

	"parley/conversation"
	"parley/conversation/option"
	"parley/models/internal/httpmodel"
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

// Connection is the part of the options that all models behind HTTP share. It is
// one type for all adapters, so that one value serves whichever is chosen.
type Connection = httpmodel.Options

// MaxPicture is the size of the largest picture that OpenAI's own service takes.
const MaxPicture = 20 << 20

// Defaults of Connection: the time to dial and shake hands, each, and the bytes
// that are read of one answer.
const (
	DefaultConnectTimeout = httpmodel.DefaultConnectTimeout
	DefaultMaxBytes       = httpmodel.DefaultMaxBytes
)

// Options are the options of a model. MaxOutputTokens of 0 means the provider's own
// limit. A reasoning model behind the Responses API goes on from its reasoning
// after a call if Extra asks for it: {"include": ["reasoning.encrypted_content"]},
// which other models refuse. The base URL ends before /responses or /chat/completions, for example
// http://127.0.0.1:11434/v1 for Ollama.
//
// The tags describe a field to the configuration: option.FieldError lists them.
type Options struct {
	// API is the wire format; "" = Responses.
	API API `key:"api" choices:"responses,chat"`
	Connection
	// Alternate lets the roles of Chat Completions alternate strictly, as Mistral and
	// the chat templates of some local models want it: messages of one side in a row
	// are joined with a blank line, and behind a tool's result the assistant
	// says "OK." before the user speaks. Ids of calls are nine letters and digits.
	Alternate bool `key:"alternate" after:"temperature"`
}

// DefaultOptions returns the options of a configuration that says nothing. They
// have no model, which is required.
func DefaultOptions() Options {
	return Options{API: Responses, Connection: Connection{
		BaseURL: DefaultBaseURL, Stream: true, ConnectTimeout: DefaultConnectTimeout, MaxBytes: DefaultMaxBytes,
		Schema: SchemaFull, Without: []string{}, // a list as it is read back
	}}
}

// paths are where calls of each API go, below the base URL.
var paths = map[API]string{Responses: "responses", Chat: "chat/completions"}

// provider tells the shared part of the options from those of other providers.
func (o *Options) provider() httpmodel.Provider {
	p := httpmodel.Provider{
		Name: "openai", BaseURL: DefaultBaseURL, AskPath: paths[cmp.Or(o.API, Responses)], ListPath: "models", MaxTemperature: 2,
		ParseError: func(body []byte) httpmodel.ProviderError { return parseError(body) },
		Members:    []string{"instructions", "max_output_tokens", "store", "temperature", "tool_choice", "tools", "user"},
		Required:   []string{"input", "model", "stream"},
	}
	if o.API == Chat {
		p.Members = []string{"max_completion_tokens", "max_tokens", "stream_options", "temperature", "tool_choice", "tools", "user"}
		p.Required = []string{"messages", "model", "stream"}
		p.KeptPrefix = keptPrefix
	}
	return p
}

// The forms of tool schemas that Connection.Schema names.
const (
	SchemaFull  = httpmodel.SchemaFull
	SchemaPlain = httpmodel.SchemaPlain
)

// Validate returns what is wrong with the options. The sentences name no secret.
func (o Options) Validate() []option.FieldError {
	var wrong []option.FieldError
	if o.API != "" && o.API != Responses && o.API != Chat {
		wrong = append(wrong, option.FieldError{Sentence: fmt.Sprintf("the api is %q or %q, not %q", Responses, Chat, o.API)})
	}
	return append(wrong, o.Connection.Validate(o.provider())...)
}

// Model is a model behind one of OpenAI's wire formats. It holds no state of a
// conversation and may be used by any number of goroutines.
type Model struct {
	o Options
	*httpmodel.Client
}

var _ conversation.Model = (*Model)(nil)

// New checks the options. It does not connect. Errors name no secret.
func New(o Options) (*Model, error) {
	if o.API == "" {
		o.API = Responses
	}
	if err := option.JoinFieldErrors(o.Validate()); err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	client, err := httpmodel.New(o.Connection, o.provider())
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	o.Connection = client.Options()
	return &Model{Client: client, o: o}, nil
}

// Stream asks once.
func (m *Model) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return m.Ask(ctx, func(ctx context.Context, c *httpmodel.Call) (*conversation.ModelAnswer, error) {
		q := m.httpCall(&r, c)
		body, err := httpmodel.Encode(q.body, m.o.Extra, m.o.Without...)
		if err != nil {
			return nil, err
		}
		c.TraceParent = r.TraceParent
		res, err := c.Post(ctx, q.path, q.accept, body)
		if err != nil {
			return nil, err
		}
		defer func() { _ = res.Body.Close() }()
		show := c.Show
		if !q.streaming {
			show = nil
		}
		a := newAssembly(q.names, &r, show)
		a.Origin = m.Origin()
		if err := httpmodel.ReadAnswer(res, q.streaming, func() error { return m.readStream(res, a) }, a.readBody); err != nil {
			return nil, err
		}
		return a.answer()
	})
}

// readStream reads server-sent events until the terminal one. A stream that
// ends without it was cut, and is never an answer.
func (m *Model) readStream(res *http.Response, a *assembly) error {
	take := a.responsesFrame
	if m.o.API == Chat {
		take = a.chatFrame
	}
	var refused error
	err := httpmodel.ReadEvents(res.Body, func(name string, data []byte) (over bool, err error) {
		over, refused = take(name, data)
		return over, refused
	})
	if refused == nil && a.finished {
		return nil // the connection broke behind the end of the answer
	}
	return err
}
