package rest

import (
	"parley/conversation"
	"parley/conversation/member"
	"parley/gateway/protocol"

	"github.com/gofiber/fiber/v2"
)

// cluster serves GET /api/cluster: the nodes that share the sessions, as this one knows them.
// A server that is alone is its only member.
func cluster(s *API, c *fiber.Ctx) error {
	var all []member.Peer
	if s.Members != nil {
		all = s.Members()
	} else {
		all = []member.Peer{{Info: member.Info{Member: conversation.Member{Node: s.Node}, Version: s.Version}}}
	}
	o := protocol.NewObject(nil)
	o.Text("self", string(s.Node))
	o.Key("members")
	o.Bytes = append(o.Bytes, '[')
	first := true
	for _, m := range all {
		if m.Dead {
			continue
		}
		if !first {
			o.Bytes = append(o.Bytes, ',')
		}
		first = false
		o.Bytes = appendMember(o.Bytes, m)
	}
	o.Bytes = append(o.Bytes, ']')
	return send(c, fiber.StatusOK, o.Close())
}

func appendMember(dst []byte, m member.Peer) []byte {
	o := protocol.NewObject(dst)
	o.Text("node", string(m.Node))
	o.Text("address", m.Address)
	o.Text("version", m.Version)
	o.Bool("draining", m.Draining)
	o.Uint("sessions", uint64(max(m.Owned, 0)))
	o.Uint("heartbeat_ms", uint64(max(m.Silent.Milliseconds(), 0)))
	return o.Close()
}
