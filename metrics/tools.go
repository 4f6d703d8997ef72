package metrics

import "github.com/prometheus/client_golang/prometheus"

// MCPServer is the state of a connection to an MCP server.
type MCPServer struct {
	Name     string // the configuration's
	Up       bool
	Tools    int // of this run that it has now
	Attempts int64
	Connects int64
	Calls    map[string]int64 // by outcome: a closed set
	Forms    map[string]int64 // that users were asked to fill in, by outcome: a closed set
}

// WatchMCPServers shows the state of MCP servers with every scrape.
func WatchMCPServers(r prometheus.Registerer, read func() []MCPServer) {
	type row = MCPServer
	watch(r, &rows[row]{read: read, labels: func(s row) []string { return []string{s.Name} }, columns: []column[row]{
		gaugeOf("mcp_server_up", "1 = the MCP server is connected, 0 = it is not.", func(s row) float64 {
			if s.Up {
				return 1
			}
			return 0
		}, "server"),
		gaugeOf("mcp_server_tools", "Tools of an MCP server that can be used in this run.", func(s row) float64 { return float64(s.Tools) }, "server"),
		counterOf("mcp_connection_attempts_total", "Attempts to connect to an MCP server.", func(s row) int64 { return s.Attempts }, "server"),
		counterOf("mcp_connections_total", "Attempts that succeeded; all but the first are reconnections.", func(s row) int64 { return s.Connects }, "server"),
	}})
	byOutcome := func(what column[mcpCount], of func(MCPServer) map[string]int64) {
		watch(r, &rows[mcpCount]{
			read: func() []mcpCount {
				var list []mcpCount
				for _, s := range read() {
					for outcome, n := range of(s) {
						list = append(list, mcpCount{s.Name, outcome, n})
					}
				}
				return list
			},
			labels: func(c mcpCount) []string { return []string{c.server, c.outcome} }, columns: []column[mcpCount]{what},
		})
	}
	n := func(c mcpCount) int64 { return c.n }
	byOutcome(counterOf("mcp_calls_total", "Calls of an MCP server's tools, by outcome.", n, "server", "outcome"),
		func(s MCPServer) map[string]int64 { return s.Calls })
	byOutcome(counterOf("mcp_forms_total", "What MCP servers asked users in the middle of a call, by what came of it.", n, "server", "outcome"),
		func(s MCPServer) map[string]int64 { return s.Forms })
}

// mcpCount is how often something came to an outcome at a server.
type mcpCount struct {
	server, outcome string
	n               int64
}
