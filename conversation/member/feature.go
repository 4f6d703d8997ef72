package member

import (
	"fmt"

	"parley/conversation"
)

// featureOf is what a program must know to read an event of a kind. A new kind gets a
// number of its own, one higher than Newest was, and so does a field of a known kind
// that older programs must not pass over; 0 = the kind has not been given one.
func featureOf(k conversation.EventKind) Feature {
	if k >= conversation.KindSessionCreated && k <= conversation.KindContextCleared {
		return 1
	}
	return 0
}

// Readable is an error if there is an event that some member could not read: it would not
// serve the session any more after that had moved there. level is the highest feature that
// all of them know; nil = there are no others.
func Readable(events []conversation.Event, level func() Feature) error {
	if level == nil {
		return nil
	}
	known := level()
	for i := range events {
		if k := events[i].Body.Kind(); featureOf(k) > known || featureOf(k) == 0 {
			return fmt.Errorf("%s needs feature %d, and a member of the cluster knows no higher one than %d", k, featureOf(k), known)
		}
	}
	return nil
}
