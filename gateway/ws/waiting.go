package ws

import (
	"container/list"
	"sync"

	"parley/gateway/protocol"
	"parley/gateway/service"
)

// waitingRoom holds the connections that have not said hello. When it is full the one that
// has waited longest goes, not the one that comes: an honest client says hello within a
// round trip, so those who wait long are not worth their place, and nobody can keep others
// out by filling the room.
type waitingRoom struct {
	most, mostOfGroup int // 0 = no limit

	mu     sync.Mutex
	all    list.List             // of *guest, the oldest first
	groups map[string]*list.List // the same, by guest.group; never an empty list
}

// guest is a connection in a waitingRoom.
type guest struct {
	group      string             // of its address
	leave      func(limit string) // ends the connection, which has lost its place to another
	inAll, own *list.Element      // nil = not in the room
}

func newWaitingRoom(l protocol.Limits) *waitingRoom {
	return &waitingRoom{most: l.ConnectionsBeforeHello, mostOfGroup: l.ConnectionsBeforeHelloByAddress, groups: make(map[string]*list.List)}
}

// add gives g a place, if need be that of another, who leaves.
func (r *waitingRoom) add(g *guest) {
	r.mu.Lock()
	var out *guest
	limit := ""
	switch own := r.groups[g.group]; {
	case own != nil && service.OverLimit(own.Len(), r.mostOfGroup):
		out, limit = own.Front().Value.(*guest), "connections_before_hello_per_address"
	case service.OverLimit(r.all.Len(), r.most):
		out, limit = r.all.Front().Value.(*guest), "connections_before_hello"
	}
	if out != nil {
		r.drop(out)
	}
	own := r.groups[g.group]
	if own == nil {
		own = list.New()
		r.groups[g.group] = own
	}
	g.inAll, g.own = r.all.PushBack(g), own.PushBack(g)
	r.mu.Unlock()
	if out != nil {
		out.leave(limit)
	}
}

// remove takes g out, when it has said hello or has ended. Idempotent.
func (r *waitingRoom) remove(g *guest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(g)
}

// drop is remove; the caller holds mu.
func (r *waitingRoom) drop(g *guest) {
	if g.inAll == nil {
		return
	}
	own := r.groups[g.group]
	r.all.Remove(g.inAll)
	own.Remove(g.own)
	g.inAll, g.own = nil, nil
	if own.Len() == 0 {
		delete(r.groups, g.group)
	}
}
