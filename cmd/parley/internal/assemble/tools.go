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

// OpenMCP starts the configured servers; nil if there are none. join is called with the
// tools of those that come later. In a process that is not alone, those that one node of all
// runs are left to OpenSharedMCP.
func OpenMCP(ctx context.Context, c *config.Config, alone bool, own []conversation.Tool, join func([]conversation.Tool) error, look config.Lookup, log *slog.Logger) (*mcp.Servers, error) {
	o := mcpOptions(c, takenNames(c, own), look, log)
	if o.Servers = ownServers(o.Servers, alone); len(o.Servers) == 0 {
		return nil, nil
	}
	o.Join = join
	return mcp.Open(ctx, o)
}

// WatchMCP shows where the connections of this process to MCP servers stand; nil = it has none.
func WatchMCP(r prometheus.Registerer, servers *mcp.Servers, others *SharedTools) {
	if servers == nil && others == nil {
		return
	}
	metrics.WatchMCPServers(r, func() (list []metrics.MCPServer) {
		all := others.Status()
		if servers != nil {
			all = append(servers.Status(), all...)
		}
		for _, st := range all {
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
