package actors

import (
	"fmt"
	"testing"
	"time"

	"parley/conversation"
)

// Nothing is remembered of sources that end without a word.
func TestTallyForgetsOtherSources(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		s := &session{e: h.e, key: mainKey}
		s.tallyOf().acked["m1-"+conversation.MessageID(mainKey.Session)] = time.Now()
		for i := range 1000 {
			part := conversation.PartialResponse{}
			part.Source = conversation.SourceID(fmt.Sprint("ext:", i))
			s.observe([]conversation.Event{{Body: part}})
		}
		part := conversation.PartialResponse{}
		part.Source = "m1-" + conversation.SourceID(mainKey.Session)
		s.observe([]conversation.Event{{Body: part}, {Body: part}})
		if n := len(s.tally.parts); n != 1 || s.tally.parts[part.Source] != 2 {
			t.Errorf("%d sources are remembered, %d parts of the trigger", n, s.tally.parts[part.Source])
		}
	})
}
