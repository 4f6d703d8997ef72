//go:build e2e

package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
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
// More arguments are the server's: "--set", "scripted.token_delay=20ms" makes it slow enough to
// be killed in the middle of an answer. With "--set", keysMode there is a sign-in, and the script
// has three keys (check.mjs: key, otherKey, narrowKey). SDKs in Go are ordinary tests TestJudge…
//
// .ci/setup installs the SDKs that examples/package.json pins.

// keysMode is the setting that makes clients sign in.
const keysMode = "auth.mode=keys"

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
	installed, err := os.ReadFile(filepath.Join(tools, "sdks", "sum"))
	if err != nil {
		t.Skip("NOT TESTED: clients of other protocols. Their SDKs are not installed; make setup does it by npm")
	}
	if pinned := sdksSum(t); strings.Fields(string(installed))[0] != pinned {
		t.Fatal("the SDKs below .tools are others than examples/package-lock.json pins: make setup")
	}
	// A module is looked for beside the file that imports it, and above.
	if err := os.Symlink(filepath.Join(tools, "sdks", "node_modules"), filepath.Join(dir, "node_modules")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	return inGroup(exec.CommandContext(ctx, node, append([]string{filepath.Join(dir, script)}, args...)...))
}

// inGroup lets a command's end be the end of what it has started, too: a bridge or a server that
// outlives its script would hold its output open, and nobody would wait for it any more.
func inGroup(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// sdksSum is what .ci/setup writes beside the SDKs that it installs.
func sdksSum(t *testing.T) string {
	t.Helper()
	sum := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join(root, "examples", name))
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil))
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
	env := judgesKeys(t, data, args)
	l := spawn(t, data, args...)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(append(plainEnviron(), env...), "PARLEY_URL=http://"+l.addr, "PARLEY_PROGRAM="+self, "PARLEY_SERVE_VARIABLE="+serveVariable)
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
	v := hear(out, func(what string) error {
		switch what {
		case "kill":
			l.kill()
		case "stop":
			l.stop()
		case "start":
			l = spawn(t, data, append([]string{"--listen", l.addr}, args...)...)
		default:
			return fmt.Errorf("it asks for %q; there are kill, stop and start", what)
		}
		_, err := fmt.Fprintln(in)
		return err
	}, func(line string) { t.Logf("%s says: %s", name, line) })
	_ = in.Close() // one that still asks for something has no answer to wait for
	err = cmd.Wait()
	for _, wrong := range v.wrong(err, ctx.Err()) {
		t.Errorf("judge %s: %s", name, wrong)
	}
	t.Logf("judge %s: %d checks passed", name, v.passed)
}

// judgesKeys makes the keys of a judge where args ask for a sign-in, and returns the variables
// that hold them: of a user, of a user of another tenant, and one that is not good for chats.
func judgesKeys(t *testing.T, data string, args []string) []string {
	t.Helper()
	if !slices.Contains(args, keysMode) {
		return nil
	}
	var env []string
	for _, key := range []struct{ variable, user, tenant, scopes string }{
		{"PARLEY_KEY", "ann", "default", "chat,read:tools"},
		{"PARLEY_OTHER_KEY", "eve", "other", "chat,read:tools"},
		{"PARLEY_NARROW_KEY", "ann", "default", "runtime"},
	} {
		code, out, errs := run("key", "create", "--config", emptyConfig(t), "--data", data, "--user", key.user, "--tenant", key.tenant, "--scopes", key.scopes)
		if code != exitOK {
			t.Fatalf("no key: %d %s", code, errs)
		}
		env = append(env, key.variable+"="+strings.TrimSpace(out))
	}
	return env
}

// plainEnviron is this process's environment without what a parley of the person who tests is told.
func plainEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "PARLEY_") })
}

// verdict is what a judge has said.
type verdict struct {
	passed int
	failed []string
	done   bool   // it has come to its own end
	last   string // the last line that it said: where it stands when it does not come to its end
}

// hear reads what a judge prints until its end. ask does what a line "@WHAT" asks for and lets
// the judge go on; say is for what else it prints.
func hear(out io.Reader, ask func(what string) error, say func(line string)) (v verdict) {
	lines := bufio.NewScanner(out)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "ok - "); ok {
			v.passed, v.last = v.passed+1, name
		} else if why, ok := strings.CutPrefix(line, "not ok - "); ok {
			v.failed, v.last = append(v.failed, why), why
		} else if line == "@done" {
			v.done = true
		} else if what, ok := strings.CutPrefix(line, "@"); ok {
			v.last = line
			if err := ask(what); err != nil {
				v.failed = append(v.failed, err.Error())
				return v // it would wait for ever
			}
		} else {
			say(line)
		}
	}
	if err := lines.Err(); err != nil {
		v.failed = append(v.failed, "its output cannot be read: "+err.Error())
	}
	return v
}

// wrong is why a judge has not passed; exit is how its process ended, late that its time was over.
func (v verdict) wrong(exit, late error) []string {
	wrong := v.failed
	switch {
	case late != nil:
		wrong = append(wrong, fmt.Sprintf("it has not ended in %s; the last that it said: %s", judging, v.last))
	case exit != nil || !v.done:
		wrong = append(wrong, fmt.Sprintf("it has not come to its end (%v); the last that it said: %s", exit, v.last))
	case v.passed+len(v.failed) == 0:
		wrong = append(wrong, "it has checked nothing")
	}
	return wrong
}

// A judge that is cut off, that checks nothing or that asks for what there is not has not passed.
func TestJudgeVerdicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		says       string
		exit, late error
		passed     int
		wrong      string
	}{
		{says: "ok - a\nsomething\n@kill\nok - b\n@done\n", passed: 2},
		{says: "ok - a\nnot ok - b: 1, not 2\n@done\n", passed: 1, wrong: "b: 1, not 2"},
		{says: "@done\n", wrong: "checked nothing"},
		{says: "ok - a\n", passed: 1, wrong: "not come to its end (<nil>); the last that it said: a"},
		{says: "ok - a\n@done\n", exit: errors.New("exit status 1"), passed: 1, wrong: "exit status 1"},
		{says: "ok - a\n", exit: errors.New("killed"), late: context.DeadlineExceeded, passed: 1, wrong: "not ended in 3m0s; the last that it said: a"},
		{says: "ok - a\n@restart\nok - b\n@done\n", passed: 1, wrong: `asks for "restart"`},
		{says: "ok - " + strings.Repeat("a", 2<<20), wrong: "cannot be read"},
	} {
		v := hear(strings.NewReader(c.says), func(what string) error {
			if what != "kill" {
				return fmt.Errorf("it asks for %q", what)
			}
			return nil
		}, func(string) {})
		wrong := strings.Join(v.wrong(c.exit, c.late), "\n")
		if v.passed != c.passed || !strings.Contains(wrong, c.wrong) || (wrong == "") != (c.wrong == "") {
			t.Errorf("%.60q: %d passed, wrong: %q; want %d and %q", c.says, v.passed, wrong, c.passed, c.wrong)
		}
	}
}

func TestJudgeNative(t *testing.T) { judged(t, "native") }

func TestJudgeKeys(t *testing.T) { judged(t, "keys", "--set", keysMode) }

// Each example runs, and prints what it says that it prints ("prints: TEXT" in a comment; * is any
// text), against a server with the scripted model.
func TestExample(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "examples", "*"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	// Some examples start the program itself.
	program := filepath.Join(t.TempDir(), "parley")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
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
				cmd = inGroup(exec.CommandContext(ctx, "bash", path))
			default:
				cmd = inGroup(exec.CommandContext(ctx, "go", "run", "./"+name))
				cmd.Dir = filepath.Join(root, "examples")
			}
			l := spawn(t, t.TempDir())
			cmd.Env = append(plainEnviron(), "PARLEY_URL=http://"+l.addr, "PATH="+filepath.Dir(program)+string(os.PathListSeparator)+os.Getenv("PATH"))
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
		t.Error("there are no examples")
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
