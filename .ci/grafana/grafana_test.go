package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var committed = filepath.Join("..", "..", "metrics", "grafana")

var runbook = flag.String("runbook", "/docs/OPERATIONS.md", "the address in the committed files")

// TestCommittedIsGenerated: nobody edits the JSON by hand, and nobody forgets `make dashboards`.
func TestCommittedIsGenerated(t *testing.T) {
	files, err := generate(*runbook)
	if err != nil {
		t.Fatal(err)
	}
	there, err := filepath.Glob(filepath.Join(committed, "*.json"))
	if err != nil || len(there) != len(files) {
		t.Errorf("%d files are committed, %d are generated (%v)", len(there), len(files), err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(committed, name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the generator makes: run make dashboards", name)
		}
	}
}

// TestCommittedIsValid reads what is committed as Grafana's own types do, strictly.
func TestCommittedIsValid(t *testing.T) {
	there, _ := filepath.Glob(filepath.Join(committed, "*.json"))
	if len(there) == 0 {
		t.Fatal("no dashboard is committed")
	}
	for _, path := range there {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(text); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestBrokenIsRefused: the check sees the mistakes that a hand makes.
func TestBrokenIsRefused(t *testing.T) {
	files, err := generate(*runbook)
	if err != nil {
		t.Fatal(err)
	}
	whole := files["channels.json"]
	if err := check(whole); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(d map[string]any){
		"a field that Grafana does not know": func(d map[string]any) { d["colour"] = "red" },
		"an unknown field of a panel":        func(d map[string]any) { firstPanel(d)["descripton"] = "x" },
		"a panel without a type":             func(d map[string]any) { delete(firstPanel(d), "type") },
		"a title that is a number":           func(d map[string]any) { firstPanel(d)["title"] = 7 },
		"a query that is a number": func(d map[string]any) {
			firstPanel(d)["targets"].([]any)[0].(map[string]any)["expr"] = 7
		},
		"an unknown field of a query": func(d map[string]any) {
			firstPanel(d)["targets"].([]any)[0].(map[string]any)["expresion"] = "up"
		},
		"an unknown kind of line": func(d map[string]any) {
			firstPanel(d)["fieldConfig"].(map[string]any)["defaults"].(map[string]any)["custom"].(map[string]any)["showPoints"] = 3
		},
	} {
		var d map[string]any
		if err := json.Unmarshal(whole, &d); err != nil {
			t.Fatal(err)
		}
		change(d)
		broken, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(broken); err == nil {
			t.Errorf("%s passes", name)
		} else {
			t.Logf("%s: %s", name, strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
}

// firstPanel is the first one that is no row.
func firstPanel(d map[string]any) map[string]any {
	for _, p := range d["panels"].([]any) {
		if p := p.(map[string]any); p["type"] != "row" {
			return p
		}
	}
	return nil
}
