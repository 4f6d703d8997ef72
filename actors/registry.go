package actors

import (
	"hash/maphash"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"parley/conversation"
)

// registry knows the actor of each session that is in memory. Sub-sessions have
// actors of their own and live on the node of their root.
//
// A message is put into the mailbox while the shard is locked, and an actor that
// wants to end takes itself out of the registry first and then poisons itself.
// So every message that was delivered is either processed or seen by the ending
// actor, which hands it back; none is lost in between.
type registry struct {
	spawn  func(conversation.SessionKey) *actor.PID
	send   func(*actor.PID, any)
	seed   maphash.Seed
	shards [64]shard
}

type shard struct {
	mu      sync.Mutex
	pids    map[conversation.SessionKey]*actor.PID
	blocked map[conversation.SessionKey]*blockade // roots that nobody may reach now: they are being erased
	noSpawn bool                                  // nothing is loaded any more
	closed  bool                                  // nothing is delivered any more
}

// blockade keeps everybody out of a tree.
type blockade struct {
	holders int
	empty   chan struct{} // closed when no actor of the tree is left
}

func newRegistry(spawn func(conversation.SessionKey) *actor.PID, send func(*actor.PID, any)) *registry {
	r := &registry{spawn: spawn, send: send, seed: maphash.MakeSeed()}
	for i := range r.shards {
		r.shards[i].pids = map[conversation.SessionKey]*actor.PID{}
	}
	return r
}

// shard is the same for a root and its sub-sessions.
func (r *registry) shard(key conversation.SessionKey) *shard {
	return &r.shards[maphash.Comparable(r.seed, rootKey(key))%uint64(len(r.shards))]
}

func rootKey(key conversation.SessionKey) conversation.SessionKey {
	return conversation.SessionKey{Tenant: key.Tenant, Session: key.Session.Root()}
}

// deliver puts m into the session's mailbox; with load, a session that is not in
// memory is brought there. False: there is no such actor, or may be none now.
func (r *registry) deliver(key conversation.SessionKey, m any, load bool) bool {
	sh := r.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.closed || sh.blocked[rootKey(key)] != nil {
		return false
	}
	pid, ok := sh.pids[key]
	if !ok {
		if !load || sh.noSpawn {
			return false
		}
		pid = r.spawn(key)
		sh.pids[key] = pid
	}
	r.send(pid, m)
	return true
}

// active is true while the session has an actor.
func (r *registry) active(key conversation.SessionKey) bool {
	sh := r.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, ok := sh.pids[key]
	return ok
}

// remove takes an ending actor out. Nothing is delivered to it afterwards.
func (r *registry) remove(key conversation.SessionKey, pid *actor.PID) {
	sh := r.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.pids[key] == pid {
		delete(sh.pids, key)
		sh.cleared(rootKey(key))
	}
}

// cleared tells those who block a tree when nobody is left in it. The caller
// holds mu.
func (sh *shard) cleared(root conversation.SessionKey) {
	b := sh.blocked[root]
	if b == nil {
		return
	}
	for key := range sh.pids {
		if rootKey(key) == root {
			return
		}
	}
	select {
	case <-b.empty:
	default:
		close(b.empty)
	}
}

// tree sends m to the actors of a root and of all its sub-sessions.
func (r *registry) tree(root conversation.SessionKey, m any) {
	sh := r.shard(root)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for key, pid := range sh.pids {
		if rootKey(key) == root {
			r.send(pid, m)
		}
	}
}

// block keeps everybody out of a tree until unblock, and sends m to its actors.
// The channel is closed when the last of them has gone.
func (r *registry) block(root conversation.SessionKey, m any) <-chan struct{} {
	sh := r.shard(root)
	sh.mu.Lock()
	b := sh.blocked[root]
	if b == nil {
		b = &blockade{empty: make(chan struct{})}
		if sh.blocked == nil {
			sh.blocked = map[conversation.SessionKey]*blockade{}
		}
		sh.blocked[root] = b
	}
	b.holders++
	sh.cleared(root)
	sh.mu.Unlock()
	r.tree(root, m)
	return b.empty
}

func (r *registry) unblock(root conversation.SessionKey) {
	sh := r.shard(root)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	b := sh.blocked[root]
	if b.holders--; b.holders == 0 {
		delete(sh.blocked, root)
	}
}

// everyone sends m to all actors.
func (r *registry) everyone(m any) {
	for i := range r.shards {
		sh := &r.shards[i]
		sh.mu.Lock()
		for _, pid := range sh.pids {
			r.send(pid, m)
		}
		sh.mu.Unlock()
	}
}

// close ends loading; with hard, it ends deliveries too.
func (r *registry) close(hard bool) {
	for i := range r.shards {
		sh := &r.shards[i]
		sh.mu.Lock()
		sh.noSpawn, sh.closed = true, sh.closed || hard
		sh.mu.Unlock()
	}
}

// count is how many sessions are in memory.
func (r *registry) count() int {
	n := 0
	for i := range r.shards {
		sh := &r.shards[i]
		sh.mu.Lock()
		n += len(sh.pids)
		sh.mu.Unlock()
	}
	return n
}
