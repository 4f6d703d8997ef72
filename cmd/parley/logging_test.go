package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/internal/config"
)

func TestLogFormats(t *testing.T) {
	for format, want := range map[string]string{"auto": `"msg":"hello"`, "json": `"msg":"hello"`, "text": "INF hello"} {
		var b bytes.Buffer
		log := newLogger(&b, config.Log{Level: "info", Format: format})
		log.Debug("unseen")
		log.Info("hello")
		if !strings.Contains(b.String(), want) || strings.Contains(b.String(), "unseen") {
			t.Errorf("%s: %q", format, b.String())
		}
	}
}

// A duration is written as the configuration has it, whatever the format.
func TestLogDurations(t *testing.T) {
	for format, want := range map[string]string{"json": `"timeout":"10s"`, "text": "timeout=10s"} {
		var b bytes.Buffer
		newLogger(&b, config.Log{Level: "info", Format: format}).Info("draining", "timeout", 10*time.Second)
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: %q", format, b.String())
		}
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Errors stand under one key of the log, so that one question finds them all.
func TestHouseErrorKey(t *testing.T) {
	const sample = "package p\nfunc f() {\n\tlog.Warn(\"it failed\", \"code\", code(1),\n\t\t\"took\", took,\n\t\t\"cause\",\n\t\terr)\n\tlog.Warn(\"cause\")\n}\n"
	if found := otherErrorKeys(t, "sample.go", []byte(sample)); !slices.Equal(found, []string{`sample.go:5:3: "cause"`}) {
		t.Errorf("of a key in a later line of a call: %v", found)
	}
	lines := 0
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines += strings.Count(string(source), `"error", `)
			for _, found := range otherErrorKeys(t, path, source) {
				t.Errorf("the key of an error is \"error\": %s", found)
			}
		}
	}
	if lines < 50 {
		t.Errorf("only %d errors are looked at", lines)
	}
}

// otherErrorKeys finds other keys of errors in the calls of a logger.
func otherErrorKeys(t *testing.T, name string, source []byte) (found []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"Debug", "Info", "Warn", "Error", "Log", "With"}, f.Sel.Name) {
			return true
		}
		for _, arg := range call.Args[:max(len(call.Args)-1, 0)] { // a value follows a key
			if text, ok := arg.(*ast.BasicLit); ok && slices.Contains([]string{`"err"`, `"cause"`, `"failure"`}, text.Value) {
				found = append(found, files.Position(text.Pos()).String()+": "+text.Value)
			}
		}
		return true
	})
	return found
}
