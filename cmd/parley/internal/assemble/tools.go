package assemble

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"parley/cmd/parley/internal/config"
	"parley/conversation"
	"parley/metrics"
	"parley/tools/mcp"
)

// mcpOptions is the configuration as the tools room knows it.
func mcpOptions(c *config.Config, taken []string, look config.Lookup, log *slog.Logger) mcp.Options {
	o := mcp.Options{Taken: taken, Logger: log, Lookup: look, Limits: c.MCPLimits}
	for i := range c.MCP {
		o.Servers = append(o.Servers, c.MCP[i].Options())
	}
	return o
}

// OpenMCP starts the configured servers; nil if there are none. join is called with
// the tools of those that come later.
func OpenMCP(ctx context.Context, c *config.Config, own []conversation.Tool, join func([]conversation.Tool) error, look config.Lookup, log *slog.Logger) (*mcp.Servers, error) {
	if len(c.MCP) == 0 {
		return nil, nil
	}
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
	o := mcpOptions(c, taken, look, log)
	o.Join = join
	return mcp.Open(ctx, o)
}

// WatchMCP shows where the connections to MCP servers stand.
func WatchMCP(r prometheus.Registerer, servers *mcp.Servers) {
	metrics.WatchMCPServers(r, func() (list []metrics.MCPServer) {
		for _, st := range servers.Status() {
			s := metrics.MCPServer{
				Name: st.Name, Up: st.State == mcp.StateConnected, Attempts: int64(st.Attempts), Connects: int64(st.Connects), Calls: map[string]int64{}, Forms: map[string]int64{},
			}
			if s.Up {
				s.Tools = len(st.Tools) - len(st.Gone)
			}
			for _, outcome := range mcp.Outcomes() {
				s.Calls[string(outcome)] = int64(st.Calls[outcome])
			}
			for _, outcome := range mcp.FormOutcomes() {
				s.Forms[outcome] = int64(st.Forms[outcome])
			}
			list = append(list, s)
		}
		return list
	})
}
