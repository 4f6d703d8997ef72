package shown

import (
	"sync/atomic"

	"parley/conversation"
)

// Position is how far a session has published. The session writes it; its calls, which
// run in other goroutines, read it with each thing that they show.
type Position struct{ seq, epoch atomic.Uint64 }

// Set takes what was published last, and the epoch of its writer.
func (p *Position) Set(seq conversation.Seq, epoch conversation.Epoch) {
	p.epoch.Store(uint64(epoch))
	p.seq.Store(uint64(seq))
}

// Seq is the last event that was published.
func (p *Position) Seq() conversation.Seq { return conversation.Seq(p.seq.Load()) }

// Epoch is the writer's.
func (p *Position) Epoch() conversation.Epoch { return conversation.Epoch(p.epoch.Load()) }
