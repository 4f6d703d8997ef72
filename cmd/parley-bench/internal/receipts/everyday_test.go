package receipts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation/machine/machinetest/everyday"
)

// TestEverydayTalks: as many of each language and kind, the same by the same seed; a
// model can read the answers in its instructions.
func TestEverydayTalks(t *testing.T) {
	drawn := func(n int, seed uint64, only string) []talk {
		talks, err := everydayTalks(n, seed, only)
		if err != nil {
			t.Fatal(err)
		}
		return talks
	}
	names := func(talks []talk) (all []string) {
		for i := range talks {
			all = append(all, talks[i].Name)
		}
		return all
	}
	talks := drawn(24, 1, "")
	n := map[string]int{}
	for _, k := range talks {
		n[k.Everyday.Language]++
		n[k.Everyday.Kind]++
		n[k.Everyday.Setting]++
		known := factsIn("You are helpful.\n\n" + k.Instructions)
		for i, u := range k.Turns {
			if known[u.Say] != "/say "+u.truth.answer {
				t.Errorf("%s: of %q the instructions say %q", k.Name, u.Say, known[u.Say])
			}
			if moment := map[string]string{steer: atStep, queue: atOnce, several: atRest}[k.Everyday.Setting]; i == 1 && u.At != moment {
				t.Errorf("%s: the second message comes at %q", k.Name, u.At)
			}
		}
		if (k.Mode == queue) != (k.Everyday.Setting == queue) || len(k.Instructions) > 2<<10 {
			t.Errorf("%s: mode %q, %d bytes of instructions", k.Name, k.Mode, len(k.Instructions))
		}
	}
	for _, what := range []string{"en", "de", "fr", "es", "ja", "zh", "alike", "unlike", "amendment", "chain", "thanks", "correction"} {
		if n[what] != 12 {
			t.Errorf("%d of %s", n[what], what)
		}
	}
	if len(talks) != 72 || n[steer] != 24 || n[queue] != 24 || n[several] != 24 {
		t.Errorf("%d are held: %v", len(talks), n)
	}
	if again := drawn(24, 1, ""); !slices.Equal(names(talks), names(again)) {
		t.Error("the same seed draws others")
	}
	if others := drawn(24, 2, ""); slices.Equal(names(talks), names(others)) {
		t.Error("another seed draws the same")
	}
	if got := names(drawn(3, 1, "de alike queue")); len(got) != 3 || !strings.HasPrefix(got[0], "de alike queue: ") {
		t.Errorf("of some only: %q", got)
	}
	whole, err := everyday.Talks()
	if err != nil {
		t.Fatal(err)
	}
	if got := len(drawn(1000, 1, "")); got != 3*len(whole) || len(drawn(0, 1, "")) > 0 || len(drawn(5, 1, "no such name")) > 0 {
		t.Errorf("of all: %d", got)
	}
	if factsIn("You are helpful.") != nil {
		t.Error("facts where there are none")
	}
}

// Everyday conversations with the real program. A model that answers each message in
// plain text has true receipts only, and is reminded of nothing, however the messages are
// sent; one that has one sentence for everything has no true one.
func TestEveryday(t *testing.T) {
	hold := func(t *testing.T, r Receipts) (of map[string]counts, table string) {
		t.Helper()
		r.Server, r.Seed, r.Runs, r.Parallel, r.Timeout, r.Only = program, 1, 1, 8, time.Minute, ": "
		var progress, shown strings.Builder
		result, err := r.judge(t.Context(), &progress)
		if err != nil {
			t.Fatalf("%v\n%s", err, progress.String())
		}
		of = map[string]counts{}
		for _, g := range result.Everyday {
			of[g.Of] = g.counts
		}
		result.table(&shown, prices{})
		if n := of[total]; len(result.Conversations) != 3*r.Everyday || n.Messages < 2*len(result.Conversations) || n.Failed > 0 {
			t.Errorf("not all was held:\n%s%s", progress.String(), shown.String())
		}
		return of, shown.String()
	}
	for name, r := range map[string]Receipts{
		"scripted": {Everyday: 12},
		"plain":    {Everyday: 24, StandIn: plain},
	} {
		t.Run(name, func(t *testing.T) {
			of, shown := hold(t, r)
			for _, setting := range []string{steer, queue, several} {
				if n := of[setting]; n.True == 0 || n.True+n.Unjudged+n.Neither != n.Messages || n.Nudges+n.Twice+n.Odd > 0 {
					t.Errorf("%s: not all is true, or something was nudged for", setting)
				}
			}
			t.Log(shown)
		})
	}
	t.Run("one sentence for everything", func(t *testing.T) {
		of, shown := hold(t, Receipts{Everyday: 6, StandIn: sentence})
		if n := of[total]; n.True > 0 || n.False == 0 || n.Twice > 0 {
			t.Errorf("some is true, or counts as an answer that was shown before:\n%s", shown)
		}
	})
}
