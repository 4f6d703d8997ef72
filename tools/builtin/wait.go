package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"parley/conversation"
)

// maxWait bounds a wait; its timeout is a little longer, so that the longest
// wait is not cut off by the default of tools.timeout.
const (
	maxWait     = 60 * time.Second
	waitTimeout = maxWait + 10*time.Second
)

// wait lets time pass.
type wait struct{ argSchema }

var _ conversation.Tool = wait{}

func newWait() wait {
	return wait{newArgSchema(conversation.ToolSpec{
		Name:        "wait",
		Description: "Waits for a while, at most 60 seconds, and then says so.",
		Schema: json.RawMessage(`{
			"type": "object",
			"properties": {
				"duration": {"type": "string", "maxLength": 32, "description": "How long, with units: 500ms, 5s, 1m. At most 60s."}
			},
			"required": ["duration"],
			"additionalProperties": false
		}`),
		Idempotent: true,
		Timeout:    waitTimeout,
	})}
}

func (w wait) duration(args json.RawMessage) (time.Duration, error) {
	var in struct {
		Duration string `json:"duration"`
	}
	if err := w.decode(args, &in); err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(in.Duration)
	switch {
	case err != nil:
		return 0, fmt.Errorf("duration must be a number with a unit, such as 5s, not %q", excerpt(in.Duration))
	case d < 0 || d > maxWait:
		return 0, fmt.Errorf("duration must be between 0s and %s", maxWait)
	}
	return d, nil
}

// Check refuses waits that are too long.
func (w wait) Check(args json.RawMessage) error {
	_, err := w.duration(args)
	return err
}

// Run waits, or ends with ctx.
func (w wait) Run(ctx context.Context, call conversation.ToolCall) (string, error) {
	d, err := w.duration(call.Args)
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil { // a short timer could win against it
		return "", err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-timer.C:
		return "waited " + d.String(), nil
	}
}
