package main

import (
	"bytes"
	"os"
	"parley/cmd/parley/internal/config"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
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
	line := regexp.MustCompile(`(?s)\.(Debug|Info|Warn|Error|Log|With)\([^\n]*"(err|cause|failure)", `)
	lines := 0
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			source, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			lines += strings.Count(string(source), `"error", `)
			if found := line.Find(source); found != nil {
				t.Errorf("%s: the key of an error is \"error\": %s", filepath.Join(p.Dir, name), found)
			}
		}
	}
	if lines < 50 {
		t.Errorf("only %d errors are looked at", lines)
	}
}
