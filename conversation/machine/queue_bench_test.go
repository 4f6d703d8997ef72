package machine

import (
	"fmt"
	"testing"

	"parley/conversation"
)

// What a message and a task cost while so many others wait: one is accepted, one ends
// and the next one starts.
func BenchmarkQueued(b *testing.B) {
	for _, queued := range []int{1, 100, 500, 1000, 2000} {
		b.Run(fmt.Sprintf("waiting=%d", queued), func(b *testing.B) {
			rules := testRules()
			rules.Policy.MaxQueued = 2 * queued
			s := New(conversation.SessionKey{Tenant: "default", Session: "s"}, rules)
			s.Decide(conversation.Inputs{At: benchStart}, conversation.Create{Owner: "u"})
			i := 0
			say := func() {
				i++
				d := s.Decide(conversation.Inputs{At: benchStart, Slot: true}, conversation.Say{
					Author: "u", Via: conversation.ViaWebSocket, ClientMsgID: conversation.ClientMsgID(fmt.Sprintf("%016d", i)), Text: "What is the capital of France?", Mode: conversation.ModeQueue,
				})
				if d.Err != nil {
					b.Fatal(d.Err)
				}
			}
			for range queued + 1 {
				say()
			}
			b.ReportAllocs()
			for b.Loop() {
				say()
				d := s.Decide(conversation.Inputs{At: benchStart, Slot: true}, conversation.ModelAnswered{
					Step: s.state.Step, Attempt: 1, Model: "bench", Answer: conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemText, Text: "The capital of France is Paris."}}},
				})
				if len(d.Events) != 6 {
					b.Fatalf("%d events", len(d.Events))
				}
				s.Durable(s.Head())
			}
		})
	}
}
