package sessionlog

import (
	"strconv"
	"sync/atomic"
	"time"

	"parley/conversation"
)

// Names names commits: each is unique among all that this process and any before it made.
type Names struct {
	prefix string
	n      atomic.Uint64
}

// NewNames makes the names of one run of a node.
func NewNames(node conversation.NodeID) *Names {
	return &Names{prefix: string(node) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36) + "-"}
}

// Next is a new name.
func (n *Names) Next() conversation.CommitID {
	var room [64]byte
	return conversation.CommitID(strconv.AppendUint(append(room[:0], n.prefix...), n.n.Add(1), 36))
}
