package nodes

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"parley/cmd/parley-bench/internal/load"
)

// node is one member of a cluster, over all its processes.
type node struct {
	name string
	dir  string
	set  func(run int) []string // its settings; run numbers its processes from 1
	path string                 // the program

	mu     sync.Mutex
	run    int
	live   *process // nil while there is none
	thawed time.Time
}

// process is one run of a node.
type process struct {
	server  *load.Server
	began   time.Time
	frozen  bool
	ending  bool          // somebody has ended it, or its end is right
	ended   chan struct{} // closed when it has
	code    int           // its exit code, then
	endedAt time.Time
}

// newNode makes the directory of a node. config is what its config.toml holds.
func newNode(base, name, path, config string, set func(run int) []string) (*node, error) {
	dir := filepath.Join(base, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	n := &node{name: name, dir: dir, set: set, path: path}
	return n, os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600)
}

// start starts a process. Its log is a file in the node's directory. over is told of an
// end that nobody has asked for.
func (n *node) start(over func(error)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.live != nil {
		return fmt.Errorf("%s runs already", n.name)
	}
	n.run++
	log, err := os.Create(n.logFile(n.run))
	if err != nil {
		return err
	}
	s, err := load.Launch{Path: n.path, Data: filepath.Join(n.dir, "data"), Set: n.set(n.run), Log: log}.Start()
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", n.name, err), log.Close())
	}
	p := &process{server: s, began: time.Now(), ended: make(chan struct{})}
	n.live = p
	run := n.run
	go func() {
		code := s.Wait()
		log.Close()
		n.mu.Lock()
		p.code, p.endedAt = code, time.Now()
		asked := p.ending
		if n.live == p {
			n.live = nil
		}
		close(p.ended)
		n.mu.Unlock()
		if !asked {
			over(violationf("%s ended by itself with code %d; %s", n.name, code, n.logFile(run)))
		}
	}()
	return nil
}

func (n *node) logFile(run int) string { return filepath.Join(n.dir, "log-"+strconv.Itoa(run)) }

// now is the node's process; nil if there is none.
func (n *node) now() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.live
}

// addr is where it takes clients; "" = nowhere. A frozen one still looks as if it did.
func (n *node) addr() string {
	if p := n.now(); p != nil {
		return p.server.Addr
	}
	return ""
}

// current is its address if it is not frozen, was not lately, and is not about to end.
func (n *node) current(lately time.Duration) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.live == nil || n.live.frozen || n.live.ending || time.Since(n.thawed) < lately {
		return ""
	}
	return n.live.server.Addr
}

// endable says that the end of the process is right from now on.
func (n *node) endable() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.live != nil {
		n.live.ending = true
	}
	return n.live
}

// kill ends it with kill -9.
func (n *node) kill() {
	if p := n.endable(); p != nil {
		_ = p.server.Signal(os.Kill)
		_ = p.server.Signal(syscall.SIGCONT)
		<-p.ended
	}
}

// freeze stops the process where it is.
func (n *node) freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.live != nil {
		n.live.frozen = true
		_ = n.live.server.Signal(syscall.SIGSTOP)
	}
}

// thaw lets it go on.
func (n *node) thaw() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.live != nil {
		n.live.frozen = false
		n.thawed = time.Now()
		_ = n.live.server.Signal(syscall.SIGCONT)
	}
	return n.live
}

// endsWithin waits for the end of a process, and wants the exit code.
func (n *node) endsWithin(p *process, d time.Duration, code int, why string) (time.Duration, error) {
	began := time.Now()
	select {
	case <-p.ended:
	case <-time.After(d):
		return d, violationf("%s still runs %s after %s", n.name, d, why)
	}
	if p.code != code {
		return 0, violationf("%s ended with code %d after %s, it must be %d", n.name, p.code, why, code)
	}
	return p.endedAt.Sub(began), nil
}

// broken is a promise that the cluster did not keep.
type broken struct{ what string }

func (b *broken) Error() string { return b.what }

func violationf(format string, args ...any) error { return &broken{fmt.Sprintf(format, args...)} }

// anyOf picks one of the addresses that are not ""; "" if all are.
func anyOf(random *rand.Rand, addrs []string) string {
	var there []string
	for _, a := range addrs {
		if a != "" {
			there = append(there, a)
		}
	}
	if len(there) == 0 {
		return ""
	}
	return there[random.IntN(len(there))]
}
