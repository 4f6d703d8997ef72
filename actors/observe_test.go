package actors

import (
	"fmt"
	"testing"
	"time"

	"parley/conversation"
)

// Nothing is remembered of sources that end without a word.
func TestTallyForgetsOtherSources(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		s := &session{e: w.e, key: talk}
		s.tallied().acked["m1-"+conversation.MessageID(talk.Session)] = time.Now()
		for i := range 1000 {
			part := conversation.PartialResponse{}
			part.Source = conversation.SourceID(fmt.Sprint("ext:", i))
			s.note([]conversation.Event{{Body: part}})
		}
		part := conversation.PartialResponse{}
		part.Source = "m1-" + conversation.SourceID(talk.Session)
		s.note([]conversation.Event{{Body: part}, {Body: part}})
		if n := len(s.tally.parts); n != 1 || s.tally.parts[part.Source] != 2 {
			t.Errorf("%d sources are remembered, %d parts of the trigger", n, s.tally.parts[part.Source])
		}
	})
}
