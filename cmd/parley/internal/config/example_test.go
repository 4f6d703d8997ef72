package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"parley/cmd/parley/internal/config"
)

// load reads a configuration from a text.
func load(text string) (config.Config, error) {
	dir, err := os.MkdirTemp("", "parley-example-")
	if err != nil {
		return config.Config{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return config.Config{}, err
	}
	c, err := config.Load(config.Sources{Path: path, Required: true})
	if err != nil {
		err = fmt.Errorf("%s", strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""))
	}
	return c, err
}

// What the file does not say keeps its default.
func ExampleLoad() {
	c, err := load("[inbox]\nmode = \"queue\"\n")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Policy().Mode, c.Policy().MaxSteps, c.Gateway.Listen)
	// Output: queue 30 127.0.0.1:8080
}

// Everything that is wrong is said at once, each with its place.
func ExampleError() {
	_, err := load(`[inbox]
mode = "stear"
max_queud = 5
[retry]
backoff_min = "40s"
`)
	fmt.Println(err)
	// Output:
	// config.toml:2: inbox.mode = "stear": must be one of "steer", "queue", "collect", "interrupt", "reject"
	// config.toml:3: there is no key inbox.max_queud; did you mean inbox.max_queued?
	// config.toml:5: retry.backoff_min = "40s": must be at most retry.backoff_max, which is "30s"
}
