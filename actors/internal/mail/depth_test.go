package mail

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// A mailbox tells behind each message that counts how many such wait. N-14.
func TestDepth(t *testing.T) {
	depth := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "depth", Buckets: []float64{0, 1, 2, 3}})
	entered, goOn := make(chan struct{}), make(chan struct{})
	props := actor.PropsFromFunc(func(c actor.Context) {
		switch m := c.Message().(type) {
		case string:
			if m == "first" {
				close(entered)
				<-goOn
			}
		}
	}, actor.WithMailbox(Counting(depth, func(m any) bool { _, ok := m.(string); return ok })))
	system := actor.NewActorSystem()
	pid := system.Root.Spawn(props)
	system.Root.Send(pid, "first")
	<-entered
	for range 3 {
		system.Root.Send(pid, "command")
		system.Root.Send(pid, 1) // counts not
	}
	close(goOn)
	if err := system.Root.PoisonFuture(pid).Wait(); err != nil { // behind all that was sent
		t.Fatal(err)
	}
	var m dto.Metric
	if err := depth.Write(&m); err != nil {
		t.Fatal(err)
	}
	if h := m.GetHistogram(); h.GetSampleCount() != 4 || h.GetSampleSum() != 3+2+1+0 {
		t.Errorf("%d commands have left %v behind them, want 4 and 6", h.GetSampleCount(), h.GetSampleSum())
	}
}
