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
}

// WatchMCPServers shows the state of MCP servers with every scrape.
func WatchMCPServers(r prometheus.Registerer, read func() []MCPServer) {
	type row = MCPServer
	r.MustRegister(&rows[row]{read: read, labels: func(s row) []string { return []string{s.Name} }, columns: []column[row]{
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
	type call struct {
		server, outcome string
		calls           int64
	}
	r.MustRegister(&rows[call]{
		read: func() []call {
			var list []call
			for _, s := range read() {
				for outcome, calls := range s.Calls {
					list = append(list, call{s.Name, outcome, calls})
				}
			}
			return list
		},
		labels: func(c call) []string { return []string{c.server, c.outcome} },
		columns: []column[call]{
			counterOf("mcp_calls_total", "Calls of an MCP server's tools, by outcome.", func(c call) int64 { return c.calls }, "server", "outcome"),
		},
	})
}
