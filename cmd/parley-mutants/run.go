package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// bounds of the process of a test. A mistake may make a loop endless, also one that
// allocates; the shell's limits end it before the machine suffers.
const (
	maxMemory  = 6 << 20 // KiB of addresses
	moreToKill = time.Minute
)

// runner tests mutants of the module in a folder.
type runner struct {
	module string        // its top folder
	temp   string        // where mutated files go
	short  bool          // run the tests with -short
	limit  time.Duration // for the tests of one package
}

// verdict is what the tests said of a mutant.
type verdict int

const (
	survived verdict = iota // every test passed
	killed                  // a test failed
	invalid                 // nothing was tested: it does not compile
)

// outcome is the verdict with what led to it.
type outcome struct {
	mutant  mutant
	verdict verdict
	by      string // the test that failed first, or what the compiler said
	took    time.Duration
}

// try tests one mutant: first with the test that is known to notice, then with all
// tests of the packages one after the other, until one fails. An error says that
// the entry is stale or that nothing could be run.
func (r runner) try(ctx context.Context, m mutant) (outcome, error) {
	began := time.Now()
	overlay, err := r.overlay(m)
	if err != nil {
		return outcome{}, err
	}
	result := outcome{mutant: m}
	runs := []string{""}
	if m.by != "" {
		runs = []string{m.by, ""}
	}
tests:
	for _, only := range runs {
		for _, pkg := range m.packages {
			result.verdict, result.by, err = r.test(ctx, pkg, overlay, only)
			if err != nil || result.verdict != survived {
				break tests
			}
		}
	}
	result.took = time.Since(began)
	return result, err
}

// overlay writes the mutated file and the file that puts it in place of the real
// one, and returns the name of the latter.
func (r runner) overlay(m mutant) (string, error) {
	real := filepath.Join(r.module, filepath.FromSlash(m.file))
	text, err := os.ReadFile(real)
	if err != nil {
		return "", fmt.Errorf("%s: %s: %w", m.where, m.id, err)
	}
	changed, err := m.apply(string(text))
	if err != nil {
		return "", err
	}
	file := filepath.Join(r.temp, m.id+".go")
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {real: file}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(r.temp, m.id+".json")
	return name, os.WriteFile(name, list, 0o600)
}

// test runs the tests of one package, or only one of them, mutated if an overlay is
// named. The command "go vet" is left out: it is not a test, and CI runs it on real
// code.
func (r runner) test(ctx context.Context, pkg, overlay, only string) (verdict, string, error) {
	args := []string{"test", "-json", "-vet=off", "-count=1", "-failfast", "-timeout", r.limit.String(),
		"-exec", fmt.Sprintf(`sh -c 'ulimit -v %d && ulimit -t %d && exec "$0" "$@"'`, maxMemory, int((2*r.limit + moreToKill).Seconds()))}
	if r.short {
		args = append(args, "-short")
	}
	if only != "" {
		args = append(args, "-run", pattern(only))
	}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	command := exec.CommandContext(ctx, "go", append(args, pkg)...)
	command.Dir = r.module
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) } // go stops the test with itself
	command.WaitDelay = moreToKill
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.Output()
	if err == nil {
		return survived, "", nil
	}
	if ctx.Err() != nil {
		return survived, "", ctx.Err()
	}
	v, by := classify(bytes.NewReader(stdout), stderr.String())
	return v, by, nil
}

// pattern is the argument of -run for exactly one test, or one part of it.
func pattern(test string) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// testEvent is a line of "go test -json".
type testEvent struct {
	Action, Test, Output, FailedBuild string
}

// classify says why a run of "go test -json" failed: which test failed first, or
// was running when the process ended, or what the compiler said.
func classify(events io.Reader, stderr string) (verdict, string) {
	var (
		running  []string // the tests that have begun and not ended, the latest last
		output   string   // what was printed outside of any test
		built    = true
		timedOut bool
	)
	dec := json.NewDecoder(events)
	for {
		var e testEvent
		if err := dec.Decode(&e); err != nil {
			break // the end, or not JSON: what we have has to do
		}
		timedOut = timedOut || strings.HasPrefix(e.Output, "panic: test timed out")
		switch e.Action {
		case "run":
			running = append(running, e.Test)
		case "pass", "skip":
			running = without(running, e.Test)
		case "fail":
			built = built && e.FailedBuild == ""
			if e.Test != "" && !timedOut {
				return killed, e.Test
			}
		case "build-fail":
			built = false
		case "output", "build-output":
			if e.Test == "" {
				output += e.Output
			}
		}
	}
	output = strings.TrimSpace(output + stderr)
	switch {
	case !built || strings.Contains(output, "[setup failed]") || strings.Contains(output, "[build failed]"):
		return invalid, firstLine(output)
	case timedOut && len(running) > 0:
		return killed, running[len(running)-1] + " (took too long)"
	case len(running) > 0:
		return killed, running[len(running)-1] + " (the process ended)"
	case output == "" || strings.HasPrefix(output, "go: "):
		return invalid, firstLine(output)
	default:
		return killed, "outside of a test: " + firstLine(output)
	}
}

func without(names []string, name string) []string {
	var left []string
	for _, n := range names {
		if n != name {
			left = append(left, n)
		}
	}
	return left
}

// firstLine returns the first line that says something: "# package" does not.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return "no output"
}
