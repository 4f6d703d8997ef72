package assemble

import (
	"reflect"
	"slices"
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

[models.slow]
provider = "scripted"

[[agents]]
name = "tutor"
description = "Explains."
prompt = "You explain."
model = "fast"
models = ["slow", "scripted"]
`)})
	if err != nil {
		t.Fatal(err)
	}
	o := Gateway(&c, "n", "v", func(model string) string { return "label of " + model }).Offer
	if first := o.Agents[0]; first.Name != "coordinator" || first.Model != "label of " {
		t.Errorf("first %+v", first)
	}
	tutors := []protocol.OfferedAgent{
		{Name: "tutor", Description: "Explains.", Model: "label of fast"},
		{Name: "tutor@slow", Description: "Explains.", Model: "label of slow", Like: "tutor"},
		{Name: "tutor@scripted", Description: "Explains.", Model: "label of scripted", Like: "tutor"},
	}
	if last := o.Agents[len(o.Agents)-3:]; !slices.Equal(last, tutors) {
		t.Errorf("last %+v, want %+v", last, tutors)
	}
	if want := []string{"steer", "queue"}; !reflect.DeepEqual(o.Modes, want) {
		t.Errorf("modes %q, want %q", o.Modes, want)
	}
	if want := []string{"Plan my week"}; !reflect.DeepEqual(o.Starters, want) {
		t.Errorf("starters %q", o.Starters)
	}
}
