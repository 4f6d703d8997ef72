package metrics

import (
	"fmt"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// The first names have collectors of their own, whoever comes at the same time; all others
// share one, and are counted. N-14.
func TestBounded(t *testing.T) {
	folded := prometheus.NewCounter(prometheus.CounterOpts{Name: "folded_total"})
	var made sync.Map
	b := bounded(10, folded, func(name string) *string {
		if _, twice := made.LoadOrStore(name, true); twice {
			t.Errorf("%s is made twice", name)
		}
		return &name
	})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 100 {
				name := fmt.Sprint("name-", i)
				if got := *b.Of(name); got != name && got != Other {
					t.Errorf("%s has the collectors of %s", name, got)
				}
			}
		})
	}
	all.Wait()
	n := 0
	made.Range(func(any, any) bool { n++; return true })
	var m dto.Metric
	if err := folded.Write(&m); err != nil {
		t.Fatal(err)
	}
	if n != 11 || m.GetCounter().GetValue() != 4*90 {
		t.Errorf("%d collectors are made, %v values folded; want 11 and 360", n, m.GetCounter().GetValue())
	}
	if *b.Of(Other) != Other {
		t.Error("a name that is called other has collectors of its own")
	}
	if n := testing.AllocsPerRun(100, func() { b.Of("name-0") }); n != 0 {
		t.Errorf("looking a name up takes %v allocations", n)
	}
}
