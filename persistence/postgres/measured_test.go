package postgres

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"parley/conversation"
	"parley/metrics"
)

// A scrape tells how busy the connections are, and how long reads take. N-14.
func TestStoreIsMeasured(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := openOn(t, prepared(t), func(o *StoreOptions) { o.Metrics, o.Connections = metrics.NewPersistence(registry), 8 })
	values := func() map[string]float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				name := family.GetName()
				for _, l := range m.GetLabel() {
					name += " " + l.GetValue()
				}
				got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		return got
	}
	if _, err := s.Head(t.Context(), conversation.SessionKey{Tenant: "acme", Session: "none"}); err == nil {
		t.Fatal("there is a session")
	}
	held, err := s.reading.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := values()
	held.Release()
	for name, want := range map[string]float64{
		"parley_store_reads_total head": 1, "parley_store_read_seconds head": 1,
		"parley_store_pool_connections_in_use reading": 1, "parley_store_pool_connections_in_use acquiring": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	most := got["parley_store_pool_connections_most committing"] + got["parley_store_pool_connections_most acquiring"] + got["parley_store_pool_connections_most reading"]
	if most != 8 {
		t.Errorf("the pools have %v connections at most, want all 8", most)
	}
}
