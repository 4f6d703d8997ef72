package service

import (
	"sync"
	"time"

	"parley/conversation"
)

// Watcher is an Authenticator whose credentials can be taken back while they are used.
type Watcher interface {
	// Watch calls ended, on a goroutine of its own, when the credential of p is taken back.
	// stop ends the watch; it does not wait for a call of ended. A nil stop says that the
	// credential was taken back already: then ended is not called.
	Watch(p *Principal, ended func()) (stop func())
}

// The two ends of a lease.
var (
	ErrTokenExpired = &conversation.Error{Code: conversation.TokenExpired, Message: "the token has expired"}
	ErrRevoked      = &conversation.Error{Code: conversation.Unauthenticated, Message: "the credential is not valid any more"}
)

// Lease is a principal with an end: the moment its credential expires, or is taken back.
// Whatever lives longer than one short request (a socket, a stream, ?wait, a claim) holds
// one, and is told at that moment.
type Lease struct {
	now     func() time.Time
	watcher Watcher // nil = credentials are never taken back
	ended   func(*conversation.Error)

	mu    sync.Mutex
	who   *Principal
	round int // of Renew: what an earlier round says does not count
	timer *time.Timer
	stop  func()
	over  *conversation.Error
	done  bool // ended was called, or Release
}

// Lease begins a lease of p. ended is called once, on a goroutine of its own, with
// ErrTokenExpired or ErrRevoked; never after Release has returned, so it must not wait for
// what calls Release. A lease that is over from the beginning does not call it: who asks
// for one looks at Over.
func (s *Services) Lease(p *Principal, ended func(*conversation.Error)) *Lease {
	l := &Lease{now: s.Now, ended: ended}
	l.watcher, _ = s.Auth.(Watcher)
	l.Renew(p)
	return l
}

// Renew goes on with another credential of the same user, with its scopes and its end. If
// that one is over already, so is the lease.
func (l *Lease) Renew(p *Principal) {
	l.mu.Lock()
	if l.done {
		l.mu.Unlock()
		return
	}
	l.forget()
	first := l.round == 0
	l.who = p
	l.round++
	round := l.round
	over := l.isOver()
	if over == nil && !p.Expires.IsZero() {
		l.timer = time.AfterFunc(p.Expires.Sub(l.now()), func() { l.end(round, ErrTokenExpired) })
	}
	l.mu.Unlock()
	var stop func()
	if over == nil && l.watcher != nil && p.Credential != "" {
		if stop = l.watcher.Watch(p, func() { l.end(round, ErrRevoked) }); stop == nil {
			over = ErrRevoked
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case over != nil && !l.done:
		l.done, l.over = true, over
		l.forget()
		if !first {
			go l.ended(over)
		}
	case stop != nil && l.round == round && !l.done:
		l.stop = stop
	case stop != nil:
		stop()
	}
}

// forget ends the timer and the watch. The caller holds mu.
func (l *Lease) forget() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if l.stop != nil {
		l.stop()
		l.stop = nil
	}
}

func (l *Lease) end(round int, why *conversation.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done || l.round != round {
		return
	}
	l.done, l.over = true, why
	l.forget()
	l.ended(why)
}

// Over says why the lease has ended; nil = it has not. It looks at the clock: a timer
// that is late, because the machine slept, lets nothing through.
func (l *Lease) Over() *conversation.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isOver()
}

// isOver is Over. The caller holds mu.
func (l *Lease) isOver() *conversation.Error {
	if l.over == nil && !l.who.Expires.IsZero() && !l.now().Before(l.who.Expires) {
		return ErrTokenExpired
	}
	return l.over
}

// Principal is whose lease it is now.
func (l *Lease) Principal() *Principal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.who
}

// Release ends the lease without a word.
func (l *Lease) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = true
	l.forget()
}
