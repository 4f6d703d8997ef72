package tracingtest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	wire "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is one that has arrived.
type Span struct {
	Name, Trace, ID, Parent string // ids in hex; Parent "" = a root
	Start, End              time.Time
	Attrs                   map[string]string // lists joined by commas
	Links                   []string          // "trace/span", in hex
	Error                   string            // the message of the status, if that is an error
	Failed                  bool
}

// Receiver keeps what comes. The zero value takes everything.
type Receiver struct {
	// Refuse is asked with each request for the status to answer; nil or 0 = it is taken.
	Refuse func() int

	mu       sync.Mutex
	spans    []Span
	bytes    bytes.Buffer
	headers  []http.Header
	requests int
}

// ServeHTTP takes one request.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	if r.Refuse != nil {
		if status := r.Refuse(); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	if err := r.take(req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, _ := proto.Marshal(&collector.ExportTraceServiceResponse{}) // an empty message
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(answer)
}

func (r *Receiver) take(req *http.Request) error {
	if req.Method != http.MethodPost || req.URL.Path != "/v1/traces" || req.Header.Get("Content-Type") != "application/x-protobuf" || req.Header.Get("Content-Encoding") != "gzip" {
		return fmt.Errorf("%s %s, %s, %s", req.Method, req.URL.Path, req.Header.Get("Content-Type"), req.Header.Get("Content-Encoding"))
	}
	zip, err := gzip.NewReader(req.Body)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(zip)
	if err != nil {
		return err
	}
	var export collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(data, &export); err != nil {
		return err
	}
	r.bytes.Write(data)
	r.headers = append(r.headers, req.Header.Clone())
	for _, resource := range export.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				r.spans = append(r.spans, spanOf(s))
			}
		}
	}
	return nil
}

func spanOf(s *wire.Span) Span {
	out := Span{
		Name: s.Name, Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
		Start: time.Unix(0, int64(s.StartTimeUnixNano)), End: time.Unix(0, int64(s.EndTimeUnixNano)), Attrs: map[string]string{},
		Error: s.Status.GetMessage(), Failed: s.Status.GetCode() == wire.Status_STATUS_CODE_ERROR,
	}
	for _, a := range s.Attributes {
		out.Attrs[a.Key] = text(a.Value)
	}
	for _, l := range s.Links {
		out.Links = append(out.Links, hex.EncodeToString(l.TraceId)+"/"+hex.EncodeToString(l.SpanId))
	}
	return out
}

func text(v *common.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *common.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *common.AnyValue_ArrayValue:
		var list []string
		for _, item := range v.ArrayValue.Values {
			list = append(list, text(item))
		}
		return strings.Join(list, ",")
	}
	return fmt.Sprint(v)
}

// Spans are those that have come, by their start, their end, and their name.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.Clone(r.spans)
	slices.SortStableFunc(list, func(a, b Span) int {
		if c := a.Start.Compare(b.Start); c != 0 {
			return c
		}
		if c := a.End.Compare(b.End); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list
}

// Holds is true if a text is anywhere in what has come.
func (r *Receiver) Holds(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Contains(r.bytes.Bytes(), []byte(text))
}

// Requests is how many have come, also those that were refused.
func (r *Receiver) Requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// Header is a header of the last request that was taken.
func (r *Receiver) Header(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.headers) == 0 {
		return ""
	}
	return r.headers[len(r.headers)-1].Get(name)
}

// Tree is what the spans of each trace are, below each other, one a line, without those
// that are named; * marks one that has failed, + one whose start was not seen.
func (r *Receiver) Tree(without ...string) string {
	spans := r.Spans()
	known := map[string]bool{}
	for _, s := range spans {
		known[s.Trace+s.ID] = true
	}
	var b strings.Builder
	var write func(s Span, depth int)
	write = func(s Span, depth int) {
		if slices.Contains(without, s.Name) {
			return
		}
		mark := ""
		if s.Failed {
			mark += "*"
		}
		if s.Attrs["parley.resumed"] == "true" {
			mark += "+"
		}
		fmt.Fprintf(&b, "%s%s%s\n", strings.Repeat("  ", depth), s.Name, mark)
		for _, child := range spans {
			if child.Parent == s.ID && child.Trace == s.Trace {
				write(child, depth+1)
			}
		}
	}
	for _, s := range spans {
		if s.Parent == "" || !known[s.Trace+s.Parent] {
			write(s, 0)
		}
	}
	return b.String()
}

// Pipe serves the receiver in memory until the test ends, and is the client that
// reaches it at any address.
func (r *Receiver) Pipe(t *testing.T) *http.Client {
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: r}
	go func() { _ = server.Serve(l) }() // ends with the test
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		select {
		case l.conns <- theirs:
			return ours, nil
		case <-l.closed:
			return nil, net.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
	})
	return &http.Client{Transport: transport}
}

// pipes is a listener in memory.
type pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }
