package service_test

import (
	"strings"
	"testing"

	"parley/gateway/service"
)

func TestAddressGroup(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7":               "192.0.2.7",
		"192.0.2.7:443":           "192.0.2.7",
		"::ffff:192.0.2.7":        "192.0.2.7",
		"2001:db8:1:2::1":         "2001:db8:1:2::/64",
		"2001:db8:1:2:a:b:c:d":    "2001:db8:1:2::/64",
		"[2001:db8:1:2:a::d]:443": "2001:db8:1:2::/64",
		"[2001:db8:1:2:a::d]":     "2001:db8:1:2::/64",
		"2001:db8:1:3::1":         "2001:db8:1:3::/64",
		"fe80::1%eth0":            "fe80::/64",
		"fe80::2%eth1":            "fe80::/64",
		"somewhere":               "somewhere", // not an address: a group of its own
		"":                        "",
	} {
		if got := service.AddressGroup(address); got != want {
			t.Errorf("%q is in %q, want %q", address, got, want)
		}
	}
}

func TestClientAddress(t *testing.T) {
	proxies, bad := service.ParseProxies([]string{"127.0.0.1", "10.0.0.0/8", "fd00::/8", "::ffff:172.16.0.0/108"})
	if bad != "" {
		t.Fatal(bad)
	}
	s := &service.Services{Proxies: proxies}
	for _, x := range []struct{ name, remote, forwarded, want string }{
		{"a stranger's header is not believed", "203.0.113.5", "198.51.100.1", "203.0.113.5"},
		{"nor is one that names itself a proxy", "203.0.113.5", "127.0.0.1", "203.0.113.5"},
		{"a proxy that says nothing", "127.0.0.1", "", "127.0.0.1"},
		{"one proxy", "127.0.0.1", "198.51.100.1", "198.51.100.1"},
		{"what the client wrote itself stands left", "127.0.0.1", "1.2.3.4, 198.51.100.1", "198.51.100.1"},
		{"a client cannot put a proxy before itself", "127.0.0.1", "1.2.3.4, 10.9.9.9, 198.51.100.1", "198.51.100.1"},
		{"two proxies", "127.0.0.1", "1.2.3.4, 198.51.100.1, 10.1.2.3", "198.51.100.1"},
		{"a mapped network", "172.16.3.4", "198.51.100.1", "198.51.100.1"},
		{"an address inside IPv6", "::ffff:10.1.1.1", "::ffff:198.51.100.1", "198.51.100.1"},
		{"IPv6 with a port", "[fd00::1]:9999", "[2001:db8::5]:443", "2001:db8::5"},
		{"a port behind IPv4", "10.0.0.1:5", "198.51.100.1:1234", "198.51.100.1"},
		{"proxies only", "127.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"},
		{"nonsense ends at the proxy that passed it on", "127.0.0.1", "198.51.100.1, unknown", "127.0.0.1"},
		{"nonsense further left does not count", "127.0.0.1", "<script>, 198.51.100.1", "198.51.100.1"},
		{"empty elements", "127.0.0.1", "198.51.100.1, ,", "127.0.0.1"},
		{"a name as remote", "pipe", "198.51.100.1", "pipe"},
	} {
		if got := s.ClientAddress(x.remote, x.forwarded); got != x.want {
			t.Errorf("%s: %q, %q is %q, want %q", x.name, x.remote, x.forwarded, got, x.want)
		}
	}
	none := &service.Services{}
	if got := none.ClientAddress("127.0.0.1", "198.51.100.1"); got != "127.0.0.1" {
		t.Errorf("without trusted proxies the header counts: %s", got)
	}
	long := strings.Repeat("10.0.0.1,", 1000) + "10.0.0.2"
	if got := s.ClientAddress("127.0.0.1", long); got != "10.0.0.1" {
		t.Errorf("a long header: %s", got)
	}
}

func TestParseProxies(t *testing.T) {
	for _, bad := range []string{"", "chat.example", "10.0.0.0/33", "10.0.0.0/-1", "::ffff:10.0.0.0/8", "10.0.0"} {
		if _, got := service.ParseProxies([]string{"10.0.0.1", bad}); got != bad {
			t.Errorf("%q: the bad one is %q", bad, got)
		}
	}
}
