package lanes

import "sync"

// Lanes are queues, one for each key that is in use. The zero value works.
type Lanes[K comparable] struct {
	mu      sync.Mutex
	waiting map[K][]func() // of keys in use
}

// Enter calls run when the key is free: at once, or from the Leave of the one before. run
// must not block; Leave must follow it, also from within.
func (l *Lanes[K]) Enter(key K, run func()) {
	l.mu.Lock()
	if l.waiting == nil {
		l.waiting = map[K][]func(){}
	}
	queue, used := l.waiting[key]
	if used {
		l.waiting[key] = append(queue, run)
		l.mu.Unlock()
		return
	}
	l.waiting[key] = nil
	l.mu.Unlock()
	run()
}

// Leave gives the key to the one that has waited longest.
func (l *Lanes[K]) Leave(key K) {
	l.mu.Lock()
	queue := l.waiting[key]
	if len(queue) == 0 {
		delete(l.waiting, key)
		l.mu.Unlock()
		return
	}
	next := queue[0]
	l.waiting[key] = queue[1:]
	l.mu.Unlock()
	next()
}

// Used is how many keys are in use.
func (l *Lanes[K]) Used() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}
