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
	if c.Endpoint == "" || isCollector(c.Endpoint) {
		return nil
	}
	return []option.FieldError{{Key: "tracing.endpoint", Sentence: mustBeCollector}}
}

const mustBeCollector = `must be the address of a collector such as "http://collector:4318"`

// isCollector is false also of an address that has a user or a query: they may be secrets,
// and the address is said in the log.
func isCollector(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

// URL is where spans are sent to; "" = tracing is off. The environment's standard
// variables hold where the configuration says nothing. An error names the variable
// that is no such address, and does not say its value.
func (c Config) URL(lookup func(string) (string, bool)) (string, error) {
	if off, _ := lookup("OTEL_SDK_DISABLED"); strings.EqualFold(off, "true") {
		return "", nil
	}
	if c.Endpoint != "" {
		if strings.HasSuffix(c.Endpoint, tracesPath) {
			return c.Endpoint, nil
		}
		return strings.TrimRight(c.Endpoint, "/") + tracesPath, nil
	}
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		address, _ := lookup(variable)
		switch {
		case address == "":
			continue
		case !isCollector(address):
			return "", option.FieldError{Key: variable, Sentence: mustBeCollector + ", without a user or a query"}
		case variable == "OTEL_EXPORTER_OTLP_ENDPOINT": // of all signals
			address = strings.TrimRight(address, "/") + tracesPath
		}
		return address, nil
	}
	return "", nil
}

const tracesPath = "/v1/traces"
