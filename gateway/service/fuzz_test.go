package service

import (
	"net/netip"
	"strings"
	"testing"
)

// FuzzSessionKey: an id that is taken is one that is stored and shown as it is.
func FuzzSessionKey(f *testing.F) {
	for _, s := range []string{"", "s1", "a/b/c", "/a", "a/", "..", "é", "a\x00b", strings.Repeat("x", 129)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		key, bad := SessionKey("t", id)
		if bad != nil {
			return
		}
		if string(key.Session) != id || key.Tenant != "t" || len(id) > maxSessionID || strings.ContainsAny(id, "\x00 \n%\\") {
			t.Errorf("%q became %q", id, key.Session)
		}
	})
}

// FuzzClientAddress: whatever a client writes into its headers, it is not taken for a
// trusted proxy, and its group is one that limits can count by.
func FuzzClientAddress(f *testing.F) {
	f.Add("10.0.0.1:80", "1.2.3.4, 10.0.0.2")
	f.Add("[::1]:80", "2001:db8::1%eth0")
	f.Add("::ffff:10.0.0.1", " , ,")
	proxies, _ := ParseProxies([]string{"10.0.0.0/8", "::1"})
	s := &Services{Proxies: proxies}
	f.Fuzz(func(t *testing.T, remote, forwarded string) {
		a := s.ClientAddress(remote, forwarded)
		if !proxies.TrustsRemote(remote) {
			if want, err := netip.ParseAddrPort(remote); err == nil && a != want.Addr().Unmap().WithZone("").String() {
				t.Errorf("%q said %q and became %q", remote, forwarded, a)
			}
		}
		group := AddressGroup(a)
		if again := AddressGroup(a); again != group || (a != "" && group == "") {
			t.Errorf("the group of %q is %q and %q", a, group, again)
		}
	})
}
