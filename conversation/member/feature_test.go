package member

import (
	"testing"

	"parley/conversation"
)

// Every kind of event has a feature, none a higher one than this program can read, and an
// event is refused while a member does not know its feature.
func TestFeatures(t *testing.T) {
	for _, k := range conversation.EventKinds() {
		if f := featureOf(k); f == 0 || f > Newest {
			t.Errorf("%s has the feature %d; the newest is %d", k, f, Newest)
		}
	}
	if featureOf(99) != 0 {
		t.Error("a kind that does not exist has a feature")
	}
	events := []conversation.Event{{Body: conversation.SessionClosed{}}}
	for level, wrong := range map[Feature]bool{0: true, 1: false, 2: false} {
		if err := Readable(events, func() Feature { return level }); (err != nil) != wrong {
			t.Errorf("level %d: %v", level, err)
		}
	}
	if err := Readable(events, nil); err != nil {
		t.Error(err)
	}
}
