package mcp

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"parley/conversation"
)

// Servers holds the configured servers and their tools.
type Servers struct {
	o       Options
	servers []*server
	once    sync.Once

	mu     sync.Mutex
	tools  []conversation.Tool
	owner  map[string]string // of each name of a tool
	opened bool              // Open has named the tools that there were
}

// Open begins to connect to all servers and waits until each has been connected
// or has failed for the first time: no longer than the longest ConnectTimeout. A
// server that fails is no error; its tools join when it comes, and Status says why.
// An error is one of the options, or ctx's; ctx bounds the opening only.
func Open(ctx context.Context, o Options) (*Servers, error) {
	s, err := prepare(o)
	if err != nil {
		return nil, err
	}
	return s, s.open(ctx)
}

func prepare(o Options) (*Servers, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Lookup == nil {
		o.Lookup = os.LookupEnv
	}
	s := &Servers{o: o, owner: map[string]string{}}
	for _, name := range o.Taken {
		s.owner[name] = "the engine"
	}
	for _, c := range o.Servers {
		server := newServer(c, &s.o)
		server.listed = func() { s.joinLate(server) }
		s.servers = append(s.servers, server)
	}
	return s, nil
}

func (s *Servers) open(ctx context.Context) error {
	for _, server := range s.servers {
		server.start()
	}
	for _, server := range s.servers {
		select {
		case <-server.firstAttempt:
		case <-ctx.Done():
			s.Close()
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, server := range s.servers {
		s.tools = append(s.tools, s.admit(server, nil)...)
	}
	s.opened = true
	return nil
}

// joinLate adds the tools of a server that were never seen in this run, after Open. The
// server's goroutine calls it when it has read the list.
func (s *Servers) joinLate(of *server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened {
		return // Open does it, in the order of the servers
	}
	joined := s.admit(of, s.o.Join)
	s.tools = append(s.tools, joined...)
	if len(joined) > 0 {
		names := make([]string, len(joined))
		for i, t := range joined {
			names[i] = t.Spec().Name
		}
		of.log.Info("tools of an MCP server have joined", "tools", names)
	}
}

// admit gives the tools that a server has now and that were never seen in this run
// their names. A tool that was seen keeps its name, its description and its schema.
func (s *Servers) admit(server *server, join func([]conversation.Tool) error) []conversation.Tool {
	has := server.unseen()
	names := sorted(has)
	// Names that need no change come first: people expect to find those.
	slices.SortStableFunc(names, func(a, b string) int {
		return changed(server.Prefix, a) - changed(server.Prefix, b)
	})
	tools, clashes := map[string]*tool{}, map[string]string{}
	for _, name := range names {
		as := toolName(server.Prefix, name)
		if s.owner[as] == server.Name {
			as = withHash(as, server.Prefix+name)
		}
		if by, taken := s.owner[as]; taken {
			clashes[name] = fmt.Sprintf("the name %s is taken by %s", as, by)
			continue
		}
		s.owner[as] = server.Name
		tools[name] = newTool(server, name, as, has[name])
	}
	var list []conversation.Tool
	for _, name := range sorted(tools) {
		list = append(list, tools[name])
	}
	if join != nil && len(list) > 0 {
		if err := join(list); err != nil {
			for name := range tools {
				clashes[name] = err.Error()
			}
			tools, list = nil, nil
		}
	}
	server.addTools(tools, clashes)
	return list
}

func changed(prefix, name string) int {
	if toolName(prefix, name) == prefix+name {
		return 0
	}
	return 1
}

// Tools returns the tools of this run so far: in the order of the servers and of their
// names, then those that joined.
func (s *Servers) Tools() []conversation.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tools)
}

// Status returns the status of each server, in the order of the configuration.
func (s *Servers) Status() []Status {
	all := make([]Status, len(s.servers))
	for i, server := range s.servers {
		all[i] = server.current()
	}
	return all
}

// Close ends calls, connections and programs, and returns when they are gone.
// Idempotent.
func (s *Servers) Close() {
	s.once.Do(func() {
		for _, server := range s.servers {
			server.cancel()
		}
		for _, server := range s.servers {
			server.close()
		}
	})
}

// loopback reports whether host is an address of this machine.
func loopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
