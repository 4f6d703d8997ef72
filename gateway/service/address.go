package service

import (
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the addresses of the proxies that are believed when they say for whom
// they ask.
type Proxies []netip.Prefix

// ParseProxies reads networks ("10.0.0.0/8", "fd00::/8") and single addresses. The
// first one that is neither is named in bad.
func ParseProxies(list []string) (p Proxies, bad string) {
	for _, s := range list {
		if prefix, err := netip.ParsePrefix(s); err == nil {
			if a := prefix.Addr(); a.Is4In6() { // ::ffff:10.0.0.0/104 is 10.0.0.0/8
				prefix = netip.PrefixFrom(a.Unmap(), prefix.Bits()-96)
			}
			if !prefix.IsValid() {
				return nil, s
			}
			p = append(p, prefix.Masked())
			continue
		}
		addr, ok := parseAddress(s)
		if !ok {
			return nil, s
		}
		p = append(p, netip.PrefixFrom(addr, addr.BitLen()))
	}
	return p, ""
}

// Trusts is true for an address of a trusted proxy.
func (p Proxies) Trusts(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(p, func(n netip.Prefix) bool { return n.Contains(a) })
}

// TrustsRemote is Trusts for an address as connections have it, with or without a port.
func (p Proxies) TrustsRemote(remote string) bool {
	a, ok := parseAddress(remote)
	return ok && p.Trusts(a)
}

// ClientAddress is the address of who asks. remote is the other end of the connection. If
// that is a trusted proxy, forwardedFor counts, the value of X-Forwarded-For (of several
// such headers all values, in order, joined by commas): each proxy adds at its end who
// asked it, so the rightmost address that is no trusted proxy is the client. What stands
// left of it is what that client says itself, and nobody vouches for it.
func (s *Services) ClientAddress(remote, forwardedFor string) string {
	client, ok := parseAddress(remote)
	if !ok {
		return remote
	}
	for s.Proxies.Trusts(client) && forwardedFor != "" {
		last := forwardedFor
		if i := strings.LastIndexByte(forwardedFor, ','); i >= 0 {
			forwardedFor, last = forwardedFor[:i], forwardedFor[i+1:]
		} else {
			forwardedFor = ""
		}
		next, ok := parseAddress(strings.TrimSpace(last))
		if !ok {
			break // the proxy that wrote this is the last one known
		}
		client = next
	}
	return client.String()
}

// AddressGroup is what limits by address count: an IPv4 address, and of IPv6 the first
// 64 bits, because a single customer has all addresses below them.
func AddressGroup(address string) string {
	a, ok := parseAddress(address)
	switch {
	case !ok:
		return address
	case a.Is4():
		return a.String()
	}
	group, _ := a.Prefix(64) // fails for more bits than an address has only
	return group.String()
}

// parseAddress reads an address with or without a port. IPv4 inside IPv6 is IPv4, and a
// zone is left out: it names a network card, not a client.
func parseAddress(s string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")); err == nil {
		return a.Unmap().WithZone(""), true
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	return netip.Addr{}, false
}
