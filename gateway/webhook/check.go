package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"

	"parley/gateway/outbound"
)

// errPrivate says that a hook's address leads to this machine or its network.
var errPrivate = fmt.Errorf("%w; allow_private = true allows it", outbound.ErrPrivate)

// Host is the host of the hook's address, which may be shown: what may hold a token stands behind it.
func (h Hook) Host() string {
	u, err := url.Parse(h.URL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// CheckSecret says what is wrong with the hook's secrets, as New does.
func (h Hook) CheckSecret(env func(name string) (string, bool)) error {
	_, err := h.keys(env)
	return err
}

// CheckAddress says whether the hook's host is known, and may be connected to. It is not. lookup is
// that of a net.Resolver: LookupNetIP.
func (h Hook) CheckAddress(ctx context.Context, lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)) error {
	all, err := lookup(ctx, "ip", h.Host())
	var unknown *net.DNSError
	switch {
	case errors.As(err, &unknown): // its text names the server that was asked
		return fmt.Errorf("the address of %s cannot be looked up: %s", h.Host(), unknown.Err)
	case err != nil:
		return fmt.Errorf("the address of %s cannot be looked up: %w", h.Host(), err)
	case len(all) == 0:
		return fmt.Errorf("%s has no address", h.Host())
	case h.AllowPrivate || slices.ContainsFunc(all, outbound.IsPublic): // the others are passed over
		return nil
	}
	return fmt.Errorf("%s is at %s: %w", h.Host(), all[0].Unmap(), errPrivate)
}
