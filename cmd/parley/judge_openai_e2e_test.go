//go:build e2e

package main

import "testing"

// The official SDK for Node, unmodified, does with sessions what it does with the API that it was
// made for (N-13).
func TestJudgeOpenAI(t *testing.T) {
	judged(t, "openai", "--set", "scripted.token_delay=15ms")
}
