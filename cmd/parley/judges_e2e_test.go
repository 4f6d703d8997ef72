//go:build e2e

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The judges: official SDKs of other protocols, unmodified, as clients of the real server with
// the scripted model. Each has a script in testdata/judges, which prints a line for each thing
// that must hold ("ok - NAME" or "not ok - NAME: WHY"; see check.mjs there), and may ask the
// test to kill the server and to start it again on the same address and data. A family of
// clients adds its script and a test of one line:
//
//	func TestJudgeOpenAI(t *testing.T) { judged(t, "openai") }
//
// .ci/setup installs the SDKs that examples/package.json pins.

// judging is how long a judge may take.
const judging = 3 * time.Minute

// nodeWithSDKs is a command that runs a script of dir with node 22 or later; dir is made with
// the SDKs beside the scripts.
func nodeWithSDKs(ctx context.Context, t *testing.T, dir, script string, args ...string) *exec.Cmd {
	t.Helper()
	tools, err := filepath.Abs(filepath.Join(root, ".tools"))
	if err != nil {
		t.Fatal(err)
	}
	node := filepath.Join(tools, "node22")
	if _, err := os.Stat(node); err != nil {
		if node, err = exec.LookPath("node"); err != nil {
			t.Skip("NOT TESTED: clients of other protocols. There is no node in PATH; install: node 22 or later")
		}
		version, err := exec.CommandContext(ctx, node, "-p", "parseInt(process.versions.node)").Output()
		if n, bad := strconv.Atoi(strings.TrimSpace(string(version))); err != nil || bad != nil || n < 22 {
			t.Skipf("NOT TESTED: clients of other protocols. node is %s and must be 22 or later; make setup installs one on x86 Linux", strings.TrimSpace(string(version)))
		}
	}
	if _, err := os.Stat(filepath.Join(tools, "sdks", "sum")); err != nil {
		t.Skip("NOT TESTED: clients of other protocols. Their SDKs are not installed; make setup does it by npm")
	}
	// A module is looked for beside the file that imports it, and above.
	if err := os.Symlink(filepath.Join(tools, "sdks", "node_modules"), filepath.Join(dir, "node_modules")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	return exec.CommandContext(ctx, node, append([]string{filepath.Join(dir, script)}, args...)...)
}

// judged runs a judge against a server of its own, with more arguments for the server.
func judged(t *testing.T, name string, args ...string) {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "judges"))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), judging)
	defer cancel()
	cmd := nodeWithSDKs(ctx, t, dir, name+".mjs")
	data := t.TempDir()
	l := spawn(t, data, args...)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "PARLEY_URL=http://"+l.addr, "PARLEY_PROGRAM="+self, "PARLEY_SERVE_VARIABLE="+serveVariable)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	passed, done := 0, false
	lines := bufio.NewScanner(out)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "ok - "):
			passed++
		case strings.HasPrefix(line, "not ok - "):
			t.Errorf("%s: %s", name, strings.TrimPrefix(line, "not ok - "))
		case line == "@kill":
			l.kill()
			fmt.Fprintln(in)
		case line == "@stop":
			l.stop()
			fmt.Fprintln(in)
		case line == "@start":
			l = spawn(t, data, append([]string{"--listen", l.addr}, args...)...)
			fmt.Fprintln(in)
		case line == "@done":
			done = true
		default:
			t.Logf("%s says: %s", name, line)
		}
	}
	if err := cmd.Wait(); err != nil || !done {
		t.Errorf("%s has not come to its end: %v", name, err)
	}
	t.Logf("judge %s: %d checks passed", name, passed)
	if passed == 0 {
		t.Errorf("%s has checked nothing", name)
	}
}

func TestJudgeNative(t *testing.T) { judged(t, "native") }

// Each example runs, and prints what it says that it prints ("prints: TEXT" in a comment; * is any
// text), against a server with the scripted model.
func TestExample(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "examples", "*"))
	if err != nil {
		t.Fatal(err)
	}
	program := ""
	ran := 0
	for _, path := range files {
		name := filepath.Base(path)
		switch {
		case strings.HasSuffix(name, ".mjs"), strings.HasSuffix(name, ".sh"):
		case exists(filepath.Join(path, "main.go")):
			path = filepath.Join(path, "main.go")
		default:
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), judging)
			defer cancel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, prints, says := strings.Cut(string(text), "prints: ")
			prints, _, _ = strings.Cut(prints, "\n")
			if !says {
				t.Fatal("it does not say what it prints")
			}
			if program == "" { // some examples start the program itself
				program = filepath.Join(t.TempDir(), "parley")
				if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			dir := t.TempDir()
			var cmd *exec.Cmd
			switch filepath.Ext(path) {
			case ".mjs":
				if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
					t.Fatal(err)
				}
				cmd = nodeWithSDKs(ctx, t, dir, name)
			case ".sh":
				for _, needs := range []string{"bash", "curl"} {
					if _, err := exec.LookPath(needs); err != nil {
						t.Skipf("NOT TESTED: %s. There is no %s in PATH; install: %[2]s", name, needs)
					}
				}
				cmd = exec.CommandContext(ctx, "bash", path)
			default:
				cmd = exec.CommandContext(ctx, "go", "run", "./"+filepath.Base(filepath.Dir(path)))
				cmd.Dir = filepath.Join(root, "examples")
			}
			l := spawn(t, t.TempDir())
			cmd.Env = append(os.Environ(), "PARLEY_URL=http://"+l.addr, "PATH="+filepath.Dir(program)+string(os.PathListSeparator)+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if want := strings.TrimSpace(prints); !printed(string(out), want) {
				t.Errorf("it prints\n%s\nand should print %s", out, want)
			}
		})
	}
	if ran == 0 {
		t.Errorf("there are no examples (%s)", runtime.GOOS)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// printed is true when the pieces of want, divided by *, stand in out in that order.
func printed(out, want string) bool {
	for _, piece := range strings.Split(want, "*") {
		_, rest, found := strings.Cut(out, strings.TrimSpace(piece))
		if !found {
			return false
		}
		out = rest
	}
	return true
}
