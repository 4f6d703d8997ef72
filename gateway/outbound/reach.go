package outbound

import (
	"errors"
	"net/netip"
	"syscall"
)

// Reach says which addresses may be connected to.
type Reach uint8

// The reaches.
const (
	Public   Reach = iota // those that everybody on the Internet can reach
	Loopback              // those of this machine
	Anywhere              // all
)

// ErrPrivate says that an address leads to this machine or its network.
var ErrPrivate = errors.New("the address is one of a private network")

// errOutside says that an address leads to another machine.
var errOutside = errors.New("the address is not one of this machine")

// internet is where all IPv6 addresses of the Internet are. Those outside hide others (of IPv4, by
// translators), or are of no network yet.
var internet = netip.MustParsePrefix("2000::/3")

// private are the networks that are no part of the Internet beside those that package netip
// knows, and those whose addresses hide others.
var private = func() (all []netip.Prefix) {
	for _, p := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	} {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}()

// IsPublic is true for an address that everybody on the Internet can reach.
func IsPublic(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.Is6() && !internet.Contains(ip) {
		return false
	}
	for _, p := range private {
		if p.Contains(ip) {
			return false
		}
	}
	return true
}

// check refuses to connect to an address out of reach. It is asked with the one that is really
// connected to, behind all names: a name that means something else by then does not help.
func (r Reach) check(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	switch {
	case r == Public && (err != nil || !IsPublic(at.Addr())):
		return ErrPrivate
	case r == Loopback && (err != nil || !at.Addr().Unmap().IsLoopback()):
		return errOutside
	}
	return nil
}
