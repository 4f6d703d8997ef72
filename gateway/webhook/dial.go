package webhook

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// errPrivate says that a hook's address leads to this machine or its network.
var errPrivate = errors.New("the address is one of a private network; allow_private = true allows it")

// private are the networks that are no part of the Internet beside those that package netip
// knows, and those whose addresses hide others.
var private = func() (all []netip.Prefix) {
	for _, p := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "fec0::/10",
	} {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}()

// public is true for an address that everybody on the Internet can reach.
func public(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return false
	}
	for _, p := range private {
		if p.Contains(ip) {
			return false
		}
	}
	return true
}

// publicOnly refuses to connect to another address than a public one. It is asked with the one
// that is really connected to, behind all names: a name that means something else by then
// does not help.
func publicOnly(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !public(at.Addr()) {
		return errPrivate
	}
	return nil
}

// newClient is the client of one hook. It follows nothing, and knows no proxy: that would
// connect where we must not.
func newClient(h Hook) (*http.Client, *http.Transport) {
	dialer := &net.Dialer{Timeout: h.Timeout}
	if !h.AllowPrivate {
		dialer.Control = publicOnly
	}
	t := &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: h.Timeout, ResponseHeaderTimeout: h.Timeout,
		MaxResponseHeaderBytes: 64 << 10, MaxConnsPerHost: 2, MaxIdleConns: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
	}
	return client(t, h), t
}

func client(t http.RoundTripper, h Hook) *http.Client {
	return &http.Client{
		Transport: t, Timeout: h.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
