package checker

import (
	"encoding/json"
	"fmt"

	"parley/cmd/parley-bench/internal/load"
)

// passing judges a frame that has no seq, and that nobody will see again. It must not
// speak of what the client has not been shown, nor of an attempt that was replaced:
// whoever still makes that one has lost the session, or its process was replaced.
func (cl *client) passing(f *load.Frame) error {
	var e struct {
		Type, Session string
		After         uint64
		Data          struct{ Draft string }
	}
	if err := json.Unmarshal(f.Raw, &e); err != nil {
		return violationf("an ephemeral event that cannot be read: %v: %s", err, f.Raw)
	}
	if e.Session != cl.session {
		return nil // a heartbeat
	}
	if e.After > uint64(len(cl.history)) {
		return violationf("it came before seq %d, behind which it belongs: %s", e.After, f.Raw)
	}
	if e.Type != "delta" && e.Type != "draft_state" {
		return nil
	}
	var of attempt
	if n, err := fmt.Sscanf(e.Data.Draft, "%d.%d.", &of.step, &of.number); n != 2 {
		return violationf("a draft that cannot be read: %v: %s", err, f.Raw)
	}
	if newest := cl.model.newest; of.step < newest.step || of.step == newest.step && of.number < newest.number {
		return violationf("a stale frame: attempt %d of step %d has started: %s", newest.number, newest.step, f.Raw)
	}
	cl.counts["shown "+e.Type]++
	return nil
}
