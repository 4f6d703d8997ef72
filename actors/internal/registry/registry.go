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
	spawn  func(key conversation.SessionKey, rootIsHere bool, first ...any) *actor.PID
	send   func(*actor.PID, any)
	most   int // messages that wait for the end of one actor
	seed   maphash.Seed
	shards [64]shard
}

type shard struct {
	mu      sync.RWMutex // for reading by who delivers to an actor that is there
	pids    map[conversation.SessionKey]*actor.PID
	below   map[conversation.SessionKey]map[conversation.SessionKey]*actor.PID // by root: those of pids that are sub-sessions
	leaving map[conversation.SessionKey]*departure                             // actors that have left and have not ended
	blocked map[conversation.SessionKey]*blockade                              // by root: trees that must not be reached now
	noSpawn bool                                                               // no session is loaded any more
	closed  bool                                                               // nothing is delivered any more
}

// departure is the end of an actor: from Leave to Left. Its session has no other
// actor meanwhile, so what is told to it waits here.
type departure struct {
	pid      *actor.PID
	returned []any // what was in the actor's mailbox: told before it left
	since    []any // told since
}

// blockade keeps messages out of a tree.
type blockade struct {
	holders int
	empty   chan struct{} // closed when the last actor of the tree has left
}

// New makes a registry that starts the actor of a session with spawn, which puts the
// first messages into its mailbox before the actor begins to read the session, and puts
// later ones there with send. Both are called while a lock is held: they must not block
// and must not call the registry. spawn gives nil if it cannot, and is told whether the
// root of the session's tree is in memory. At most so many messages
// wait for the end of one actor.
func New(spawn func(key conversation.SessionKey, rootIsHere bool, first ...any) *actor.PID, send func(*actor.PID, any), most int) *Registry {
	r := &Registry{spawn: spawn, send: send, most: most, seed: maphash.MakeSeed()}
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
// session that is not in memory, or keeps m for it while the last one is ending. False:
// it was not delivered, because there is no actor, because the tree is blocked, because
// too much waits already, or because the registry is closed.
func (r *Registry) Deliver(key conversation.SessionKey, m any, load bool) bool {
	sh := r.shard(key)
	if r.deliverNow(sh, key, m) {
		return true
	}
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
		if d := sh.leaving[key]; d != nil {
			if len(d.since) >= r.most {
				return false
			}
			d.since = append(d.since, m)
			return true
		}
		return r.start(sh, key, m)
	}
	r.send(pid, m)
	return true
}

// deliverNow puts m into the mailbox of a session that is in memory, as nearly all are
// that are told something. Those who deliver do not wait for each other: waking a mailbox
// may take a system call, and on a busy machine its processor may be taken away meanwhile.
func (r *Registry) deliverNow(sh *shard, key conversation.SessionKey, m any) bool {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	pid := sh.pids[key]
	if pid == nil || sh.closed || sh.blocked[RootKey(key)] != nil {
		return false
	}
	r.send(pid, m)
	return true
}

// start starts the actor of a session with its first messages; false if it cannot. The
// caller holds mu.
func (r *Registry) start(sh *shard, key conversation.SessionKey, first ...any) bool {
	pid := r.spawn(key, sh.pids[RootKey(key)] != nil, first...)
	if pid == nil {
		return false
	}
	sh.pids[key] = pid
	if root := RootKey(key); root != key {
		if sh.below == nil {
			sh.below = map[conversation.SessionKey]map[conversation.SessionKey]*actor.PID{}
		}
		if sh.below[root] == nil {
			sh.below[root] = map[conversation.SessionKey]*actor.PID{}
		}
		sh.below[root][key] = pid
	}
	return true
}

// Actor is the session's actor; nil while the session is not in memory, or leaves it.
func (r *Registry) Actor(key conversation.SessionKey) *actor.PID {
	sh := r.shard(key)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return sh.pids[key]
}

// Leave takes an ending actor out: nothing is delivered to it afterwards, and its
// session gets no other actor until it has Left. It does nothing if the actor is not
// the session's.
func (r *Registry) Leave(key conversation.SessionKey, pid *actor.PID) {
	sh := r.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.pids[key] != pid {
		return
	}
	delete(sh.pids, key)
	root := RootKey(key)
	if below := sh.below[root]; below != nil {
		if delete(below, key); len(below) == 0 {
			delete(sh.below, root)
		}
	}
	if sh.leaving == nil {
		sh.leaving = map[conversation.SessionKey]*departure{}
	}
	sh.leaving[key] = &departure{pid: pid}
	sh.cleared(root)
}

// Return takes a message back that was delivered to an actor before it left. The
// session's next actor gets it, before everything that was told since. False: the actor
// is not leaving.
func (r *Registry) Return(key conversation.SessionKey, pid *actor.PID, m any) bool {
	sh := r.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	d := sh.leaving[key]
	if d == nil || d.pid != pid {
		return false
	}
	d.returned = append(d.returned, m)
	return true
}

// Left takes the end of an actor that has left, after which it returns nothing more.
// If something waits, the session's next actor is started with it. What cannot be
// delivered, because no session is loaded now or the tree is blocked, is handed to the
// caller.
func (r *Registry) Left(key conversation.SessionKey, pid *actor.PID) (undelivered []any) {
	sh := r.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	d := sh.leaving[key]
	if d == nil || d.pid != pid {
		return nil
	}
	delete(sh.leaving, key)
	waiting := append(d.returned, d.since...)
	if len(waiting) == 0 {
		return nil
	}
	if sh.noSpawn || sh.blocked[RootKey(key)] != nil || !r.start(sh, key, waiting...) {
		return waiting
	}
	return nil
}

// cleared closes a blockade's channel when no actor of its tree is left. The
// caller holds mu.
func (sh *shard) cleared(root conversation.SessionKey) {
	b := sh.blocked[root]
	if b == nil || sh.pids[root] != nil || len(sh.below[root]) > 0 {
		return
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
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	if pid := sh.pids[root]; pid != nil {
		r.send(pid, m)
	}
	for _, pid := range sh.below[root] {
		r.send(pid, m)
	}
}

// Block keeps messages out of a tree until Unblock, and sends m to its actors. The
// channel is closed when the last of them has left, which may be at once. Each
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

// Where is the actors of the sessions whose root is chosen, and how many such sessions are
// leaving memory besides. No lock is held while it chooses: others deliver meanwhile, and some of
// the actors may have left.
func (r *Registry) Where(choose func(root conversation.SessionKey) bool) (pids []*actor.PID, leaving int) {
	type one struct {
		key conversation.SessionKey
		pid *actor.PID
	}
	var all []one
	for i := range r.shards {
		sh := &r.shards[i]
		all = all[:0]
		sh.mu.RLock()
		for key, pid := range sh.pids {
			all = append(all, one{key, pid})
		}
		for key := range sh.leaving {
			all = append(all, one{key: key})
		}
		sh.mu.RUnlock()
		for _, one := range all {
			switch {
			case !choose(RootKey(one.key)):
			case one.pid == nil:
				leaving++
			default:
				pids = append(pids, one.pid)
			}
		}
	}
	return pids, leaving
}

// SendAll sends m to every actor.
func (r *Registry) SendAll(m any) {
	pids, _ := r.Where(func(conversation.SessionKey) bool { return true })
	for _, pid := range pids {
		r.send(pid, m)
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

// Count returns the number of sessions in memory, with those that are leaving it.
func (r *Registry) Count() int {
	n := 0
	for i := range r.shards {
		sh := &r.shards[i]
		sh.mu.RLock()
		n += len(sh.pids) + len(sh.leaving)
		sh.mu.RUnlock()
	}
	return n
}
