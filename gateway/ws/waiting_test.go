package ws

import (
	"slices"
	"testing"

	"parley/gateway/protocol"
	"parley/gateway/service"
)

// Who has waited longest loses its place: of the same address when that has too many, of
// all when the room is full. All addresses of an IPv6 network of 64 bits are one.
func TestWaitingRoom(t *testing.T) {
	const perAddress, inAll = "connections_before_hello_per_address", "connections_before_hello"
	for _, c := range []struct {
		name  string
		come  []string // addresses, in order; "-N" = the N-th leaves by itself
		left  []int    // who had to leave, in order
		limit []string
	}{
		{"room for all", []string{"10.0.0.1", "10.0.0.1", "10.0.0.2"}, nil, nil},
		{"too many of one address", []string{"10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.1"}, []int{0}, []string{perAddress}},
		{"one of them had left", []string{"10.0.0.1", "10.0.0.1", "-0", "10.0.0.1"}, nil, nil},
		{"too many in all", []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"}, []int{0, 1}, []string{inAll, inAll}},
		{"one network", []string{"2001:db8::1", "2001:db8::2", "2001:db8::ffff:3"}, []int{0}, []string{perAddress}},
		{"two networks", []string{"2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			room := newWaitingRoom(protocol.Limits{ConnectionsBeforeHello: 4, ConnectionsBeforeHelloByAddress: 2})
			var guests []*guest
			var left []int
			var limits []string
			for _, address := range c.come {
				if address[0] == '-' {
					room.remove(guests[address[1]-'0'])
					continue
				}
				i := len(guests)
				guests = append(guests, &guest{group: service.AddressGroup(address), leave: func(limit string) {
					left, limits = append(left, i), append(limits, limit)
				}})
				room.add(guests[i])
			}
			if !slices.Equal(left, c.left) || !slices.Equal(limits, c.limit) {
				t.Errorf("%v had to leave because of %v, want %v of %v", left, limits, c.left, c.limit)
			}
			for _, g := range guests {
				room.remove(g)
				room.remove(g)
			}
			if room.all.Len() != 0 || len(room.groups) != 0 {
				t.Errorf("%d of %d groups stay", room.all.Len(), len(room.groups))
			}
		})
	}
}
