package tracing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"parley/conversation"
	"parley/metrics"
)

// The bounds of what waits for the collector.
const (
	maxQueued  = 8192             // spans; more are dropped
	batchSize  = 512              // spans in one request
	batchEvery = 2 * time.Second  // a smaller batch is sent after this
	sendLimit  = 10 * time.Second // one request, with its repetitions
	complain   = time.Minute      // between two lines of the log about the collector
	maxOrigins = 10_000           // delegations of root sessions whose task is remembered
)

// Setup is what a Tracer works with.
type Setup struct {
	URL     string            // of the collector; see Config.URL
	Headers map[string]string // of each request; secrets are read already
	Sample  float64           // the share of tasks, from 0 to 1
	Content bool
	Version string // of the program
	Node    string
	Metrics *metrics.Traces // required
	Log     *slog.Logger    // nil = no log
	Client  *http.Client    // nil = the library's own
}

// Tracer sends spans. Its methods may be called from any goroutine, also on nil:
// that is tracing which is off.
type Tracer struct {
	share    float64
	content  bool
	provider *sdktrace.TracerProvider
	spans    trace.Tracer
	metrics  *metrics.Traces
	log      *slog.Logger
	queued   atomic.Int64 // spans that the batch processor has
	sending  context.Context
	giveUp   context.CancelFunc // of sending: the time of the end is over

	mu      sync.Mutex
	origins map[origin]conversation.TaskID

	quiet struct {
		sync.Mutex
		until time.Time
		lost  int // spans, since the last line
	}
}

// origin is a delegation of a root session.
type origin struct {
	root conversation.SessionKey
	call conversation.CallID
}

// Open begins to send spans to a collector. It does not connect: a collector that is
// not there is complained of when the first spans are to be sent.
func Open(ctx context.Context, o Setup) (*Tracer, error) {
	t := &Tracer{share: o.Sample, content: o.Content, metrics: o.Metrics, log: o.Log, origins: map[origin]conversation.TaskID{}}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	t.sending, t.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	settings := []otlptracehttp.Option{
		otlptracehttp.WithEndpointURL(o.URL), otlptracehttp.WithCompression(otlptracehttp.GzipCompression), otlptracehttp.WithTimeout(sendLimit),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: sendLimit}),
	}
	if len(o.Headers) > 0 {
		settings = append(settings, otlptracehttp.WithHeaders(o.Headers))
	}
	if o.Client != nil {
		settings = append(settings, otlptracehttp.WithHTTPClient(o.Client))
	}
	exporter, err := otlptracehttp.New(ctx, settings...)
	if err != nil {
		return nil, fmt.Errorf("the exporter of traces: %w", err)
	}
	// What the environment says goes over what we say; a part that cannot be read leaves the rest.
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", serviceName), attribute.String("service.version", o.Version), attribute.String("service.instance.id", o.Node),
	), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return nil, fmt.Errorf("the resource of traces: %w", err)
	}
	// What the library has to say of a collector comes into our log, and not more often.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { t.complain(err, 0) }))
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithResource(about), sdktrace.WithIDGenerator(chosen{}), sdktrace.WithSampler(sdktrace.AlwaysSample()), // the choice is made before: see sampled
		sdktrace.WithBatcher(&counted{SpanExporter: exporter, t: t},
			sdktrace.WithMaxQueueSize(maxQueued+batchSize), sdktrace.WithMaxExportBatchSize(batchSize), sdktrace.WithBatchTimeout(batchEvery), sdktrace.WithExportTimeout(sendLimit)),
	)
	t.spans = t.provider.Tracer(scope)
	return t, nil
}

// Close sends what waits, for as long as ctx allows, and ends the tracer.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	defer t.giveUp() // else the library would go on behind our back
	return t.provider.Shutdown(ctx)
}

// counted counts what becomes of the spans that an exporter is given.
type counted struct {
	sdktrace.SpanExporter
	t *Tracer
}

// ExportSpans hands spans to the collector. It returns no error: the library would
// only print it.
func (c *counted) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.t.sending, cancel)()
	err := c.t.sending.Err()
	if err == nil {
		err = c.SpanExporter.ExportSpans(ctx, spans)
	}
	n := len(spans)
	c.t.queued.Add(-int64(n))
	if err != nil {
		c.t.metrics.Spans.WithLabelValues("dropped").Add(float64(n))
		if c.t.sending.Err() == nil {
			c.t.complain(err, n)
		}
		return nil
	}
	c.t.metrics.Spans.WithLabelValues("exported").Add(float64(n))
	return nil
}

// complain says in the log that spans do not reach the collector, once a minute.
func (t *Tracer) complain(err error, lost int) {
	now := time.Now()
	t.quiet.Lock()
	t.quiet.lost += lost
	n, quiet := t.quiet.lost, now.Before(t.quiet.until)
	if !quiet {
		t.quiet.lost, t.quiet.until = 0, now.Add(complain)
	}
	t.quiet.Unlock()
	if !quiet {
		t.log.Warn("the collector of traces does not take spans; sessions go on without", "spans", n, "error", err)
	}
}

// A span is one thing that has ended.
type span struct {
	name       string
	trace      trace.TraceID
	id, parent trace.SpanID // parent zero = it is the root of its trace
	start, end time.Time
	attrs      []attribute.KeyValue
	links      []trace.Link
	failed     string            // not "": the kind of the failure
	kind       trace.SpanKind    // 0 = internal
	caller     trace.SpanContext // of a message: the client's span is the parent
}

// valid makes the span's strings UTF-8: some are a model's or a provider's, and for one
// that is not, the library would send nothing of the whole batch. Lists have only our own words.
func (s *span) valid() {
	s.name, s.failed = strings.ToValidUTF8(s.name, "\uFFFD"), strings.ToValidUTF8(s.failed, "\uFFFD")
	for i, a := range s.attrs {
		if a.Value.Type() == attribute.STRING && !utf8.ValidString(a.Value.AsString()) {
			s.attrs[i] = a.Key.String(strings.ToValidUTF8(a.Value.AsString(), "\uFFFD"))
		}
	}
}

// emit queues a span, or drops it. It never waits.
func (t *Tracer) emit(s *span) {
	if t.queued.Add(1) > maxQueued {
		t.queued.Add(-1)
		t.metrics.Spans.WithLabelValues("dropped").Inc()
		return
	}
	ctx := context.WithValue(context.Background(), chosenKey{}, ids{s.trace, s.id})
	if s.caller.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, s.caller)
	} else if s.parent.IsValid() {
		ctx = trace.ContextWithSpanContext(ctx, reference(s.trace, s.parent))
	}
	s.valid()
	if s.end.Before(s.start) {
		s.start = s.end
	}
	_, out := t.spans.Start(ctx, s.name, trace.WithTimestamp(s.start), trace.WithAttributes(s.attrs...), trace.WithLinks(s.links...), trace.WithSpanKind(cmp.Or(s.kind, trace.SpanKindInternal)))
	if s.failed != "" {
		out.SetAttributes(attrError.String(s.failed))
		out.SetStatus(codes.Error, s.failed)
	}
	out.End(trace.WithTimestamp(s.end))
}

func reference(t trace.TraceID, s trace.SpanID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: t, SpanID: s, TraceFlags: trace.FlagsSampled})
}

// iterRecords is a log as the store reads it.
type iterRecords = iter.Seq2[conversation.Record, error]

// Find looks up, for a sub-session that is about to be loaded, which task of its root
// session it works for, if that is not known yet. It reads the root's log, and is
// called by what loads the session, not by its actor. What cannot be read stays
// unknown: then nothing of the sub-session is traced until it is loaded again.
func (t *Tracer) Find(key conversation.SessionKey, records func(conversation.SessionKey, conversation.Range) iterRecords) {
	if t == nil || key.Session.Depth() == 0 {
		return
	}
	root, call := first(key)
	if t.origin(root, call) != "" {
		return
	}
	for record, err := range records(root, conversation.Range{Reverse: true}) {
		if err != nil {
			return
		}
		for i := range record.Events {
			if b, is := record.Events[i].Body.(conversation.DelegationStarted); is && b.Delegation == call {
				t.remember(root, call, record.Events[i].Task)
				return
			}
		}
	}
}

func (t *Tracer) origin(root conversation.SessionKey, call conversation.CallID) conversation.TaskID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.origins[origin{root, call}]
}

// remember notes for which task a root session delegates. When too much is remembered
// the rest is found in the log.
func (t *Tracer) remember(root conversation.SessionKey, call conversation.CallID, task conversation.TaskID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.origins) >= maxOrigins {
		clear(t.origins)
	}
	t.origins[origin{root, call}] = task
}

func (t *Tracer) forget(root conversation.SessionKey, call conversation.CallID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.origins, origin{root, call})
}
