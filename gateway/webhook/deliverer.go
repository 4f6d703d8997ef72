package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/gateway/feed"
	"parley/gateway/outbound"
	"parley/metrics"
)

// Needs are what a Deliverer works with.
type Needs struct {
	Store   chats.Store
	Feeds   *feed.Feeds             // of the same store
	Tenants []conversation.TenantID // whose feeds are trimmed, beside those of the hooks and "default"
	Env     func(name string) (string, bool)
	Metrics *metrics.Webhooks
	Logger  *slog.Logger
	Now     func() time.Time // nil = time.Now

	// Transport takes the place of the network, for tests; nil = the network.
	Transport http.RoundTripper
}

// Deliverer sends feeds to hooks, and trims them. One may run in a cluster at a time; that two
// do for a moment makes nothing worse than an entry that comes twice.
type Deliverer struct {
	n       Needs
	keep    Retention
	senders []*sender
	tenants []conversation.TenantID
}

// New checks the hooks and reads their secrets; nothing runs yet.
func New(hooks []Hook, keep Retention, n Needs) (*Deliverer, error) {
	if n.Now == nil {
		n.Now = time.Now
	}
	d := &Deliverer{n: n, keep: keep, tenants: append([]conversation.TenantID{"default"}, n.Tenants...)}
	var wrong []error
	for _, h := range hooks {
		if slices.ContainsFunc(d.senders, func(s *sender) bool { return s.hook.Name == h.Name }) {
			wrong = append(wrong, fmt.Errorf("webhook %q: there are two of this name", h.Name))
			continue
		}
		failed := false
		for _, e := range h.Validate() {
			wrong, failed = append(wrong, fmt.Errorf("webhook %q: %s: %s", h.Name, e.Key, e.Sentence)), true
		}
		if failed {
			continue
		}
		keys, err := h.keys(n.Env)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("webhook %q: %w", h.Name, err))
			continue
		}
		d.senders = append(d.senders, newSender(d, h, keys))
		d.tenants = append(d.tenants, h.tenant())
	}
	slices.Sort(d.tenants)
	d.tenants = slices.Compact(d.tenants)
	return d, errors.Join(wrong...)
}

// Run sends and trims until ctx ends, and ends with everything that it has started. It may be
// called again. The error is that the store was closed.
func (d *Deliverer) Run(ctx context.Context) error {
	var all sync.WaitGroup
	errs := make([]error, len(d.senders)+1)
	for i, s := range d.senders {
		all.Go(func() { errs[i] = s.run(ctx) })
	}
	all.Go(func() { d.trim(ctx) })
	all.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(errs...)
}

// trimPause is how often feeds are trimmed.
const trimPause = time.Minute

// trim drops what is old, until ctx ends.
func (d *Deliverer) trim(ctx context.Context) {
	for {
		for _, tenant := range d.tenants {
			err := d.trimOne(ctx, tenant)
			if errors.Is(err, conversation.ErrClosed) {
				return
			}
			if err != nil && ctx.Err() == nil {
				d.n.Logger.Warn("a feed of chats was not trimmed; trying again", "tenant", string(tenant), "error", err)
			}
		}
		if outbound.Rest(ctx, trimPause) != nil {
			return
		}
	}
}

// trimOne drops what is old of one feed.
func (d *Deliverer) trimOne(ctx context.Context, tenant conversation.TenantID) error {
	of, err := d.n.Store.Feed(ctx, tenant)
	if err != nil || of.First > of.Last {
		return err
	}
	through := of.First - 1
	if most := chats.Number(max(d.keep.Entries, 0)); most > 0 && of.Last > most {
		through = max(through, of.Last-most)
	}
	if d.keep.Age > 0 {
		if through, err = d.older(ctx, tenant, through, of.Last); err != nil {
			return err
		}
	}
	if through < of.First {
		return nil
	}
	if err := d.n.Store.Trim(ctx, tenant, through); err != nil {
		return err
	}
	d.n.Metrics.Trimmed.Add(float64(through - of.First + 1))
	return nil
}

// older is the last entry up to hi that is too old, or lo: by halving, because values need not
// be read for that.
func (d *Deliverer) older(ctx context.Context, tenant conversation.TenantID, lo, hi chats.Number) (chats.Number, error) {
	for lo < hi {
		middle := lo + (hi-lo+1)/2
		page, err := d.n.Store.Entries(ctx, tenant, middle-1, 1)
		switch {
		case err != nil:
			return lo, err
		case len(page) == 1 && page[0].Number <= hi && d.n.Now().Sub(page[0].At) > d.keep.Age:
			lo = page[0].Number
		default: // it is young, or all from middle on is erased
			hi = middle - 1
		}
	}
	return lo, nil
}
