package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	_ "time/tzdata" // zones work on machines and in images without a zone database

	"parley/conversation"
)

// clock tells the time.
type clock struct {
	argSchema
	now func() time.Time
}

var _ conversation.Tool = clock{}

func newClock(now func() time.Time) clock {
	return clock{now: now, argSchema: newArgSchema(conversation.ToolSpec{
		Name:        "clock",
		Description: "Tells the current date and time, in UTC or in a time zone.",
		Schema: json.RawMessage(`{
			"type": "object",
			"properties": {
				"zone": {"type": "string", "maxLength": 64, "description": "A name of the IANA time zone database, such as Europe/Berlin. Without it: UTC."}
			},
			"additionalProperties": false
		}`),
		Idempotent: true,
	})}
}

func (c clock) zone(args json.RawMessage) (*time.Location, error) {
	var in struct {
		Zone string `json:"zone"`
	}
	if err := c.decode(args, &in); err != nil {
		return nil, err
	}
	if in.Zone == "Local" { // would tell where the server stands
		return nil, fmt.Errorf("zone must be a name such as Europe/Berlin")
	}
	zone, err := time.LoadLocation(in.Zone)
	if err != nil {
		return nil, fmt.Errorf("there is no time zone %q", excerpt(in.Zone))
	}
	return zone, nil
}

// Check refuses unknown zones.
func (c clock) Check(args json.RawMessage) error {
	_, err := c.zone(args)
	return err
}

// Run reads the clock.
func (c clock) Run(ctx context.Context, call conversation.ToolCall) (string, error) {
	zone, err := c.zone(call.Args)
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return c.now().In(zone).Format("Monday, 2006-01-02 15:04:05 -07:00 (") + zone.String() + ")", nil
}
