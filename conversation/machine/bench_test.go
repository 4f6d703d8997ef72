package machine

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/transcript"
)

var benchStart = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func benchSession(tb testing.TB, id string) *Session {
	s := New(conversation.SessionKey{Tenant: "default", Session: conversation.SessionID(id)}, benchRules)
	if d := s.Decide(conversation.Inputs{At: benchStart}, conversation.Create{Owner: "u"}); d.Err != nil {
		tb.Fatal(d.Err)
	}
	return s
}

var benchRules = testRules()

// turn is a message and its answer: seven events.
func turn(tb testing.TB, s *Session, i int) []conversation.Event {
	at := conversation.Inputs{At: benchStart.Add(time.Duration(i) * time.Millisecond), Slot: true}
	said := s.Decide(at, conversation.Say{Author: "u", Via: conversation.ViaWebSocket, ClientMsgID: conversation.ClientMsgID(fmt.Sprintf("%016d", i)), Text: "What is the capital of France?"})
	if said.Err != nil {
		tb.Fatal(said.Err)
	}
	answered := s.Decide(at, conversation.ModelAnswered{
		Step: s.state.Step, Attempt: 1, Model: "bench", Answer: conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemText, Text: "The capital of France is Paris."}}},
	})
	if len(said.Events)+len(answered.Events) != 7 {
		tb.Fatalf("%d events", len(said.Events)+len(answered.Events))
	}
	s.Durable(s.Head())
	return append(said.Events, answered.Events...)
}

func BenchmarkSimpleTurn(b *testing.B) {
	s := benchSession(b, "s")
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		turn(b, s, i)
		i++
	}
	b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "commands/s")
}

// benchLog is a session with n turns, and its log.
func benchLog(tb testing.TB, n int) (*Session, []conversation.Event) {
	s := benchSession(tb, "s")
	log := []conversation.Event{{Seq: 1, At: benchStart, Body: conversation.SessionCreated{Agent: conversation.Coordinator, Owner: "u"}}}
	for i := range n {
		log = append(log, turn(tb, s, i)...)
	}
	return s, log
}

func BenchmarkReplay1000(b *testing.B) {
	_, log := benchLog(b, 143)
	log = log[:1000]
	b.ReportAllocs()
	for b.Loop() {
		s := New(conversation.SessionKey{Tenant: "default", Session: "s"}, benchRules)
		for _, e := range log {
			if err := s.Apply(e); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkTranscript1000(b *testing.B) {
	_, log := benchLog(b, 143)
	log = log[:1000]
	b.ReportAllocs()
	for b.Loop() {
		t := transcript.New()
		for _, e := range log {
			t.Add(e)
		}
	}
	b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkSnapshot(b *testing.B) {
	for _, turns := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("turns=%d", turns), func(b *testing.B) {
			s, _ := benchLog(b, turns)
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				size = len(snapshot(b, s))
			}
			b.ReportMetric(float64(size), "bytes")
		})
	}
}

func BenchmarkRestore(b *testing.B) {
	s, _ := benchLog(b, 100)
	data := snapshot(b, s)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Restore(s.Key(), benchRules, data); err != nil {
			b.Fatal(err)
		}
	}
}

// N-09: what a session costs in memory: after so many tasks that have ended,
// and with so many that wait.
func BenchmarkSessionBytes(b *testing.B) {
	for _, state := range []struct {
		name    string
		tasks   int
		waiting bool
	}{
		{"ended=0", 0, false}, {"ended=1", 1, false}, {"ended=100", 100, false}, {"ended=300", 300, false}, {"queued=10", 10, true}, {"queued=100", 100, true},
	} {
		b.Run(state.name, func(b *testing.B) {
			n := 10_000
			if state.tasks >= 100 {
				n /= 10 // the same figure for each, in a tenth of the time
			}
			if testing.Short() {
				n = 50 // does it still run?
			}
			var bytes float64
			for b.Loop() {
				before := heap()
				all := make([]*Session, n)
				for i := range all {
					s := benchSession(b, fmt.Sprintf("%016d", i))
					for j := range state.tasks {
						if state.waiting {
							s.Decide(conversation.Inputs{At: benchStart}, conversation.Say{Author: "u", Mode: conversation.ModeQueue, ClientMsgID: conversation.ClientMsgID(fmt.Sprintf("%016d", j)), Text: "What is the capital of France?"})
							s.Durable(s.Head())
						} else {
							turn(b, s, j)
						}
					}
					all[i] = s
				}
				bytes = float64(heap()-before) / float64(n)
				runtime.KeepAlive(all)
			}
			b.ReportMetric(bytes, "bytes/session")
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
