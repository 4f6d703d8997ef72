package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"parley/cmd/parley/internal/config"
	"parley/conversation"
	"parley/metrics"
	"parley/metrics/tracing"
)

// flushTime is how long the end waits for the collector of traces.
const flushTime = 3 * time.Second

// openTracing begins to send traces, if a collector is configured; nil = none is. What
// has not been sent when the process ends is sent by the closer, behind the drain.
func (m *Main) openTracing(ctx context.Context, look config.Lookup, node conversation.NodeID, metrics *metrics.Traces, log *slog.Logger) (*tracing.Tracer, error) {
	c := &m.Config.Tracing
	url, err := c.URL(look)
	if err != nil {
		return nil, config.NewError("the environment", err)
	}
	if url == "" {
		return nil, nil
	}
	headers := map[string]string{}
	for name, value := range c.Headers {
		filled, err := config.Fill(value, look)
		if err != nil {
			return nil, config.NewError("tracing.headers", fmt.Errorf("%s: %w", name, err))
		}
		headers[name] = filled
	}
	tracer, err := tracing.Open(ctx, tracing.Setup{
		URL: url, Headers: headers, Sample: *c.Sample, Content: c.Content, Version: version(), Node: string(node), Metrics: metrics, Log: log,
	})
	if err != nil {
		return nil, config.NewError("tracing.endpoint", err)
	}
	m.closers = append(m.closers, func() error {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer cancel()
		if err := tracer.Close(end); err != nil {
			log.Warn("the last spans were not sent", "error", err)
		}
		return nil
	})
	log.Info("traces are sent", "endpoint", url, "sample", *c.Sample, "content", c.Content)
	return tracer, nil
}
