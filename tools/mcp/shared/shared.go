package shared

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"parley/conversation"
	"parley/conversation/member"
	"parley/tools/mcp"
)

// Times of a Single.
const (
	askWait  = 15 * time.Second // a call waits so long for a node that runs the server
	longPoll = time.Minute      // a node that knows the tools asks again after it
	askPause = time.Second      // between attempts to learn the tools
	lastTime = 3 * time.Second  // what is under way may take so long when the server is to run elsewhere
)

// Hear takes what the node that runs the server says to the one that asks.
type Hear = func(ctx context.Context, body []byte) ([]byte, error)

// Back is the way to the node that asks.
type Back interface {
	Tell(body []byte)
	Ask(ctx context.Context, body []byte) ([]byte, error)
}

// Options describe the server.
type Options struct {
	MCP  mcp.Options // with this one server; its Join and OnStatus are not called
	Name string      // of the server
	// Ask asks the node that runs the server, waiting so long for one. Its error is
	// member.ErrNotRunning if nothing was done, member.ErrUnanswered if that is not known.
	Ask func(ctx context.Context, body []byte, wait time.Duration, hear Hear) ([]byte, error)
	// Join is given tools that were never seen before in this process, all or none.
	Join func([]conversation.Tool) error
}

// Single is one MCP server of all nodes. Its methods may be called from any goroutine.
type Single struct {
	o   Options
	log *slog.Logger

	mu      sync.Mutex
	servers *mcp.Servers  // nil = it does not run here, or takes no calls any more
	list    *listed       // of servers
	changed chan struct{} // closed, and made anew, when list or servers are others
	calls   int           // under way here
	quiet   chan struct{} // closed when calls is 0 and the server is to end

	seen    map[string]bool // names of tools, of Follow
	refused map[string]bool // said in the log
	learned chan struct{}
	once    sync.Once
}

// New makes a Single.
func New(o Options) *Single {
	if o.MCP.Logger == nil {
		o.MCP.Logger = slog.New(slog.DiscardHandler)
	}
	return &Single{
		o: o, log: o.MCP.Logger.With("mcp", o.Name), changed: make(chan struct{}), quiet: make(chan struct{}, 1),
		seen: map[string]bool{}, refused: map[string]bool{}, learned: make(chan struct{}),
	}
}

// Run runs the server's program until ctx ends. No other node may run it meanwhile.
func (s *Single) Run(ctx context.Context) error {
	look := make(chan struct{}, 1)
	o := s.o.MCP
	o.Join = func([]conversation.Tool) error { return nil }
	o.OnStatus = func(mcp.Status) { // it must not block, nor ask the servers
		select {
		case look <- struct{}{}:
		default:
		}
	}
	servers, err := mcp.Open(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer servers.Close()
	s.set(servers, show(current(servers)))
	for open := true; open; {
		select {
		case <-look:
			if list := show(current(servers)); list.Version != s.version() {
				s.set(servers, list)
			}
		case <-ctx.Done():
			open = false
		}
	}
	s.set(nil, nil) // calls go to the next one from now on
	if !errors.Is(context.Cause(ctx), member.ErrLeaseOver) {
		s.finish()
	}
	return nil
}

// current are the tools that the server has now.
func current(servers *mcp.Servers) []conversation.Tool {
	var gone []string
	for _, st := range servers.Status() {
		gone = append(gone, st.Gone...)
	}
	return slices.DeleteFunc(servers.Tools(), func(t conversation.Tool) bool { return slices.Contains(gone, t.Spec().Name) })
}

func (s *Single) set(servers *mcp.Servers, list *listed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers, s.list = servers, list
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Single) version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list.Version
}

// finish waits for the calls that are under way, but not long.
func (s *Single) finish() {
	over := time.NewTimer(lastTime)
	defer over.Stop()
	for {
		s.mu.Lock()
		none := s.calls == 0
		s.mu.Unlock()
		if none {
			return
		}
		select {
		case <-s.quiet: // look again
		case <-over.C:
			return
		}
	}
}

// Status is the server's where it runs; false = it does not run on this node.
func (s *Single) Status() (mcp.Status, bool) {
	s.mu.Lock()
	servers := s.servers
	s.mu.Unlock()
	if servers == nil {
		return mcp.Status{}, false
	}
	return servers.Status()[0], true
}

// enter takes a call here; nil = the server does not run here.
func (s *Single) enter() *mcp.Servers {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.servers != nil {
		s.calls++
	}
	return s.servers
}

func (s *Single) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls--; s.calls == 0 {
		select {
		case s.quiet <- struct{}{}:
		default:
		}
	}
}
