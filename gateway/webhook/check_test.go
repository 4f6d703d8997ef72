package webhook

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// A hook's address is looked up, and said to be private where a connection would be refused.
func TestCheckAddress(t *testing.T) {
	known := map[string][]netip.Addr{
		"public.example":  {netip.MustParseAddr("93.184.216.34")},
		"inside.example":  {netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("::ffff:127.0.0.1")},
		"both.example":    {netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("2600::1")},
		"nothing.example": {},
	}
	lookup := func(_ context.Context, network, host string) ([]netip.Addr, error) {
		all, is := known[host]
		switch {
		case network != "ip":
			t.Errorf("the network is %q", network)
		case host == "broken.example":
			return nil, errors.New("the file of hosts is broken")
		case !is:
			return nil, &net.DNSError{Err: "no such host", Name: host, Server: "192.0.2.53:53"}
		}
		return all, nil
	}
	for _, c := range []struct {
		host    string
		private bool   // allow_private
		want    string // part of the error; "" = none
	}{
		{"public.example", false, ""},
		{"public.example", true, ""},
		{"inside.example", false, "inside.example is at 10.1.2.3: the address is one of a private network"},
		{"inside.example", true, ""},
		{"both.example", false, ""},
		{"nothing.example", true, "nothing.example has no address"},
		{"unknown.example", true, "the address of unknown.example cannot be looked up: no such host"},
		{"broken.example", false, "the address of broken.example cannot be looked up: the file"},
	} {
		h := DefaultHook("x")
		h.URL, h.AllowPrivate = "https://"+c.host+":8443/token?key=token", c.private
		err := h.CheckAddress(t.Context(), lookup)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "token") || strings.Contains(err.Error(), "192.0.2.53")) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
