package waystest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"parley/conversation"
)

// Way measures how long a piece of text is on its way from the engine to a client: the median
// (p50-µs). The texts stream in the first task of a session; read reads what the client gets until
// it has read a word.
func (r *Rig) Way(b *testing.B, key conversation.SessionKey, read func(word string)) {
	at := 0
	show := func(word string) time.Duration {
		begun := time.Now()
		r.Sessions.Show(key, conversation.Delta{Task: conversation.TaskID("t1-" + key.Session), Draft: "1.1.0", At: at, Text: word})
		at += len(word)
		read(word)
		return time.Since(begun)
	}
	show("first-word ")
	took := make([]time.Duration, 0, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		took = append(took, show(fmt.Sprintf("word-%d. ", i)))
	}
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs")
}
