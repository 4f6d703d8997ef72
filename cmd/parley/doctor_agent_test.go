package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/cmd/parley/internal/config"
)

// Doctor says what an agent's program can reach beyond its directory, and asks nothing
// of it.
func TestDoctorOfAgents(t *testing.T) {
	dir := t.TempDir()
	asked := filepath.Join(dir, "asked")
	program := filepath.Join(dir, "agent")
	key := filepath.Join(dir, "real.key")
	for path, text := range map[string]string{program: "#!/bin/sh\ntouch " + asked + "\n", key: realKey} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	block := func(more string) string {
		return "[models.agent]\nprovider = \"command\"\n" + more + `
[models.real]
provider = "openai"
model = "m"
base_url = "http://127.0.0.1:1/v1"
key_file = "` + key + `"
headers = { "X-Token" = "env:OTHER_TOKEN" }
`
	}
	for name, c := range map[string]struct {
		block string
		who   account
		want  []string // parts of the notes, in order
	}{
		"the server's user":     {"command = \"sh\"\ndir = \"/\"\ninherit = [\"OTHER_TOKEN\"]", account{}, []string{"can read CONFIG, DATA, " + key + ": run it as a user of its own"}},
		"root":                  {"command = \"sh\"\ndir = \"/\"\ninherit = [\"OTHER_TOKEN\"]", account{true, true}, []string{"it runs as root"}},
		"everything":            {"command = \"sh\"", account{}, []string{"does not inherit OTHER_TOKEN", "can read CONFIG", "the server's own directory"}},
		"another user":          {"command = \"/usr/bin/sudo\"\ninherit = [\"OTHER_TOKEN\"]", account{}, []string{"cannot stop what sudo runs as another user: give it CAP_KILL"}},
		"another user, as told": {"command = \"sudo\"\ninherit = [\"OTHER_TOKEN\"]", account{mayKill: true}, nil},
		"an enclosure":          {"command = \"bwrap\"\ninherit = [\"OTHER_TOKEN\"]", account{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, block(c.block))
			data := t.TempDir()
			loaded, err := config.Load(config.Sources{Path: path, Required: true, Data: data})
			if err != nil {
				t.Fatal(err)
			}
			got := agentNotes(&loaded, loaded.Block("agent"), path, c.who)
			if len(got) != len(c.want) {
				t.Fatalf("it says\n%s", strings.Join(got, "\n"))
			}
			for i, want := range c.want {
				want = strings.NewReplacer("CONFIG", path, "DATA", data).Replace(want)
				if !strings.Contains(got[i], want) {
					t.Errorf("it says\n%s\nnot\n%s", got[i], want)
				}
			}
		})
	}
	path := write(t, block("command = \""+program+"\""))
	code, out, _ := run("doctor", "--offline", "--config", path, "--listen", "127.0.0.1:0", "--data", t.TempDir())
	if code != exitOK || !strings.Contains(out, "ok  model agent") || !strings.Contains(out, "-   model agent   it works in the server's own directory") {
		t.Errorf("code %d\n%s", code, out)
	}
	if _, err := os.Stat(asked); err == nil {
		t.Error("the program was run")
	}
}
