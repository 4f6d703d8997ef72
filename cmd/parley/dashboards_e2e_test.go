//go:build e2e

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// prometheusServer is a real Prometheus, with the rules of metrics/prometheus.
type prometheusServer struct {
	t    *testing.T
	addr string
	out  *syncBuffer
}

// scrapeWith starts a Prometheus that scrapes these servers every second.
func scrapeWith(t *testing.T, servers ...*live) *prometheusServer {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no prometheus; make setup installs it")
		}
		t.Skip("NOT TESTED: the dashboards' queries. There is no prometheus in PATH; make setup installs it")
	}
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &prometheusServer{t: t, addr: port.Addr().String(), out: &syncBuffer{}}
	_ = port.Close()
	rules, err := filepath.Abs(filepath.Join(root, "metrics", "prometheus"))
	if err != nil {
		t.Fatal(err)
	}
	targets := make([]string, len(servers))
	for i, l := range servers {
		targets[i] = strconv.Quote(l.addr)
	}
	config := filepath.Join(t.TempDir(), "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [%q, %q]\nscrape_configs:\n  - job_name: parley\n    static_configs: [{targets: [%s]}]\n",
		filepath.Join(rules, "rules.yml"), filepath.Join(rules, "alerts.yml"), strings.Join(targets, ", "))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+p.addr,
		"--log.level=warn", "--enable-feature=exemplar-storage")
	cmd.Stdout, cmd.Stderr = p.out, p.out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus: %s", p.out)
		}
	})
	p.until(fmt.Sprintf(`count(up{job="parley"} == 1) == %d`, len(servers)))
	return p
}

// get asks the HTTP API and reads the data of the answer.
func (p *prometheusServer) get(path string, values url.Values, data any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "POST", "http://"+p.addr+path, strings.NewReader(values.Encode()))
	if err != nil {
		return err
	}
	if values == nil {
		request.Method, request.Body = "GET", nil
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s", answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// A series is one of a query's answer: of an instant, or of a range.
type series struct {
	Metric map[string]string
	Value  sample
	Values []sample
}

type sample struct{ At, V float64 }

func (s *sample) UnmarshalJSON(b []byte) error {
	var pair [2]any
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	s.At, _ = pair[0].(float64)
	text, _ := pair[1].(string)
	var err error
	s.V, err = strconv.ParseFloat(text, 64)
	return err
}

// query evaluates an expression now.
func (p *prometheusServer) query(expr string) ([]series, error) {
	var data struct {
		ResultType string
		Result     []series
	}
	err := p.get("/api/v1/query", url.Values{"query": {expr}}, &data)
	return data.Result, err
}

// until waits until an expression has an answer.
func (p *prometheusServer) until(expr string) {
	p.t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(patience); ; <-again.C {
		result, err := p.query(expr)
		if err == nil && len(result) > 0 {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s has no answer: %v\n%s", expr, err, p.out)
		}
	}
}

// settled waits until every server was scraped once more, from its beginning on.
func (p *prometheusServer) settled() {
	p.t.Helper()
	p.until(fmt.Sprintf(`min(timestamp(up{job="parley"})) > %.3f`, float64(time.Now().UnixMilli())/1000))
}

// A board is a dashboard of metrics/grafana, as far as it is drawn here.
type drawnBoard struct {
	file   string
	Title  string
	Panels []drawnPanel
}

type drawnPanel struct {
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	Targets                  []struct{ Expr, LegendFormat string }
	FieldConfig              struct {
		Defaults struct {
			Unit       string
			Thresholds struct {
				Steps []struct {
					Value *float64
					Color string
				}
			}
			Custom struct {
				Stacking struct{ Mode string }
			}
		}
	}
}

func drawnBoards(t *testing.T) []drawnBoard {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "metrics", "grafana", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("no dashboards", err)
	}
	var list []drawnBoard
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b := drawnBoard{file: strings.TrimSuffix(filepath.Base(file), ".json")}
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatal(err)
		}
		list = append(list, b)
	}
	return list
}

// filled puts in what Grafana puts in for its variables: all jobs, all instances.
func filled(expr, interval string) string {
	return strings.NewReplacer("$__rate_interval", interval, "$job", ".*", "$instance", ".*").Replace(expr)
}

// withoutData are the queries that may have no data here, by panel, each with the reason.
var withoutData = map[string]string{}

// TestDashboardQueries (N-14): a real Prometheus scrapes real servers under a small load of
// everything, and evaluates every query of every panel, every alert and every rule. An error fails;
// no data fails, too, because nobody can tell it from a broken query. PARLEY_QUERY_TABLE names a file
// for the table of all panels; DASHBOARD_PICTURES a folder for their pictures.
func TestDashboardQueries(t *testing.T) {
	s := newScene(t)
	p := scrapeWith(t, append([]*live{s.solo}, s.nodes...)...)
	began, rounds := time.Now(), 3 // what appears in one scrape has a rate from the next one on
	pictures := os.Getenv("DASHBOARD_PICTURES")
	if pictures != "" {
		rounds = 20 // lines want some points
	}
	for range rounds {
		s.load()
		p.settled()
	}
	p.settled()

	var table strings.Builder
	table.WriteString("| dashboard | panel | query | series | a value |\n|---|---|---|---|---|\n")
	panels, queries, quiet := 0, 0, 0
	for _, b := range drawnBoards(t) {
		for _, panel := range b.Panels {
			if panel.Type == "row" {
				continue
			}
			panels++
			for _, target := range panel.Targets {
				queries++
				result, err := p.query(filled(target.Expr, "2m"))
				some, value := 0, math.NaN()
				nothing := len(result) > 0 // but the 0 that stands for what a healthy server never does
				for _, one := range result {
					nothing = nothing && one.Value.V == 0 && slices.Contains(slices.Collect(maps.Values(one.Metric)), "none")
					if !math.IsNaN(one.Value.V) {
						some++
						if math.IsNaN(value) || one.Value.V > value {
							value = one.Value.V
						}
					}
				}
				if nothing {
					quiet++
				}
				fmt.Fprintf(&table, "| %s | %s | `%s` | %d | %.4g |\n", b.file, panel.Title, strings.ReplaceAll(target.Expr, "|", "\\|"), some, value)
				reason, excepted := withoutData[b.file+"/"+panel.Title]
				switch {
				case err != nil:
					t.Errorf("%s/%s: %s: %v", b.file, panel.Title, target.Expr, err)
				case some == 0 && !excepted:
					t.Errorf("%s/%s has no data: %s", b.file, panel.Title, filled(target.Expr, "2m"))
				case some > 0 && excepted:
					t.Logf("%s/%s has data here; it need not stand in the list (%s)", b.file, panel.Title, reason)
				}
			}
		}
	}
	t.Logf("%d panels, %d queries, %d of them have only the 0 of what did not happen\n%s", panels, queries, quiet, table.String())
	if file := os.Getenv("PARLEY_QUERY_TABLE"); file != "" {
		if err := os.WriteFile(file, []byte(table.String()), 0o644); err != nil {
			t.Error(err)
		}
	}
	p.rulesAreHealthy()
	if pictures != "" {
		p.pictures(pictures, began)
	}
}

// knownMetric is a family of parley in an expression, or what a rule has recorded.
var knownMetric = regexp.MustCompile(`\b(job:)?parley_[a-z0-9_]+(:[a-z0-9_]+)?`)

// withoutEvents are metrics that alerts read and that appear with their first event, each with the
// reason why the alert works all the same.
var withoutEvents = map[string]string{
	"parley_refusals_total":    "the names of limits are many, and the alert is about rates over minutes",
	"parley_chat_errors_total": "kinds of trouble are many, and the alert is about rates over minutes",
}

// rulesAreHealthy looks at every rule that Prometheus has loaded: it is evaluated without an
// error, and every metric that it reads is there.
func (p *prometheusServer) rulesAreHealthy() {
	p.t.Helper()
	var data struct {
		Groups []struct {
			Name  string
			Rules []struct{ Name, Query, Health, LastError, Type, State string }
		}
	}
	if err := p.get("/api/v1/rules", nil, &data); err != nil {
		p.t.Fatal(err)
	}
	var names []string
	if err := p.get("/api/v1/label/__name__/values", nil, &names); err != nil {
		p.t.Fatal(err)
	}
	alerts, records := 0, 0
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			if rule.Type == "alerting" {
				alerts++
				p.t.Logf("alert %s: %s", rule.Name, rule.State)
			} else {
				records++
				if !slices.Contains(names, rule.Name) {
					p.t.Errorf("rule %s has recorded nothing", rule.Name)
				}
			}
			if rule.Health != "ok" {
				p.t.Errorf("rule %s is %s: %s", rule.Name, rule.Health, rule.LastError)
			}
			for _, metric := range knownMetric.FindAllString(rule.Query, -1) {
				if _, excepted := withoutEvents[metric]; !excepted && !slices.Contains(names, metric) {
					p.t.Errorf("rule %s reads %s, which no server has", rule.Name, metric)
				}
			}
		}
	}
	if alerts < 30 || records < 40 {
		p.t.Errorf("%d alerts and %d recording rules are loaded", alerts, records)
	}
}
