package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const root = "../../.."

// need leaves a test out where a program is missing that "make setup" installs; in CI it fails.
func need(t *testing.T, program, what string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s: there is no %s in PATH", what, program)
	}
	t.Skipf("NOT TESTED: %s. There is no %s in PATH; make setup installs it", what, program)
}

// command runs a program in the project's root and returns what it writes to both streams.
func command(t *testing.T, environment []string, name string, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = root
	c.Env = append(os.Environ(), environment...)
	out, err := c.CombinedOutput()
	return string(out), err
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
