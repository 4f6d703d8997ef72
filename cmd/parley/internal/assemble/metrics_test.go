package assemble

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"parley/cmd/parley/internal/config"
	"parley/metrics"
)

// What a model costs is what its block says of a million tokens; one that says nothing has
// no series, and what is no price is refused. N-14.
func TestPriceOfModel(t *testing.T) {
	const blocks = "[model]\ndefault = \"dear\"\n[models.dear]\nprovider = \"scripted\"\nprice = { input = 2, output = 10.5, cached = 0.25 }\n[models.free]\nprovider = \"scripted\"\n"
	c, err := config.Load(config.Sources{Path: write(t, blocks), Required: true})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	m := metrics.NewActors(Measured(&c, func(string) (string, bool) { return "", false }, registry))
	m.Models.Of("dear").Spent("acme", 1_000_000, 1_000_000, 400_000)
	m.Models.Of("").Spent("acme", 1_000_000, 0, 0) // of agents that have the default model
	m.Models.Of("free").Spent("acme", 1_000_000, 1_000_000, 0)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "parley_model_cost_total" {
			if n := len(family.GetMetric()); n != 1 {
				t.Errorf("%d series of cost, want that of the model with a price", n)
			}
			if cost := family.GetMetric()[0].GetCounter().GetValue(); cost < 13.799 || cost > 13.801 { // 0.6 × 2 + 0.4 × 0.25 + 10.5, and 2
				t.Errorf("it has cost %v, want 13.8", cost)
			}
		}
	}
	for _, price := range []string{`{ input = -1 }`, `{ inptu = 1 }`, `{ output = "2" }`, `{ output = nan }`} {
		_, err := config.Load(config.Sources{Path: write(t, "[models.dear]\nprovider = \"scripted\"\nprice = "+price+"\n"), Required: true})
		if err == nil || !strings.Contains(err.Error(), "price") {
			t.Errorf("price = %s: %v", price, err)
		}
	}
}
