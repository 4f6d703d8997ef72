package assemble

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"parley/cmd/parley/internal/config"
)

// Found is what a model's address said of it.
type Found struct {
	Says string // in words; "" = nothing was asked
	Err  error  // why calls would fail; it names no secret
}

// prober is a model that can look whether its address knows it, free of charge.
type prober interface {
	Probe(ctx context.Context) (says string, err error)
}

// probesAtOnce bounds how many addresses are asked at the same time.
const probesAtOnce = 8

// Probe asks the address of each model behind HTTP that has what it needs, each within the
// patience, whether it knows the model. The result is by the names of the blocks.
func Probe(ctx context.Context, c *config.Config, look config.Lookup, patience time.Duration) map[string]Found {
	var wg sync.WaitGroup
	slots := make(chan struct{}, probesAtOnce)
	results := make([]Found, len(c.Models))
	for i := range c.Models {
		b := &c.Models[i]
		if b.Connection() == nil || b.Ready(look) != nil {
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = probe(ctx, c, b, look, patience)
		})
	}
	wg.Wait()
	found := map[string]Found{}
	for i, f := range results {
		found[c.Models[i].Name] = f
	}
	return found
}

func probe(ctx context.Context, c *config.Config, b *config.ModelBlock, look config.Lookup, patience time.Duration) Found {
	m, err := b.Build(c, func(value string) (string, error) { return config.Fill(value, look) }, slog.New(slog.DiscardHandler))
	if err != nil {
		return Found{Err: err}
	}
	if closer, ok := m.(io.Closer); ok {
		defer func() { _ = closer.Close() }()
	}
	p, ok := m.(prober)
	if !ok {
		return Found{}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	says, err := p.Probe(ctx)
	return Found{Says: says, Err: err}
}
