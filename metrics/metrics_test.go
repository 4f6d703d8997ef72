package metrics

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

var rewrite = flag.Bool("rewrite", false, "write golden files instead of comparing with them")

// noted notes what is registered.
type noted struct {
	prometheus.Registerer
	lines []string
}

func (d *noted) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc)
	go func() { // ends when all are noted
		defer close(descs)
		c.Describe(descs)
	}()
	for desc := range descs {
		d.lines = append(d.lines, fmt.Sprintf("%s %s", strings.TrimPrefix(fmt.Sprintf("%T", c), "*"), desc))
	}
	return d.Registerer.Register(c)
}

func (d *noted) MustRegister(list ...prometheus.Collector) {
	for _, c := range list {
		if err := d.Register(c); err != nil {
			panic(err)
		}
	}
}

// Names, texts and labels are what dashboards and alerts are made of: they change
// in testdata/names.txt or not at all. -rewrite writes it.
func TestGoldenNames(t *testing.T) {
	d := &noted{Registerer: prometheus.NewRegistry()}
	NewActors(d)
	Build(d, "")
	NewCluster(d)
	NewFeeds(d)
	NewBackups(d)
	NewSearch(d)
	NewLists(d)
	NewAttachments(d)
	NewGateway(d)
	NewPersistence(d)
	NewWebhooks(d)
	NewTraces(d)
	NewChats(d)
	WatchModelLimits(d, func() []ModelLimits { return nil })
	WatchModelFallbacks(d, func() []ModelFallback { return nil })
	WatchModelWindows(d, func() []ModelWindow { return nil })
	WatchModelFiles(d, func() []ModelFiles { return nil })
	WatchCommandAgents(d, func() []CommandAgent { return nil })
	WatchMCPServers(d, func() []MCPServer { return nil })
	slices.Sort(d.lines)
	got := strings.Join(d.lines, "\n") + "\n"
	if *rewrite {
		if err := os.WriteFile("testdata/names.txt", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/names.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range d.lines {
		if !slices.Contains(strings.Split(string(want), "\n"), line) {
			t.Errorf("new or changed: %s", line)
		}
	}
	if len(d.lines) != strings.Count(string(want), "\n") {
		t.Errorf("%d metrics, want %d", len(d.lines), strings.Count(string(want), "\n"))
	}
}
