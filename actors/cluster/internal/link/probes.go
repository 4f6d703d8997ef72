package link

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/conversation"
)

// A request or its answer may get lost without a word: what waits in the library for an address
// goes with the stream to it, and the other side sees another stream end, or none. So who
// waits for longer than a moment asks whether the other still works on it. The word that it
// does not comes behind an answer that was sent before, for one stream keeps its order.

const (
	probeEvery  = time.Second
	maxProbeIDs = 10_000 // in one message
)

// errLost ends a request of which the other node does not know, or not any more.
var errLost = fmt.Errorf("%w: the request or its answer was lost", ErrUnreachable)

// served is a request that this node works on.
type served struct {
	from conversation.Member
	id   uint64
}

// serves notes that this node works on a request, until done is called.
func (l *Link) serves(from conversation.Member, id uint64) (done func()) {
	key := served{from, id}
	l.mu.Lock()
	l.serving[key] = struct{}{}
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		delete(l.serving, key)
		l.mu.Unlock()
	}
}

// wantProbe sees to it that open requests are asked about. l.mu is held.
func (l *Link) wantProbe() {
	if !l.probing && !l.closed.Load() {
		l.probing = true
		time.AfterFunc(probeEvery, l.probe)
	}
}

// probe asks the others whether they still work on what has been open for a while.
func (l *Link) probe() {
	now := time.Now()
	about := map[conversation.Member][]uint64{}
	l.mu.Lock()
	l.probing = false
	for id, r := range l.asked {
		if now.Sub(r.began) >= probeEvery && len(about[r.to]) < maxProbeIDs {
			about[r.to] = append(about[r.to], id)
		}
	}
	if len(l.asked) > 0 {
		l.wantProbe()
	}
	l.mu.Unlock()
	for to, ids := range about {
		if p := l.peer(to); p != nil && !l.closed.Load() {
			l.post(p, envelope{kind: kindProbe, to: to, body: appendIDs(nil, ids)})
		}
	}
}

// probed tells another node on which of its requests this one does not work.
func (l *Link) probed(e *envelope, sender *actor.PID) {
	ids, ok := readIDs(e.body)
	if !ok {
		return
	}
	if e.to == l.o.Self { // else it was for an earlier run: all of them are lost
		l.mu.Lock()
		ids = slices.DeleteFunc(ids, func(id uint64) bool {
			_, works := l.serving[served{e.from, id}]
			return works
		})
		l.mu.Unlock()
	}
	if p := l.asker(e.from, sender); p != nil && len(ids) > 0 {
		l.post(p, envelope{kind: kindGone, to: e.from, body: appendIDs(nil, ids)})
	}
}

// gone ends the requests that another node does not work on.
func (l *Link) gone(e *envelope) {
	ids, _ := readIDs(e.body)
	for _, id := range ids {
		l.mu.Lock()
		r := l.asked[id]
		l.mu.Unlock()
		if r != nil && r.to.Node == e.from.Node {
			l.answered(id, nil, errLost)
		}
	}
}

func appendIDs(b []byte, ids []uint64) []byte {
	for _, id := range ids {
		b = binary.AppendUvarint(b, id)
	}
	return b
}

// readIDs is false for what are no ids, or too many.
func readIDs(b []byte) (ids []uint64, ok bool) {
	for len(b) > 0 {
		id, n := binary.Uvarint(b)
		if n <= 0 || len(ids) == maxProbeIDs {
			return nil, false
		}
		ids, b = append(ids, id), b[n:]
	}
	return ids, true
}
