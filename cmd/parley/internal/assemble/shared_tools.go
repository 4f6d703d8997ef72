package assemble

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"parley/actors/cluster"
	"parley/cmd/parley/internal/config"
	"parley/conversation"
	"parley/tools/mcp"
	"parley/tools/mcp/shared"
)

// learnTime is how long a start waits for the tools of servers that run on other nodes.
const learnTime = 3 * time.Second

// ClusterNode is what SharedTools need of the cluster; *cluster.Node fits.
type ClusterNode interface {
	Singleton(s cluster.Singleton) error
	Ask(ctx context.Context, name string, body []byte, wait time.Duration, hear cluster.Hear) ([]byte, error)
	Elsewhere(name string) bool
}

// SharedTools are the MCP servers of which one node of all runs each (singleton = true). A nil
// one has none.
type SharedTools struct {
	servers []*shared.Single
	names   []string // of the singletons
	nodes   ClusterNode
	end     context.CancelFunc
	work    sync.WaitGroup
}

// OpenSharedMCP lets this node run them, when they are its, and begins to learn their tools,
// which are given to join. It waits a moment for those of servers that run elsewhere. others
// are the tools that this node has already. nil = there are none.
func OpenSharedMCP(ctx context.Context, c *config.Config, nodes ClusterNode, others []conversation.Tool, join func([]conversation.Tool) error, look config.Lookup, log *slog.Logger) (*SharedTools, error) {
	following, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &SharedTools{nodes: nodes, end: end}
	for i := range c.MCP {
		server := c.MCP[i].Options()
		if !server.Singleton {
			continue
		}
		name := "mcp:" + server.Name
		o := mcpOptions(c, takenNames(c, others), look, log)
		o.Servers = []mcp.Server{server}
		one := shared.New(shared.Options{
			MCP: o, Name: server.Name, Join: join,
			Ask: func(ctx context.Context, body []byte, wait time.Duration, hear shared.Hear) ([]byte, error) {
				return nodes.Ask(ctx, name, body, wait, hear)
			},
		})
		if err := nodes.Singleton(cluster.Singleton{
			Name: name, Run: one.Run,
			Answer: func(ctx context.Context, body []byte, back cluster.Back) ([]byte, bool) {
				return one.Answer(ctx, body, back)
			},
		}); err != nil {
			s.Close()
			return nil, err
		}
		s.servers, s.names = append(s.servers, one), append(s.names, name)
		s.work.Go(func() { one.Follow(following) })
	}
	if len(s.servers) == 0 {
		end()
		return nil, nil
	}
	s.learn(ctx)
	return s, nil
}

// learn waits for the tools that a node which runs their server can show now.
func (s *SharedTools) learn(ctx context.Context) {
	over := time.NewTimer(learnTime)
	defer over.Stop()
	for i, one := range s.servers {
		if !s.nodes.Elsewhere(s.names[i]) {
			continue // it begins here, later
		}
		select {
		case <-one.Learned():
		case <-over.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Status is that of the servers which this node runs.
func (s *SharedTools) Status() (all []mcp.Status) {
	if s == nil {
		return nil
	}
	for _, one := range s.servers {
		if st, here := one.Status(); here {
			all = append(all, st)
		}
	}
	return all
}

// Close ends the learning. The servers end with the cluster's node.
func (s *SharedTools) Close() {
	if s != nil {
		s.end()
		s.work.Wait()
	}
}

// takenNames are names that no tool of a server may have.
func takenNames(c *config.Config, own []conversation.Tool) []string {
	taken := []string{
		conversation.ToolRespond, conversation.ToolAsk, conversation.ToolDelegate, conversation.ToolDelegateParallel,
		conversation.ToolAmend, conversation.ToolCover,
	}
	for _, t := range own {
		taken = append(taken, t.Spec().Name)
	}
	for _, a := range c.Agents {
		taken = append(taken, conversation.DelegateAlias(conversation.AgentName(a.Name)))
	}
	return taken
}

// ownServers are the servers that every process runs for itself: all, if it is alone.
func ownServers(servers []mcp.Server, alone bool) []mcp.Server {
	return slices.DeleteFunc(servers, func(s mcp.Server) bool { return s.Singleton && !alone })
}
