//go:build e2e

package main

import "testing"

// One session with a client of each family at once, unmodified: one order for all, a steer from
// each reaches the running task, kill -9 in mid-answer, and each resumes by its own means without a
// gap or a double (N-16).
func TestJudgeOneTruth(t *testing.T) {
	judged(t, "onetruth", "--set", "scripted.token_delay=15ms")
}
