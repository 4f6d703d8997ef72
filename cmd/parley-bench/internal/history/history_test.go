package history

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func whole() map[string]float64 {
	counts := map[string]float64{}
	for _, b := range bands {
		counts[b.count] = 100
	}
	return counts
}

// Entries are added behind what is there, comments included.
func TestAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.toml")
	if err := os.WriteFile(path, []byte("# What was measured.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, commit := range []string{"a", "b"} {
		m := Measurement{Date: "2026-11-22", Commit: commit, Machine: "2 cores", Counts: whole(), Ratios: map[string]float64{"x, 1 ÷ y": 0.123456, "none": math.NaN(), "zero": 0, "much": 123456}}
		if err := m.Append(path); err != nil {
			t.Fatal(err)
		}
	}
	text, _ := os.ReadFile(path)
	if !strings.HasPrefix(string(text), "# What was measured.\n") {
		t.Errorf("the comment has gone:\n%s", text)
	}
	all, err := Read(path)
	if err != nil || len(all) != 2 || all[1].Commit != "b" {
		t.Fatalf("%v, %v", all, err)
	}
	if want := (map[string]float64{"x, 1 ÷ y": 0.123, "zero": 0, "much": 123000}); !maps.Equal(all[1].Ratios, want) {
		t.Errorf("%v", all[1].Ratios)
	}
	if err := os.WriteFile(path, []byte("[[measurement]]\nspeed = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil {
		t.Error("an entry with a key that nobody knows is read")
	}
}

func TestLosses(t *testing.T) {
	for _, c := range []struct {
		count string
		now   float64
		lost  bool
	}{
		{"events/turn", 100, false}, {"events/turn", 101, true}, {"events/turn", 99, true},
		{"commits/turn", 100.9, false}, {"commits/turn", 102, true}, {"commits/turn", 98, true},
		{"commits/sync", 26, false}, {"commits/sync", 1000, false}, {"commits/sync", 24, true},
		{"keys written/turn", 124, false}, {"keys written/turn", 126, true}, {"keys written/turn", 1, false},
		{"allocations/turn", 149, false}, {"allocations/turn", 151, true}, {"allocations/turn", 1, false},
		{"bytes allocated/turn", 151, true}, {"log bytes/turn", 151, true}, {"frames/turn", 126, true}, {"socket writes/turn", 151, true},
		{"socket writes/turn", math.NaN(), true},
	} {
		counts := whole()
		counts[c.count] = c.now
		losses := Measurement{Counts: whole()}.Losses(counts)
		if (len(losses) == 1 && strings.HasPrefix(losses[0], c.count)) != c.lost || len(losses) > 1 {
			t.Errorf("%s of %v: %q", c.count, c.now, losses)
		}
		if losses := (Measurement{Counts: whole()}).Losses(counts, c.count); len(losses) != 0 {
			t.Errorf("%s is looked at: %q", c.count, losses)
		}
	}
	if losses := (Measurement{Counts: whole()}).Losses(nil); len(losses) != len(bands) {
		t.Errorf("of nothing: %q", losses)
	}
	if losses := (Measurement{}).Losses(whole()); len(losses) != len(bands) {
		t.Errorf("with nothing recorded: %q", losses)
	}
}
