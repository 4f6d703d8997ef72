package acp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
)

// BenchmarkWay is how long a piece of text is on its way from the engine to a client, over a real
// connection on loopback: the median (p50-µs), to be compared with those of BenchmarkWays in gateway.
func BenchmarkWay(b *testing.B) {
	r := begin(b)
	key := r.sessions.Open("S", "local")
	c := r.editor("", `{}`)
	c.prompt("p", "S", "go", "")
	c.until(`"status":"RUNNING"`)
	at := 0
	show := func(word string) time.Duration {
		begun := time.Now()
		r.sessions.Show(key, conversation.Delta{Task: "t1-S", Draft: "1.1.0", At: at, Text: word})
		at += len(word)
		for !strings.Contains(c.read(), word) {
		}
		return time.Since(begun)
	}
	show("first-word ")
	took := make([]time.Duration, 0, b.N)
	for i := range b.N {
		took = append(took, show(fmt.Sprintf("word-%d. ", i)))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs")
}
