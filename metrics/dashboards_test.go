package metrics

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Of a dashboard, what these tests look at. That it is valid is tested where it is
// generated, .ci/grafana, with Grafana's own types.
type dashboard struct {
	file       string
	UID        string
	Title      string
	Panels     []panel
	Templating struct {
		List []variable
	}
	Links []struct{ Title, URL string }
}

type variable struct {
	Name              string
	Multi, IncludeAll bool
}

type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct {
		Expr, RefID, LegendFormat string
		Exemplar, Range, Instant  bool
	}
	FieldConfig struct{ Defaults struct{ Unit string } }
	Links       []struct{ Title, URL string }
}

func dashboards(t *testing.T) []dashboard {
	t.Helper()
	files, err := filepath.Glob("grafana/*.json")
	if err != nil || len(files) != 5 {
		t.Fatalf("%d dashboards, want 5: %v", len(files), err)
	}
	var list []dashboard
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := dashboard{file: file}
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		list = append(list, d)
	}
	return list
}

// TestEverythingIsDrawn (N-14): every policy decision, nudge, resume, duplicate and refusal, and
// every other metric of parley, has a place on a dashboard.
func TestEverythingIsDrawn(t *testing.T) {
	text, err := os.ReadFile("../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	var queries strings.Builder
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				queries.WriteString(target.Expr + "\n")
			}
		}
	}
	families := regexp.MustCompile("(?m)^\\| `(parley_[a-z0-9_]+)` \\|").FindAllStringSubmatch(string(text), -1)
	if len(families) < 150 {
		t.Fatalf("only %d families in docs/METRICS.md", len(families))
	}
	for _, family := range families {
		if !regexp.MustCompile(`\b` + family[1] + `(_bucket|_count|_sum)?\b`).MatchString(queries.String()) {
			t.Errorf("%s is on no dashboard: add it to .ci/grafana/boards.go and run make dashboards", family[1])
		}
	}
}

// TestDashboards: what every dashboard and every panel must have.
func TestDashboards(t *testing.T) {
	uids := map[string]string{}
	for _, d := range dashboards(t) {
		if other := uids[d.UID]; other != "" || len(d.UID) < 8 {
			t.Errorf("%s: the uid %q is that of %q, or too short", d.file, d.UID, other)
		}
		uids[d.UID] = d.file
		for _, name := range []string{"datasource", "job", "instance", "runbook"} {
			i := slices.IndexFunc(d.Templating.List, func(v variable) bool { return v.Name == name })
			if i < 0 {
				t.Errorf("%s: no variable $%s", d.file, name)
			} else if v := d.Templating.List[i]; (name == "job" || name == "instance") && !(v.Multi && v.IncludeAll) {
				t.Errorf("%s: $%s is not for some or all", d.file, name)
			}
		}
		if len(d.Links) < 2 {
			t.Errorf("%s: no links to the other dashboards and the runbook", d.file)
		}
		for _, fault := range faults(d) {
			t.Errorf("%s: %s", d.file, fault)
		}
	}
}

// faults are the sentences about what is wrong with a dashboard's panels.
func faults(d dashboard) (list []string) {
	ids := map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		say := func(what string) { list = append(list, p.Title+": "+what) }
		if ids[p.ID] || p.ID == 0 {
			say("its id is not its own")
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.X < 0 || g.X+g.W > 24 || g.W < 1 || g.H < 1 {
			say("it is not within the grid")
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					say("it lies on " + other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || len(p.Description) < 20 || p.FieldConfig.Defaults.Unit == "" {
			say("no title, no description of what it means, or no unit")
		}
		if len(p.Targets) == 0 {
			say("no query")
		}
		for _, target := range p.Targets {
			switch e := target.Expr; {
			case strings.Contains(e, "rate(") && !regexp.MustCompile(`\[(\$__rate_interval|1h|24h)\]`).MatchString(e):
				say("a rate without $__rate_interval: " + e)
			case strings.Contains(e, "ALERTS{"): // also of what is down and has no job
			case !strings.Contains(e, `job=~"$job"`):
				say("not narrowed by $job: " + e)
			case !strings.Contains(e, `instance=~"$instance"`) && !strings.Contains(e, "job:parley_"): // recorded for a whole job
				say("not narrowed by $instance: " + e)
			case strings.Contains(e, "histogram_quantile(") && !strings.Contains(e, "_bucket{"):
				say("a quantile that is not of classic buckets: " + e)
			case strings.Contains(e, "histogram_quantile(") && strings.Contains(e, "$__rate_interval") && !target.Exemplar:
				say("a latency without exemplars: " + e)
			}
		}
	}
	return list
}

// TestKeysExist: a key of the configuration that a panel's text names is one.
func TestKeysExist(t *testing.T) {
	text, err := os.ReadFile("../config.toml")
	if err != nil {
		t.Fatal(err)
	}
	keys, section := map[string]bool{}, ""
	for line := range strings.Lines(string(text)) {
		if m := regexp.MustCompile(`^\[([a-z_.]+)\]`).FindStringSubmatch(line); m != nil {
			section = m[1]
		} else if m := regexp.MustCompile(`^(?:# )?([a-z_]+) = `).FindStringSubmatch(line); m != nil {
			keys[section+"."+m[1]] = true
		}
	}
	named := 0
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, key := range regexp.MustCompile(`\b[a-z_]+(?:\.[a-z_]+)+\b`).FindAllString(p.Description, -1) {
				if named++; !keys[key] {
					t.Errorf("%s: %s: config.toml has no key %s", d.file, p.Title, key)
				}
			}
		}
	}
	if named == 0 {
		t.Error("no text names a key")
	}
}

// TestValuesExist: a value of a label that a query asks for, or leaves out, is one that
// docs/METRICS.md lists.
func TestValuesExist(t *testing.T) {
	text, err := os.ReadFile("../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string][]string{} // by family and label
	for _, row := range regexp.MustCompile("(?m)^\\| `(parley_[a-z0-9_]+)` \\| [a-z]+ \\| ([^|]+) \\|").FindAllStringSubmatch(string(text), -1) {
		for _, label := range regexp.MustCompile("`([a-z_]+)` \\(([^)]+)\\)").FindAllStringSubmatch(row[2], -1) {
			listed[row[1]+" "+label[1]] = strings.Split(label[2], ", ")
		}
	}
	asked := 0
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				for _, series := range regexp.MustCompile(`(parley_[a-z0-9_]+?)(?:_bucket|_count|_sum)?\{([^}]*)\}`).FindAllStringSubmatch(target.Expr, -1) {
					for _, matcher := range regexp.MustCompile(`([a-z_]+)(?:=|!=|=~|!~)"([^"]*)"`).FindAllStringSubmatch(series[2], -1) {
						values, known := listed[series[1]+" "+matcher[1]]
						if !known {
							continue
						}
						for value := range strings.SplitSeq(matcher[2], "|") {
							if asked++; !slices.Contains(values, value) {
								t.Errorf("%s: %s: %s has no %s %q", d.file, p.Title, series[1], matcher[1], value)
							}
						}
					}
				}
			}
		}
	}
	if asked == 0 || len(listed) < 30 {
		t.Errorf("%d values are asked for, %d labels listed", asked, len(listed))
	}
}

// TestFaultsAreSeen: the test above can fail.
func TestFaultsAreSeen(t *testing.T) {
	for name, spoil := range map[string]func(p *panel){
		"overlap":        func(p *panel) { p.GridPos.X, p.GridPos.Y = 0, 0 },
		"beyond":         func(p *panel) { p.GridPos.X = 20; p.GridPos.W = 8 },
		"id":             func(p *panel) { p.ID = 1 },
		"no unit":        func(p *panel) { p.FieldConfig.Defaults.Unit = "" },
		"no description": func(p *panel) { p.Description = "" },
		"no job":         func(p *panel) { p.Targets[0].Expr = "parley_sessions_active" },
		"own interval":   func(p *panel) { p.Targets[0].Expr = `rate(parley_x_total{job=~"$job",instance=~"$instance"}[5m])` },
	} {
		d := dashboards(t)[0]
		if list := faults(d); len(list) != 0 {
			t.Fatal(list)
		}
		spoil(&d.Panels[1])
		if len(faults(d)) == 0 {
			t.Errorf("%s: not seen", name)
		}
	}
}
