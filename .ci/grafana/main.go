// Command grafana writes the dashboards of metrics/grafana with Grafana's own
// builders (the Foundation SDK). It is a module of its own, so that the SDK is
// no dependency of the server; `make dashboards` runs it.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	dir := flag.String("dir", "metrics/grafana", "where the files go")
	runbook := flag.String("runbook", "/docs/OPERATIONS.md", "where docs/OPERATIONS.md is shown to your operators; the panels link to its sections")
	flag.Parse()
	files, err := generate(*runbook)
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(*dir, name), text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// generate makes all dashboards: file name to JSON.
func generate(runbook string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, b := range boards() {
		made, err := b.build(runbook)
		if err != nil {
			return nil, fmt.Errorf("dashboard %s: %w", b.uid, err)
		}
		text, err := json.MarshalIndent(made, "", "  ")
		if err != nil {
			return nil, err
		}
		if err := check(text); err != nil {
			return nil, fmt.Errorf("dashboard %s: %w", b.uid, err)
		}
		files[b.file+".json"] = append(text, '\n')
	}
	return files, nil
}

// check reads a dashboard as strictly as the SDK can: a field that Grafana does
// not know, a value of the wrong kind, and a value out of bounds are errors.
func check(text []byte) error {
	var d dashboard.Dashboard
	var list cog.BuildErrors // the SDK returns an empty list, which is not nil, when all is well
	if err := d.UnmarshalJSONStrict(bytes.TrimSpace(text)); err != nil && (!errors.As(err, &list) || len(list) > 0) {
		return err
	}
	return d.Validate()
}
