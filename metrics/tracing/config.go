package tracing

import (
	"net/url"
	"strings"

	"parley/conversation/option"
)

// Config is what an operator may say of traces.
type Config struct {
	// Endpoint is the collector's address for OTLP over HTTP, such as
	// "http://collector:4318"; "" = as OTEL_EXPORTER_OTLP_ENDPOINT says, else off.
	Endpoint string `key:"tracing.endpoint"`
	// Sample is the share of tasks that are traced, from 0 to 1.
	Sample *float64 `key:"tracing.sample" min:"0" max:"1"`
	// Headers go with each request to the collector; their values may be secrets.
	Headers map[string]string `key:"tracing.headers"`
	// Content lets excerpts of messages, arguments and results into spans.
	Content bool `key:"tracing.content"`
}

// DefaultConfig is tracing that is off.
func DefaultConfig() Config {
	all := 1.0
	return Config{Sample: &all, Headers: map[string]string{}}
}

// Validate reports an endpoint that is none.
func (c Config) Validate() []option.FieldError {
	if c.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return []option.FieldError{{Key: "tracing.endpoint", Sentence: `must be the address of a collector such as "http://collector:4318"`}}
	}
	return nil
}

// URL is where spans are sent to; "" = tracing is off. The environment's standard
// variables hold where the configuration says nothing.
func (c Config) URL(lookup func(string) (string, bool)) string {
	if off, _ := lookup("OTEL_SDK_DISABLED"); strings.EqualFold(off, "true") {
		return ""
	}
	if c.Endpoint != "" {
		if strings.HasSuffix(c.Endpoint, tracesPath) {
			return c.Endpoint
		}
		return strings.TrimRight(c.Endpoint, "/") + tracesPath
	}
	if whole, _ := lookup("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); whole != "" {
		return whole
	}
	if base, _ := lookup("OTEL_EXPORTER_OTLP_ENDPOINT"); base != "" {
		return strings.TrimRight(base, "/") + tracesPath
	}
	return ""
}

const tracesPath = "/v1/traces"
