//go:build e2e

package main

import "testing"

// The UI message stream: the package ai, as pages have it.
func TestJudgeUIStream(t *testing.T) {
	judged(t, "uistream", "--config", askingTools(t), "--set", "scripted.token_delay=15ms")
}
