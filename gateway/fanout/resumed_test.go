package fanout

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"parley/conversation"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
	"parley/metrics"
)

// Each follow is counted once, with the events that it had missed: also one that had missed
// none. What comes later, and what a slow client falls behind, is no resume. N-14.
func TestResumesAreMeasured(t *testing.T) {
	m := metrics.NewGateway(prometheus.NewRegistry())
	hub := NewHub(m)
	log := &storedLog{head: 5, records: []conversation.Record{record(1, 2, 3), record(4, 5)}}
	measured := func() (follows uint64, events float64, timed uint64) {
		var h, s dto.Metric
		if err := m.ResumeEvents.Write(&h); err != nil {
			t.Fatal(err)
		}
		if err := m.ResumeSeconds.Write(&s); err != nil {
			t.Fatal(err)
		}
		return h.GetHistogram().GetSampleCount(), h.GetHistogram().GetSampleSum(), s.GetHistogram().GetSampleCount()
	}
	want := func(when string, follows uint64, events float64) {
		t.Helper()
		if n, sum, timed := measured(); n != follows || sum != events || timed != follows {
			t.Errorf("%s: %d follows of %v events, %d of them timed; want %d of %v", when, n, sum, timed, follows, events)
		}
	}
	follow := func(since conversation.Seq) *Subscription {
		t.Helper()
		s, _, err := hub.Subscribe(t.Context(), log, protocol.DefaultLimits(), Options{Key: gatewaytest.Key("s1"), Values: true, Since: since})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := shown(s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	behind := follow(1)
	defer behind.Close()
	want("one that had missed four", 1, 4)
	level := follow(5)
	defer level.Close()
	want("one that was level", 2, 4)
	log.records = append(log.records, record(6, 7, 8))
	hub.Stored(behind.Key(), 1, 8)
	if seqs, err := shown(behind); err != nil || len(seqs) != 3 {
		t.Fatalf("%v, %v", seqs, err)
	}
	want("what was read from the log later", 2, 4)
}
