package metrics

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

var rewrite = flag.Bool("rewrite", false, "write golden files instead of comparing with them")

// noting notes what is registered, and what is said of it.
type noting struct {
	prometheus.Registerer
	said       []described
	registered map[string]bool
}

func (d *noting) describe(name, kind, help string, labels []string) {
	d.said = append(d.said, described{name, kind, help, labels})
}

var fqName = regexp.MustCompile(`fqName: "([^"]+)"`)

func (d *noting) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc)
	go func() { // ends when all are described
		defer close(descs)
		c.Describe(descs)
	}()
	for desc := range descs {
		d.registered[fqName.FindStringSubmatch(desc.String())[1]] = true
	}
	return d.Registerer.Register(c)
}

func (d *noting) MustRegister(list ...prometheus.Collector) {
	for _, c := range list {
		if err := d.Register(c); err != nil {
			panic(err)
		}
	}
}

// rooms are all collectors of the program, as docs/METRICS.md has them.
var rooms = []struct {
	title, about string
	register     func(r prometheus.Registerer)
}{
	{"The program", "", func(r prometheus.Registerer) {
		Build(r, "", "")
		NewLog(r)
	}},
	{"Sessions, inbox, admission, machine, models, tools, delegates", "What the actors' room counts: commands at their answer, all else when it is durable.", func(r prometheus.Registerer) { NewActors(r) }},
	{"Models within limits, fallbacks, files, command-line agents", "The adapters count, and a scrape reads their numbers. `model` is the name of a `[models.NAME]` block.", func(r prometheus.Registerer) {
		WatchModelLimits(r, func() []ModelLimits { return nil })
		WatchModelFallbacks(r, func() []ModelFallback { return nil })
		WatchModelWindows(r, func() []ModelWindow { return nil })
		WatchModelFiles(r, func() []ModelFiles { return nil })
		WatchCommandAgents(r, func() []CommandAgent { return nil })
	}},
	{"MCP servers", "`server` is the name of an `[[mcp]]` block.", func(r prometheus.Registerer) { WatchMCPServers(r, func() []MCPServer { return nil }) }},
	{"Gateway", "Sockets, streams, HTTP, replays, sign-in and what the gateway refuses.", func(r prometheus.Registerer) { NewGateway(r) }},
	{"Attachments", "", func(r prometheus.Registerer) { NewAttachments(r) }},
	{"Lists of sessions", "", func(r prometheus.Registerer) { NewLists(r) }},
	{"Search", "", func(r prometheus.Registerer) { NewSearch(r) }},
	{"Store", "Those that tell of log files, levels, caches and compactions are the embedded store's alone.", func(r prometheus.Registerer) { NewPersistence(r) }},
	{"Backups on a schedule", "How many were made, and how many failed, is among the store's.", func(r prometheus.Registerer) { NewBackups(r) }},
	{"Traces", "Only where spans are sent to a collector.", func(r prometheus.Registerer) { NewTraces(r) }},
	{"Cluster", "On a node of a cluster only.", func(r prometheus.Registerer) { NewCluster(r) }},
	{"Channels to chat platforms", "Only with a channel. `channel` is slack, discord or telegram.", func(r prometheus.Registerer) { NewChats(r) }},
	{"Feeds and webhooks", "`webhook` is the name of a `[[chats.webhooks]]` block.", func(r prometheus.Registerer) {
		NewFeeds(r)
		NewWebhooks(r)
	}},
	{"Push notifications", "Only where something may be sent to addresses of clients (`push.hosts`).", func(r prometheus.Registerer) { NewPushes(r) }},
}

// Names, texts and labels are what dashboards and alerts are made of: they change in
// docs/METRICS.md or not at all. -rewrite writes it. N-14.
func TestGoldenDocs(t *testing.T) {
	text := new(strings.Builder)
	text.WriteString(metricsIntro)
	seen := map[string]bool{}
	for _, room := range rooms {
		d := &noting{Registerer: prometheus.NewRegistry(), registered: map[string]bool{}}
		room.register(d)
		fmt.Fprintf(text, "\n## %s\n\n", room.title)
		if room.about != "" {
			fmt.Fprintf(text, "%s\n\n", room.about)
		}
		text.WriteString("| name | type | labels | unit | meaning |\n|---|---|---|---|---|\n")
		slices.SortFunc(d.said, func(a, b described) int { return cmp.Compare(a.name, b.name) })
		for _, m := range d.said {
			if seen[m.name] {
				t.Errorf("%s is there twice", m.name)
			}
			seen[m.name] = true
			if !d.registered[m.name] {
				t.Errorf("%s is described and not registered", m.name)
			}
			delete(d.registered, m.name)
			if m.help == "" || strings.Contains(m.help, "|") || !strings.HasSuffix(m.help, ".") {
				t.Errorf("%s: the help %q is no sentence of a table", m.name, m.help)
			}
			fmt.Fprintf(text, "| `%s` | %s | %s | %s | %s |\n", m.name, m.word, labelsShown(m.labels), unitOf(m.name, m.word), m.help)
		}
		for name := range d.registered {
			t.Errorf("%s is registered and described nowhere", name)
		}
	}
	fmt.Fprintf(text, "\n%d families. The process's own (`process_…`, `go_…`) are those of the Prometheus client for Go.\n", len(seen))

	const path = "../docs/METRICS.md"
	if *rewrite {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	had := strings.Split(string(want), "\n")
	for _, line := range strings.Split(text.String(), "\n") {
		if !slices.Contains(had, line) {
			t.Errorf("new or changed: %s", line)
		}
	}
	if text.String() != string(want) {
		t.Error("docs/METRICS.md is not what the code says: go test ./metrics -rewrite")
	}
}

func labelsShown(specs []string) string {
	var shown []string
	for _, spec := range specs {
		name, values := label(spec)
		one := "`" + name + "`"
		if len(values) > 0 {
			for i, v := range values {
				if v == "" {
					values[i] = "(none)"
				}
			}
			one += " (" + strings.Join(values, ", ") + ")"
		}
		shown = append(shown, one)
	}
	return cmp.Or(strings.Join(shown, "; "), "–")
}

// unitOf is the unit that a name says, by the rules of names: base units, and _total for
// what counts.
func unitOf(name, kind string) string {
	name = strings.TrimSuffix(name, "_total")
	switch {
	case strings.HasSuffix(name, "_timestamp_seconds"):
		return "Unix time"
	case strings.HasSuffix(name, "_seconds"):
		return "s"
	case strings.HasSuffix(name, "_bytes"):
		return "bytes"
	case strings.HasSuffix(name, "_tokens"), name == "parley_model_tokens":
		return "tokens"
	case name == "parley_model_cost":
		return "currency"
	default:
		return "1"
	}
}

const metricsIntro = `# Metrics

Everything that the program counts, written by ` + "`go test ./metrics -rewrite`" + ` from the code. Names and labels are kept: a
dashboard of today draws tomorrow's server.

## How to scrape

` + "`GET /metrics`" + ` stands on the address of ` + "`admin.listen`" + `, or on the main one as docs/OPERATIONS.md says; a scrape needs a
key with the scope admin where the address does. Every 15 s is a good interval.

- **Classic and native histograms.** Each histogram has classic buckets, and with ` + "`metrics.native_histograms`" + ` (on by
  default) a native one beside them, exact to a tenth. A Prometheus of 2.40 or later sees the native ones only with
  ` + "`--enable-feature=native-histograms`" + `, and then drops the classic buckets of every histogram that has both, unless
  its scrape configuration says ` + "`always_scrape_classic_histograms: true`" + `
  (before Prometheus 3: ` + "`scrape_classic_histograms`" + `). The dashboards and rules of
  ` + "`metrics/`" + ` ask the classic ones.
- **Exemplars.** Where a span was recorded, histograms of times carry the label ` + "`trace_id`" + ` of the last one in each
  bucket. They come with the OpenMetrics format and with protobuf, which Prometheus asks for by itself, and are kept
  with ` + "`--enable-feature=exemplar-storage`" + `.
- **Labels.** No label holds a session, a user or a text. Values are those in brackets; or names of the configuration
  (model, webhook, server); or names that others choose, of which the first 100 tools and agents have series of their
  own and the rest is "other" (` + "`parley_metrics_folded_total`" + ` counts what went there). So the number of series does not
  grow with sessions, users or time; a test makes 10,000 sessions and counts them. ` + "`code`" + ` is "ok" or a code of
  docs/PROTOCOL.md. Series appear when they are first counted; those of a counter with one closed label are there from
  the start.
- **Tenants.** ` + "`metrics.tenant_label = true`" + ` gives tokens and cost of models the label ` + "`tenant`" + `: the first
  ` + "`metrics.max_tenants`" + ` names, the rest is "other". Without it the label is empty.
- **Cost.** ` + "`price = { input = 2.5, output = 10.0, cached = 0.25 }`" + ` in a model's block is what a million tokens cost, in
  any currency; the same for all blocks, or their sum means nothing. What a fallback has answered counts at the model
  that it stands in for.
- **What is left out.** What became durable is counted by the node that made it so. A duration needs a beginning: of
  what had begun before its session was loaded, only that is measured whose beginning the session still knows.
`
