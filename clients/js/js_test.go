package js_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// N-03: the tests beside the modules, which name the ids of requirements, run in node.
func TestModules(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT TESTED: the client's modules. There is no node in PATH; their tests need node 20 or newer, nothing else")
	}
	tests, err := filepath.Glob("*.test.js")
	if err != nil || len(tests) == 0 {
		t.Fatalf("no *.test.js here (%v)", err)
	}
	// Read here as well, so that go's cached result is not used after a change.
	modules, err := filepath.Glob("*.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range modules {
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	args := append([]string{"--test", "--test-reporter=tap"}, tests...)
	out, err := exec.CommandContext(t.Context(), node, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("node --test: %v\n%s", err, out)
	}
	// A runner that found no test would be content, too.
	if !bytes.Contains(out, []byte("after a lost connection")) {
		t.Errorf("no test about a lost connection ran:\n%s", out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "# ") && !strings.HasPrefix(line, "# Subtest") {
			t.Log(strings.TrimSpace(line))
		}
	}
}
