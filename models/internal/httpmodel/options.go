package httpmodel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/conversation/option"
)

// Defaults of Options.
const (
	DefaultMaxBytes       = 64 << 20
	DefaultConnectTimeout = 10 * time.Second
)

// Options are the options of any model behind HTTP. Nothing is read from the
// environment or from files: the key is given here.
//
// The tags describe a field to the configuration: option.FieldError lists
// them. APIKey, Headers and Proxy have none: they may be secrets, and the
// configuration holds only where those are to be found.
type Options struct {
	// BaseURL is the provider's address, up to and without the path of the API;
	// "" = the provider's own service.
	BaseURL string `key:"base_url"`
	// Model is the provider's name of the model. Required.
	Model string `key:"model"`
	// APIKey is sent as "Authorization: Bearer …"; "" = not sent, as many local
	// servers want it. A gateway that wants another header gets that by Headers.
	APIKey string
	// Headers are sent along, for example x-openclaw-agent-id or anthropic-beta.
	// Their values are treated as secrets. An Authorization header takes the place
	// of APIKey.
	Headers map[string]string
	// Extra are fields of the request's body that these options do not know, by
	// name, for example {"reasoning": {"effort": "low"}}. They win over the rest.
	Extra map[string]any `key:"extra"`
	// Without are fields of the request's body that are not sent, for servers that
	// refuse what they do not know: "user", "stream_options". With Chat Completions
	// "messages.NAME" is a member of earlier answers that is not given back.
	Without []string `key:"without" after:"extra"`
	// Schema says how tools are described: SchemaFull, or SchemaPlain for servers that
	// refuse parts of JSON Schema (PlainSchema); "" = SchemaFull.
	Schema string `key:"schema" choices:"full,plain" after:"without"`
	// Stream asks for a stream when the caller wants deltas. False: the upstream
	// call is not a streaming one, and there are no deltas (M-01).
	Stream bool `key:"stream"`
	// MaxOutputTokens bounds an answer; 0 = the adapter's default.
	MaxOutputTokens int `key:"max_output_tokens" min:"0"`
	// Temperature, from 0 to the provider's highest; nil = the provider's default.
	Temperature *float64 `key:"temperature" min:"0" max:"2"`
	// IdleTimeout ends a call when not a byte comes from the provider for this
	// long; 0 = never (the engine has a watchdog of its own).
	IdleTimeout time.Duration `key:"idle_timeout" min:"0s"`
	// ConnectTimeout bounds dialling and the TLS handshake, each;
	// 0 = DefaultConnectTimeout.
	ConnectTimeout time.Duration `key:"connect_timeout" min:"1ms"`
	// MaxBytes bounds what is read of one answer, framing included (a stream has
	// many times the bytes of its text); 0 = DefaultMaxBytes.
	MaxBytes int64 `key:"max_bytes" unit:"bytes" min:"1"`
	// Proxy is the address of an HTTP proxy; "" = none.
	Proxy string
	// Label names the model in events, hello and metrics; "" = the provider and Model.
	Label string `key:"label"`
}

// setDefaults replaces zero values by the defaults.
func (o *Options) setDefaults(p Provider) {
	if o.BaseURL == "" {
		o.BaseURL = p.BaseURL
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = DefaultConnectTimeout
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Schema == "" {
		o.Schema = SchemaFull
	}
	if o.Label == "" {
		o.Label = p.Name + ":" + strings.Join(strings.Fields(o.Model), "_")
	}
}

// Validate returns what is wrong with the options, as they are with the defaults
// filled in. The sentences name no secret.
func (o Options) Validate(p Provider) []option.FieldError {
	o.setDefaults(p)
	_, _, wrong := o.check(p)
	return wrong
}

// check returns the addresses of the options, and all that is wrong with these.
func (o *Options) check(p Provider) (base, proxy *url.URL, wrong []option.FieldError) {
	refuse := func(format string, args ...any) {
		wrong = append(wrong, option.FieldError{Sentence: fmt.Sprintf(format, args...)})
	}
	var err error
	if strings.TrimSpace(o.Model) == "" {
		refuse("the name of the model is missing")
	}
	if base, err = url.Parse(o.BaseURL); err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		refuse("the base URL is not an http or https address")
	} else if base.RawQuery != "" || base.Fragment != "" || base.User != nil {
		refuse("the base URL must have no user, query or fragment; keys go into the key or the headers")
	} else if port := base.Port(); port != "" && !validPort(port) {
		wrong = append(wrong, option.FieldError{Key: "base_url", Sentence: "the port is from 1 to 65535, not " + port})
	} else if sentence := p.tooLong(base); sentence != "" {
		wrong = append(wrong, option.FieldError{Key: "base_url", Sentence: sentence})
	}
	if o.Proxy != "" {
		if proxy, err = url.Parse(o.Proxy); err != nil || proxy.Host == "" {
			refuse("the proxy is not an address")
		}
	}
	if !validHeaderValue(o.APIKey) || strings.TrimSpace(o.APIKey) != o.APIKey {
		refuse("the key has characters that no key has; is there a line break at its end?")
	}
	for name, value := range o.Headers {
		if name == "" || strings.ContainsFunc(name, notHeaderNameChar) || !validHeaderValue(value) {
			refuse("the header %q is not a valid one", name)
		}
	}
	if o.MaxOutputTokens < 0 {
		refuse("the most output tokens must not be negative, and are %d", o.MaxOutputTokens)
	}
	if o.Temperature != nil && (*o.Temperature < 0 || *o.Temperature > p.MaxTemperature) {
		refuse("the temperature is from 0 to %g, not %g", p.MaxTemperature, *o.Temperature)
	}
	if o.Schema != SchemaFull && o.Schema != SchemaPlain {
		refuse("the schema is %q or %q, not %q", SchemaFull, SchemaPlain, o.Schema)
	}
	for _, name := range o.Without {
		if sentence := p.mayLack(name, o.Extra); sentence != "" {
			wrong = append(wrong, option.FieldError{Key: "without", Sentence: fmt.Sprintf("%q %s", name, sentence)})
		}
	}
	if o.IdleTimeout < 0 || o.ConnectTimeout < 0 || o.MaxBytes < 0 {
		refuse("timeouts and limits must not be negative")
	}
	return base, proxy, wrong
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// tooLong says what to write instead of a base URL that has some of the path of the API at
// its end, "" if it has not: people copy addresses of whole calls.
func (p Provider) tooLong(base *url.URL) string {
	path := strings.TrimRight(base.Path, "/")
	endings := []string{"/chat/completions", "/responses", "/messages"}
	if strings.HasSuffix(path, "/v1/models") { // addresses that only end in /models are some gateways' own
		endings = []string{"/models"}
	}
	if strings.HasPrefix(p.AskPath, "v1/") {
		endings = []string{"/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1/models", "/messages", "/v1"}
	}
	for _, ending := range endings {
		if rest, is := strings.CutSuffix(path, ending); is {
			return fmt.Sprintf("the base URL ends before %s, which each call adds by itself: write %s://%s%s", ending, base.Scheme, base.Host, rest)
		}
	}
	return ""
}

// mayLack says why a member cannot be left out; "" = it can.
func (p *Provider) mayLack(name string, extra map[string]any) string {
	_, set := extra[name]
	_, kept := strings.CutPrefix(name, p.KeptPrefix)
	switch {
	case slices.Contains(p.Required, name):
		return "cannot be left out of a request"
	case set:
		return "stands in extra, which adds it"
	case p.KeptPrefix != "" && kept && name != p.KeptPrefix, slices.Contains(p.Members, name):
		return ""
	default:
		return "is in no request; what can be left out is: " + strings.Join(p.Members, ", ")
	}
}

// ToolSchema is a tool's schema as Schema says.
func (o *Options) ToolSchema(raw json.RawMessage) json.RawMessage {
	if o.Schema != SchemaPlain {
		return raw
	}
	plain, err := json.Marshal(PlainSchema(raw))
	if err != nil {
		return raw // not possible: it came from JSON
	}
	return plain
}

// header makes the header of every request: the provider's own lines, the key,
// and what the options say, which wins.
func (o *Options) header(p Provider) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}, "User-Agent": {"parley"}}
	for name, value := range p.Headers {
		h.Set(name, value)
	}
	if o.APIKey != "" {
		h.Set("Authorization", "Bearer "+o.APIKey)
	}
	for name, value := range o.Headers {
		h.Set(name, value)
	}
	return h
}

// validHeaderValue reports whether HTTP allows value in a header.
func validHeaderValue(value string) bool {
	return !strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

func notHeaderNameChar(c rune) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", c))
}

// secrets returns the texts that must not appear in any error.
func (o *Options) secrets() []string {
	secrets := []string{o.APIKey}
	for _, value := range o.Headers {
		secrets = append(secrets, value, strings.TrimPrefix(value, "Bearer "))
	}
	if o.Proxy != "" {
		if proxy, err := url.Parse(o.Proxy); err == nil {
			password, _ := proxy.User.Password()
			secrets = append(secrets, password)
		}
	}
	return secrets
}
