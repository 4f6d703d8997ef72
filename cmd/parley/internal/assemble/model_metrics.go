package assemble

import (
	"github.com/prometheus/client_golang/prometheus"
	"maps"
	"slices"

	"parley/cmd/parley/internal/config"
	"parley/metrics"
)

// Models and tools know no metrics: they count, and what they have counted is
// read here with every scrape. Labels are names of the configuration.

// Measured is r, for collectors that the configuration has chosen.
func Measured(c *config.Config, look config.Lookup, r prometheus.Registerer) prometheus.Registerer {
	o := c.Metrics
	o.DefaultModel, _ = c.DefaultModel(look)
	o.Prices = map[string]metrics.Price{}
	for _, b := range c.Models {
		o.Prices[b.Name], _ = metrics.ReadPrice(b.Price) // it was checked
	}
	return metrics.With(r, o)
}

// Watch shows what the models of a run have counted.
func (s *Models) Watch(r prometheus.Registerer) {
	metrics.WatchModelLimits(r, func() (list []metrics.ModelLimits) {
		for _, name := range sortedKeys(s.limited) {
			n := s.limited[name].Stats()
			list = append(list, metrics.ModelLimits{
				Model: name, Running: n.Running, Waiting: n.Waiting, Calls: n.Calls, Waited: n.Waited, GaveUp: n.GaveUp,
			})
		}
		return list
	})
	metrics.WatchModelFallbacks(r, func() (list []metrics.ModelFallback) {
		for _, name := range sortedKeys(s.fallbacks) {
			f := s.fallbacks[name]
			for i, n := range f.route.Fallbacks() {
				list = append(list, metrics.ModelFallback{Model: name, Fallback: f.names[i], Calls: n.Calls, Answers: n.Answers})
			}
		}
		return list
	})
	metrics.WatchModelWindows(r, func() (list []metrics.ModelWindow) {
		for _, name := range sortedKeys(s.windows) {
			n := s.windows[name].Stats()
			list = append(list, metrics.ModelWindow{Model: name, Cut: n.Cut, Over: n.Over})
		}
		return list
	})
	metrics.WatchModelFiles(r, func() (list []metrics.ModelFiles) {
		for _, name := range sortedKeys(s.given) {
			n := s.given[name].Stats()
			for _, one := range []struct {
				outcome string
				files   int64
			}{
				{"picture", n.Pictures}, {"text", n.Texts}, {"text_cut", n.Cut}, {"unseen", n.Unseen},
				{"no_room", n.NoRoom}, {"too_large", n.TooLarge}, {"gone", n.Gone}, {"refused", n.Refused},
			} {
				list = append(list, metrics.ModelFiles{Model: name, Outcome: one.outcome, Files: one.files})
			}
		}
		return list
	})
	metrics.WatchCommandAgents(r, func() (list []metrics.CommandAgent) {
		for _, name := range sortedKeys(s.commands) {
			n := s.commands[name].Stats()
			list = append(list, metrics.CommandAgent{
				Model: name, Running: n.Running, Waiting: n.Waiting, Started: n.Started, Failed: n.Failed,
				Timeouts: n.Timeouts, Kills: n.Kills, Strays: n.Strays, Cut: n.Cut,
			})
		}
		return list
	})
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
