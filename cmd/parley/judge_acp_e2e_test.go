//go:build e2e

package main

import "testing"

// ACP, by its official SDK as the editor. A tool of an MCP server waits for an approval.
func TestJudgeACP(t *testing.T) {
	judged(t, "acp", "--config", askingTools(t), "--set", "scripted.token_delay=20ms", "--set", keysMode)
}
