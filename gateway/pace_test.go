package gateway

import (
	"testing"
	"time"

	"parley/gateway/service"
)

// The listener makes what has more time than all others come at a pace. That is an upload, and
// never a client of a socket, however long that may be silent.
func TestOnlyUploadsComeAtAPace(t *testing.T) {
	for _, silence := range []time.Duration{35 * time.Second, 90 * time.Second, time.Hour} {
		times := service.Times{ReadDeadline: silence}
		if others := othersTime(times); others < silence || others < otherRequests {
			t.Errorf("with a read deadline of %s others have %s", silence, others)
		}
	}
}
