package lanes

import "sync"

// Lanes are those of one socket. The zero value has none.
type Lanes struct {
	mu    sync.Mutex
	names map[string]string
	tasks map[string]*task
}

// task is one whose responses are told.
type task struct {
	by   int // so many lanes
	next map[string]bool
}

// Name keeps the name that a client has given to a response, while that is told.
func (l *Lanes) Name(response, name string) (forget func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.names == nil {
		l.names = map[string]string{}
	}
	l.names[response] = name
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.names, response)
	}
}

// NameOf is the name of a response; "" = it has none, or is not told.
func (l *Lanes) NameOf(response string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.names[response]
}

// Enter has one lane more follow a task, until it leaves. Each lane leaves once.
func (l *Lanes) Enter(id string) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tasks == nil {
		l.tasks = map[string]*task{}
	}
	t := l.tasks[id]
	if t == nil {
		t = &task{next: map[string]bool{}}
		l.tasks[id] = t
	}
	t.by++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if t.by--; t.by == 0 {
			delete(l.tasks, id)
		}
	}
}

// Claim is true for the first lane of a task that comes to the next response: that lane goes on
// with it, and the others end. Who asks has entered the task.
func (l *Lanes) Claim(id, next string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tasks[id]
	taken := t.next[next]
	t.next[next] = true
	return !taken
}
