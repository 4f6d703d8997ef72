//go:build e2e

package main

import "testing"

func TestJudgeACP(t *testing.T) {
	judged(t, "acp", "--set", "scripted.token_delay=20ms")
}
