package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oasdiff/yaml"
)

// composed is what compose-go, the reader of docker compose, makes of compose.yaml.
type composed struct {
	Services map[string]struct {
		Image       string
		Environment map[string]string
		Ports       []struct {
			HostIP    string `json:"host_ip"`
			Published string
		}
		Volumes []struct {
			Type, Source, Target string
			ReadOnly             bool `json:"read_only"`
		}
		StopGrace string `json:"stop_grace_period"`
		DependsOn map[string]struct{ Condition string }
		Check     struct{ Test []string } `json:"healthcheck"`
	}
	Volumes map[string]any
}

// compose.yaml is one by the schema and the rules of docker compose itself, reaches no further than this
// machine, and mounts what is there.
func TestCompose(t *testing.T) {
	out, err := command(t, nil, "go", "tool", "-modfile=.ci/compose/go.mod", "cmd", "-format", "json", "compose.yaml")
	var c composed
	at := strings.Index(out, "{")
	if err != nil || at < 0 {
		t.Fatalf("compose-go does not take compose.yaml: %v\n%s", err, out)
	}
	if err := json.Unmarshal([]byte(out[at:]), &c); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"parley", "prometheus", "grafana"} {
		s, ok := c.Services[name]
		if !ok || len(s.Ports) == 0 {
			t.Errorf("there is no %s, or nobody reaches it", name)
			continue
		}
		_, tag, _ := strings.Cut(s.Image, ":")
		if tag == "" || tag == "latest" {
			t.Errorf("%s: the image %s has no version", name, s.Image)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is published at %q, not at 127.0.0.1", name, p.Published, p.HostIP)
			}
		}
		for key, value := range s.Environment {
			if strings.Contains(strings.ToUpper(key), "PASSWORD") || strings.Contains(strings.ToUpper(key), "SECRET") {
				t.Errorf("%s: %s=%s is a secret that all installations would share", name, key, value)
			}
		}
		if name != "parley" && len(s.Check.Test) == 0 { // parley's is in its image
			t.Errorf("%s has no health check", name)
		}
		for on, how := range s.DependsOn {
			if how.Condition != "service_healthy" {
				t.Errorf("%s begins before %s is healthy", name, on)
			}
		}
		for _, v := range s.Volumes {
			if v.Type == "volume" {
				if _, ok := c.Volumes[v.Source]; !ok {
					t.Errorf("%s: there is no volume %s", name, v.Source)
				}
				continue
			}
			if !v.ReadOnly {
				t.Errorf("%s may write to %s", name, v.Source)
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("there is no %s", v.Source)
			}
		}
	}
	if c.Services["parley"].StopGrace != "45s" { // drain.timeout 10 s, closing 15 s, letGo 15 s, and some
		t.Errorf("parley has %s for its end, want 45s", c.Services["parley"].StopGrace)
	}
}

// Prometheus itself takes its configuration, with the rules.
func TestComposePrometheus(t *testing.T) {
	need(t, "promtool", "the Prometheus of compose.yaml")
	rules, err := filepath.Abs(filepath.Join(root, "metrics", "prometheus"))
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, "prometheus", "prometheus.yml")
	here := strings.ReplaceAll(text, "/etc/prometheus/rules/", rules+"/")
	if here == text {
		t.Fatal("prometheus.yml reads no rules from where compose.yaml mounts them")
	}
	path := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := os.WriteFile(path, []byte(here), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := command(t, nil, "promtool", "check", "config", path); err != nil {
		t.Errorf("promtool check config: %v\n%s", err, out)
	}
}

// Grafana finds the data source and the dashboards where compose.yaml mounts them.
func TestComposeGrafana(t *testing.T) {
	var sources struct {
		Datasources []struct{ UID, Type, URL string }
	}
	if _, err := yaml.Unmarshal([]byte(read(t, "grafana", "provisioning", "datasources", "prometheus.yaml")), &sources, yaml.DecodeOpts{}); err != nil {
		t.Fatal(err)
	}
	if len(sources.Datasources) != 1 || sources.Datasources[0].UID != "prometheus" || sources.Datasources[0].Type != "prometheus" || sources.Datasources[0].URL != "http://prometheus:9090" {
		t.Errorf("the data sources are %+v", sources)
	}
	var boards struct {
		Providers []struct {
			Type    string
			Options struct{ Path string }
		}
	}
	if _, err := yaml.Unmarshal([]byte(read(t, "grafana", "provisioning", "dashboards", "parley.yaml")), &boards, yaml.DecodeOpts{}); err != nil {
		t.Fatal(err)
	}
	if len(boards.Providers) != 1 || boards.Providers[0].Type != "file" || !strings.Contains(read(t, root, "compose.yaml"), "./metrics/grafana:"+boards.Providers[0].Options.Path+":ro") {
		t.Errorf("the dashboards are read from %+v, and mounted elsewhere", boards)
	}
}
