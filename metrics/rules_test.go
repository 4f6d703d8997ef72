package metrics

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// An alert of prometheus/alerts.yml, as its text stands there.
type alertRule struct{ name, text string }

var alertName = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)

func alertRules(t *testing.T) []alertRule {
	t.Helper()
	text, err := os.ReadFile("prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var list []alertRule
	at := alertName.FindAllSubmatchIndex(text, -1)
	for i, place := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		list = append(list, alertRule{string(text[place[2]:place[3]]), string(text[place[0]:end])})
	}
	if len(list) < 25 {
		t.Fatalf("only %d alerts", len(list))
	}
	return list
}

// TestAlertsAreWhole: each alert says how bad it is, what it is, and where its runbook
// stands; the runbook has a section for each, and none for another.
func TestAlertsAreWhole(t *testing.T) {
	text, err := os.ReadFile("../docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Alerts\n")
	if !found {
		t.Fatal("docs/OPERATIONS.md has no section Alerts")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	books := map[string]string{}
	for _, part := range strings.Split(section, "\n### ")[1:] {
		name, book, _ := strings.Cut(part, "\n")
		books[name] = book
	}
	seen := map[string]bool{}
	for _, a := range alertRules(t) {
		if seen[a.name] || !strings.HasPrefix(a.name, "Parley") {
			t.Errorf("%s: twice, or not a name of parley's", a.name)
		}
		seen[a.name] = true
		for _, want := range []string{
			`\n +for: \d+[mh]\n`, `\n +severity: (page|ticket)\n`, `\n +summary: '.*\{\{ \$labels\.`, `\n +description: '.*\{\{ \$(value|labels)`,
			`\n +runbook_url: docs/OPERATIONS\.md#` + strings.ToLower(a.name) + `\n`,
		} {
			if !regexp.MustCompile(want).MatchString(a.text) {
				t.Errorf("%s lacks %s", a.name, want)
			}
		}
		book, there := books[a.name]
		if !there {
			t.Errorf("docs/OPERATIONS.md has no section ### %s", a.name)
			continue
		}
		for _, word := range []string{"Means:", "Users see:", "First look:", "Do:"} {
			if !strings.Contains(book, "- **"+word+"** ") {
				t.Errorf("the runbook of %s does not say %q", a.name, word)
			}
		}
	}
	for name := range books {
		if !seen[name] {
			t.Errorf("docs/OPERATIONS.md explains %s, which is no alert", name)
		}
	}
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, link := range p.Links {
				if name := strings.TrimPrefix(link.Title, "Runbook: "); !seen[name] || link.URL != "${runbook}#"+strings.ToLower(name) {
					t.Errorf("%s: %s links to %s, which has no section", d.file, p.Title, link.URL)
				}
			}
		}
	}
}

// TestAlertsAreTested: in the tests for promtool each alert fires at least once, and does not
// fire at least once.
func TestAlertsAreTested(t *testing.T) {
	files, err := filepath.Glob("prometheus/tests/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal("no tests of the rules", err)
	}
	fires, quiet := map[string]int{}, map[string]int{}
	cases := regexp.MustCompile(`alertname: (\w+)\n +exp_alerts:( \[\])?\n`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range cases.FindAllStringSubmatch(string(text), -1) {
			if found[2] == "" {
				fires[found[1]]++
			} else {
				quiet[found[1]]++
			}
		}
	}
	var names []string
	for _, a := range alertRules(t) {
		names = append(names, a.name)
		if fires[a.name] == 0 || quiet[a.name] == 0 {
			t.Errorf("%s fires in %d tests and stays quiet in %d, want at least one each", a.name, fires[a.name], quiet[a.name])
		}
	}
	for name := range fires {
		if !slices.Contains(names, name) {
			t.Errorf("%s is tested and is no alert", name)
		}
	}
}

// promtool runs the tool, or says that it could not: in CI that is a failure.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no promtool; make setup installs it")
		}
		t.Skip("NOT TESTED: there is no promtool; make setup installs it")
	}
	if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args[:2], " "), err, out)
	}
}

func TestRulesAreValid(t *testing.T) {
	promtool(t, "check", "rules", "prometheus/rules.yml", "prometheus/alerts.yml")
}

// TestRules runs prometheus/tests: a file each, so that both processors work.
func TestRules(t *testing.T) {
	files, err := filepath.Glob("prometheus/tests/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal("no tests of the rules", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			promtool(t, "test", "rules", file)
		})
	}
}

// TestPromisesHaveBuckets: a promise is a bucket. Without one at its bound the rule has no data.
func TestPromisesHaveBuckets(t *testing.T) {
	r := prometheus.NewRegistry()
	a := NewActors(r)
	a.Ack.Observe(0.1)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	bounds := map[string]float64{"parley_message_ack_duration_seconds": 0.1}
	for _, family := range families {
		bound, promised := bounds[family.GetName()]
		if !promised {
			continue
		}
		delete(bounds, family.GetName())
		if !slices.ContainsFunc(family.GetMetric()[0].GetHistogram().GetBucket(), func(b *dto.Bucket) bool { return b.GetUpperBound() == bound }) {
			t.Errorf("%s has no bucket that ends at %v", family.GetName(), bound)
		}
	}
	if len(bounds) > 0 {
		t.Errorf("not there: %v", bounds)
	}
}
