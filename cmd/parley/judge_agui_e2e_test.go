//go:build e2e

package main

import "testing"

// AG-UI, by @ag-ui/client and its verifier. A tool of an MCP server waits for an approval.
func TestJudgeAGUI(t *testing.T) {
	judged(t, "agui", "--set", "scripted.token_delay=10ms", "--config", askingTools(t))
}
