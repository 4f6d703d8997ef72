package registry

import (
	"hash/maphash"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"parley/conversation"
)

// Registry knows the actor of each session that is in memory. Its methods may be
// called from any goroutine.
type Registry struct {
	spawn  func(conversation.SessionKey) *actor.PID
	send   func(*actor.PID, any)
	seed   maphash.Seed
	shards [64]shard
}

type shard struct {
	mu      sync.Mutex
	pids    map[conversation.SessionKey]*actor.PID
	blocked map[conversation.SessionKey]*blockade // by root: trees that must not be reached now
	noSpawn bool                                  // no session is loaded any more
	closed  bool                                  // nothing is delivered any more
}

// blockade keeps messages out of a tree.
type blockade struct {
	holders int
	empty   chan struct{} // closed when the last actor of the tree has ended
}

// New makes a registry that starts the actor of a session with spawn and puts a
// message into its mailbox with send. Both are called while a lock is held: they
// must not block and must not call the registry. spawn gives nil if it cannot.
func New(spawn func(conversation.SessionKey) *actor.PID, send func(*actor.PID, any)) *Registry {
	r := &Registry{spawn: spawn, send: send, seed: maphash.MakeSeed()}
	for i := range r.shards {
		r.shards[i].pids = map[conversation.SessionKey]*actor.PID{}
	}
	return r
}

// shard is the same one for a root and its sub-sessions.
func (r *Registry) shard(key conversation.SessionKey) *shard {
	return &r.shards[maphash.Comparable(r.seed, RootKey(key))%uint64(len(r.shards))]
}

// RootKey is the key of a session's root, which may be the session itself.
func RootKey(key conversation.SessionKey) conversation.SessionKey {
	return conversation.SessionKey{Tenant: key.Tenant, Session: key.Session.Root()}
}

// Deliver puts m into the session's mailbox; with load, it starts the actor of a
// session that is not in memory. False: it was not delivered, because there is no
// actor, because the tree is blocked, or because the registry is closed.
func (r *Registry) Deliver(key conversation.SessionKey, m any, load bool) bool {
	sh := r.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.closed || sh.blocked[RootKey(key)] != nil {
		return false
	}
	pid, ok := sh.pids[key]
	if !ok {
		if !load || sh.noSpawn {
			return false
		}
		if pid = r.spawn(key); pid == nil {
			return false
		}
		sh.pids[key] = pid
	}
	r.send(pid, m)
	return true
}

// Actor is the session's actor; nil while the session is not in memory.
func (r *Registry) Actor(key conversation.SessionKey) *actor.PID {
	sh := r.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.pids[key]
}

// Remove takes an ending actor out; nothing is delivered to it afterwards. It
// does nothing if the session has another actor by now.
func (r *Registry) Remove(key conversation.SessionKey, pid *actor.PID) {
	sh := r.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.pids[key] == pid {
		delete(sh.pids, key)
		sh.cleared(RootKey(key))
	}
}

// cleared closes a blockade's channel when no actor of its tree is left. The
// caller holds mu.
func (sh *shard) cleared(root conversation.SessionKey) {
	b := sh.blocked[root]
	if b == nil {
		return
	}
	for key := range sh.pids {
		if RootKey(key) == root {
			return
		}
	}
	select {
	case <-b.empty:
	default:
		close(b.empty)
	}
}

// SendTree sends m to the actors of a root and of all its sub-sessions.
func (r *Registry) SendTree(root conversation.SessionKey, m any) {
	sh := r.shard(root)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for key, pid := range sh.pids {
		if RootKey(key) == root {
			r.send(pid, m)
		}
	}
}

// Block keeps messages out of a tree until Unblock, and sends m to its actors. The
// channel is closed when the last of them was removed, which may be at once. Each
// Block needs its Unblock; a tree may be blocked more than once at a time.
func (r *Registry) Block(root conversation.SessionKey, m any) <-chan struct{} {
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
	r.SendTree(root, m)
	return b.empty
}

// Unblock ends one Block of the tree.
func (r *Registry) Unblock(root conversation.SessionKey) {
	sh := r.shard(root)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	b := sh.blocked[root]
	if b.holders--; b.holders == 0 {
		delete(sh.blocked, root)
	}
}

// SendAll sends m to every actor.
func (r *Registry) SendAll(m any) {
	for i := range r.shards {
		sh := &r.shards[i]
		sh.mu.Lock()
		for _, pid := range sh.pids {
			r.send(pid, m)
		}
		sh.mu.Unlock()
	}
}

// StopLoading has Deliver start no more actors; those that there are go on.
func (r *Registry) StopLoading() {
	for i := range r.shards {
		sh := &r.shards[i]
		sh.mu.Lock()
		sh.noSpawn = true
		sh.mu.Unlock()
	}
}

// Close ends loading and delivering for good.
func (r *Registry) Close() {
	for i := range r.shards {
		sh := &r.shards[i]
		sh.mu.Lock()
		sh.noSpawn, sh.closed = true, true
		sh.mu.Unlock()
	}
}

// Count returns the number of sessions in memory.
func (r *Registry) Count() int {
	n := 0
	for i := range r.shards {
		sh := &r.shards[i]
		sh.mu.Lock()
		n += len(sh.pids)
		sh.mu.Unlock()
	}
	return n
}
