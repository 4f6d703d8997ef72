package observe

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/conversation"
	"parley/metrics"
)

// Sources that are not a task's trigger have no end, and are not remembered.
func TestOtherSourcesAreForgotten(t *testing.T) {
	env := &Env{Metrics: metrics.NewActors(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler)}
	var o Observer
	const trigger = "m1-aaaaaaaaaaaaaaaa"
	o.remember().acked[trigger] = time.Now()
	for i := range 1000 {
		part := conversation.PartialResponse{}
		part.Source = conversation.SourceID(fmt.Sprint("ext:", i))
		o.Events(env, Session{}, []conversation.Event{{Body: part}})
	}
	part := conversation.PartialResponse{}
	part.Source = trigger
	o.Events(env, Session{}, []conversation.Event{{Body: part}, {Body: part}})
	if n := len(o.tally.parts); n != 1 || o.tally.parts[trigger] != 2 {
		t.Errorf("%d sources are remembered, %d parts of the trigger", n, o.tally.parts[trigger])
	}
}
