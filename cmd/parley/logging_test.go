package main

import (
	"bytes"
	"os"
	"parley/cmd/parley/internal/config"
	"path/filepath"
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
