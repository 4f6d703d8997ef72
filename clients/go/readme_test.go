package parley_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The program of README.md, as it stands there, in a module of its own that takes this
// package as the README says: it compiles, and one library comes with it.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```\n")
	commands, rest, _ := strings.Cut(rest, "```\n")
	_, program, _ := strings.Cut(rest, "```go\n")
	program, _, found := strings.Cut(program, "```\n")
	if !found || strings.Count(program, "\n") > 50 {
		t.Fatalf("the README has no program of at most 50 lines:\n%s", program)
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(command string) string {
		t.Helper()
		words := strings.Fields(strings.ReplaceAll(command, "../parley", root))
		c := exec.CommandContext(t.Context(), words[0], words[1:]...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOFLAGS=-mod=mod") // what this test needs was fetched for it
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return string(out)
	}
	run("go mod init example.com/mine")
	for command := range strings.Lines(commands) {
		run(command)
	}
	run("go vet .")
	got := strings.Fields(run("go list -deps -f {{if.Module}}{{.Module.Path}}{{end}} ."))
	slices.Sort(got)
	if got = slices.Compact(got); strings.Join(got, " ") != "example.com/mine github.com/coder/websocket parley" {
		t.Errorf("it takes the modules %v", got)
	}
}
