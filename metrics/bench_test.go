package metrics

import (
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// What it costs to observe: classic buckets alone, with a native histogram beside them, and
// with an exemplar.
func BenchmarkObserve(b *testing.B) {
	for _, c := range []struct {
		name   string
		native bool
		trace  string
	}{{"classic", false, ""}, {"native", true, ""}, {"native with exemplar", true, "4bf92f3577b34da6a3ce929d0e0e4736"}} {
		b.Run(c.name, func(b *testing.B) {
			h := NewActors(With(prometheus.NewRegistry(), Options{NativeHistograms: c.native})).Ack
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 1; pb.Next(); i++ {
					Observe(h, float64(i%1000)/1000, c.trace)
				}
			})
		})
	}
}

// Looking collectors up by names that others choose, as each turn does.
func BenchmarkBounded(b *testing.B) {
	m := NewActors(prometheus.NewRegistry())
	names := make([]string, 16)
	for i := range names {
		names[i] = "model-" + strconv.Itoa(i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.Models.Of(names[i%len(names)]).Spent("acme", 10, 2, 0)
	}
}

// A scrape of all series of the actors' room.
func BenchmarkGather(b *testing.B) {
	for _, native := range []bool{false, true} {
		b.Run("native "+strconv.FormatBool(native), func(b *testing.B) {
			r := prometheus.NewRegistry()
			m := NewActors(With(r, Options{NativeHistograms: native}))
			for i := range 10_000 {
				m.Ack.Observe(float64(i) / 1000)
				m.Models.Of("a").Called("ok", float64(i)/100, "")
			}
			for b.Loop() {
				if _, err := r.Gather(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
