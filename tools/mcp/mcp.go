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
	tools   []conversation.Tool
	once    sync.Once
}

// Open begins to connect to all servers and waits until each has been connected
// or has failed for the first time: no longer than the longest ConnectTimeout. A
// server that fails is no error; it has no tools in this run, and Status says why.
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
	s := &Servers{o: o}
	for _, c := range o.Servers {
		s.servers = append(s.servers, newServer(c, &s.o))
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
	s.nameTools()
	return nil
}

// nameTools fixes the tools of this run and gives each its name.
func (s *Servers) nameTools() {
	owner := map[string]string{}
	for _, name := range s.o.Taken {
		owner[name] = "the engine"
	}
	for _, server := range s.servers {
		tools, clashes := map[string]*tool{}, map[string]string{}
		server.mu.Lock()
		has := server.available
		server.mu.Unlock()
		names := sorted(has)
		// Names that need no change come first: people expect to find those.
		slices.SortStableFunc(names, func(a, b string) int {
			return changed(server.Prefix, a) - changed(server.Prefix, b)
		})
		for _, name := range names {
			as := toolName(server.Prefix, name)
			if owner[as] == server.Name {
				as = withHash(as, server.Prefix+name)
			}
			if by, taken := owner[as]; taken {
				clashes[name] = fmt.Sprintf("the name %s is taken by %s", as, by)
				continue
			}
			owner[as] = server.Name
			tools[name] = newTool(server, name, as, has[name])
		}
		for _, name := range sorted(tools) {
			s.tools = append(s.tools, tools[name])
		}
		server.setTools(tools, clashes)
	}
}

func changed(prefix, name string) int {
	if toolName(prefix, name) == prefix+name {
		return 0
	}
	return 1
}

// Tools returns the tools of this run, in the order of the servers and of their names.
func (s *Servers) Tools() []conversation.Tool { return slices.Clone(s.tools) }

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
