package assemble

import (
	"reflect"
	"testing"

	"parley/cmd/parley/internal/config"
	"parley/gateway/protocol"
)

// What clients may choose from is what is configured: every agent with its model's label, the
// modes that messages are allowed, the starters.
func TestOffer(t *testing.T) {
	c, err := config.Load(config.Sources{Required: true, Path: write(t, `
inbox.mode = "queue"
inbox.allowed_modes = ["steer"]
page.starters = ["Plan my week"]

[models.fast]
provider = "scripted"

[[agents]]
name = "tutor"
description = "Explains."
prompt = "You explain."
model = "fast"
`)})
	if err != nil {
		t.Fatal(err)
	}
	o := Gateway(&c, "n", "v", func(model string) string { return "label of " + model }).Offer
	if first := o.Agents[0]; first.Name != "coordinator" || first.Model != "label of " {
		t.Errorf("first %+v", first)
	}
	if last, want := o.Agents[len(o.Agents)-1], (protocol.OfferedAgent{Name: "tutor", Description: "Explains.", Model: "label of fast"}); last != want {
		t.Errorf("last %+v, want %+v", last, want)
	}
	if want := []string{"steer", "queue"}; !reflect.DeepEqual(o.Modes, want) {
		t.Errorf("modes %q, want %q", o.Modes, want)
	}
	if want := []string{"Plan my week"}; !reflect.DeepEqual(o.Starters, want) {
		t.Errorf("starters %q", o.Starters)
	}
}
