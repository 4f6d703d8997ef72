//go:build e2e

package main

import "testing"

// N-16: the official SDK of A2A, over both of its bindings, with push notifications.
func TestJudgeA2A(t *testing.T) {
	judged(t, "a2a", "--config", askingTools(t), "--set", keysMode, "--set", "scripted.token_delay=20ms", "--set", `push.hosts=["127.0.0.1"]`, "--set", "push.private=true")
}

// The protocol's own test kit is another judge.
func TestJudgeA2AKit(t *testing.T) {
	t.Skip("NOT RUN: a2a-tck, the test kit of A2A: no package registry has it, and it wants an agent that does what its message ids say")
}
