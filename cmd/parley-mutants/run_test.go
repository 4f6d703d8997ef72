package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// One mutant of each fate, against the tests of a small module; with -short only
// some, since each has to be built.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		run  string
		slow bool
		want []string // in what is printed, in this order
		err  bool
	}{
		{run: "killed-by-a-subtest", want: []string{"without a mutant: ok ./clamp", "killed ", "TestClamp/below", "clamp        1       1         0           0         0            0"}},
		{run: "survives", slow: true, err: true, want: []string{"SURVIVED", "SURVIVED: survives (clamp/clamp.go, clamp.txt:", "breaks: a number above", "- \t\treturn high"}},
		{run: "killed-by-another-package", slow: true, want: []string{"without a mutant: ok ./user", "killed ", "TestHigh"}},
		{run: "equivalent,untested", slow: true, want: []string{"equivalent", "untested", "2       0         0           1         1            0"}},
		{run: "killed-but-marked", slow: true, err: true, want: []string{"KILLED, BUT MARKED: killed-but-marked", "by: TestSum"}},
		{run: "does-not-compile,not-even-go", slow: true, err: true, want: []string{"DOES NOT COMPILE: does-not-compile", "mismatched types", "DOES NOT COMPILE: not-even-go", "syntax error", "2       0         0           0         0            2"}},
		{run: "takes-too-long", slow: true, want: []string{"killed ", "TestSum (took too long)"}},
		{run: "takes-all-memory", slow: true, want: []string{"killed ", "TestSum (the process ended)"}},
		{run: "panics,ends-the-process-elsewhere", slow: true, want: []string{"killed ", "TestSum", "killed ", "TestSum (the process ended)"}},
		{run: "fails-before-any-test", slow: true, want: []string{"killed ", "outside of a test: panic: not today"}},
		{run: "killed-by-the-named-test,killed-by-another-test", slow: true, want: []string{"killed ", "TestClamp/inside", "killed ", "TestSum"}},
		{run: "stale,twice", err: true, want: []string{"STALE OR NOT RUN: clamp.txt:", "stale: clamp/clamp.go does not have these lines any more", "twice: clamp/clamp.go has these lines 3 times"}},
	} {
		if c.slow && testing.Short() {
			continue
		}
		t.Run(c.run, func(t *testing.T) {
			before := snapshot(t)
			var out bytes.Buffer
			err := run(t.Context(), &out, os.DirFS("testdata/lists"), options{module: "testdata/module", run: c.run, parallel: 1, limit: 5 * time.Second})
			if (err != nil) != c.err {
				t.Errorf("the end is %v", err)
			}
			rest := out.String()
			for _, want := range c.want {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("%q is missing, or not in its place, in\n%s", want, out.String())
				}
				rest = after
			}
			if after := snapshot(t); after != before {
				t.Error("the module has changed")
			}
		})
	}
}

// A test that fails by itself would kill everything.
func TestRunNeedsGreenTests(t *testing.T) {
	lists := filepath.Join(t.TempDir(), "lists")
	if err := os.Mkdir(lists, 0o700); err != nil {
		t.Fatal(err)
	}
	entry := "== m\nfile: clamp/clamp.go\nbreaks: nothing\ntests: ./nowhere\n-\tsum := 0\n+\tsum := 1\n"
	if err := os.WriteFile(filepath.Join(lists, "l.txt"), []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := run(t.Context(), &out, os.DirFS(lists), options{module: "testdata/module", parallel: 1, limit: 5 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "the tests of ./nowhere fail without any mutant") {
		t.Errorf("got %v\n%s", err, out.String())
	}
}

// snapshot returns all that is in the module of the test.
func snapshot(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.Walk("testdata/module", func(name string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		all.WriteString(name + "\n" + string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// What "go test -json" says is read right where only the order of lines tells.
func TestClassify(t *testing.T) {
	for _, c := range []struct {
		name, events, stderr string
		verdict              verdict
		by                   string
	}{
		{"the first test that fails", `{"Action":"run","Test":"A"}{"Action":"fail","Test":"A"}{"Action":"fail","Test":"B"}{"Action":"fail"}`, "", killed, "A"},
		{"the end of the process", `{"Action":"run","Test":"A"}{"Action":"run","Test":"B"}{"Action":"pass","Test":"B"}{"Action":"fail"}`, "", killed, "A (the process ended)"},
		{"the time limit", `{"Action":"run","Test":"A"}{"Action":"output","Test":"A","Output":"panic: test timed out after 5s\n"}{"Action":"fail","Test":"A"}`, "", killed, "A (took too long)"},
		{"a leak that TestMain finds", `{"Action":"run","Test":"A"}{"Action":"pass","Test":"A"}{"Action":"output","Output":"goleak: leaked\n"}{"Action":"fail"}`, "", killed, "outside of a test: goleak: leaked"},
		{"the compiler", `{"Action":"build-output","Output":"# x\n"}{"Action":"build-output","Output":"x.go:1: no\n"}{"Action":"build-fail"}{"Action":"fail","FailedBuild":"x"}`, "", invalid, "x.go:1: no"},
		{"a package that is not there", ``, "go: no such package\n", invalid, "go: no such package"},
		{"nothing at all", ``, "", invalid, "no output"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if v, by := classify(strings.NewReader(c.events), c.stderr); v != c.verdict || by != c.by {
				t.Errorf("got %d, %q", v, by)
			}
		})
	}
}
