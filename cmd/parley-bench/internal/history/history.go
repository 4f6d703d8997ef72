package history

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Measurement is one entry.
type Measurement struct {
	Date    string             `toml:"date"`    // 2026-11-22
	Commit  string             `toml:"commit"`  // of the server's program
	Machine string             `toml:"machine"` // in words
	Counts  map[string]float64 `toml:"counts"`  // of the run's fixed number of turns
	Ratios  map[string]float64 `toml:"ratios"`  // of medians, within the run
}

type file struct {
	Measurement []Measurement `toml:"measurement"`
}

// Read reads all entries, the oldest first.
func Read(path string) ([]Measurement, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f file
	if err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f.Measurement, nil
}

// Append writes the entry behind the others.
func (m Measurement) Append(path string) error {
	m.Counts, m.Ratios = rounded(m.Counts), rounded(m.Ratios)
	text, err := toml.Marshal(file{[]Measurement{m}})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteString("\n" + string(text)); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// rounded keeps three digits: more are noise. What was not measured is left out.
func rounded(all map[string]float64) map[string]float64 {
	some := map[string]float64{}
	for name, v := range all {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		if v != 0 {
			unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-2)
			v = math.Round(math.Round(v/unit)*unit*1e6) / 1e6
		}
		some[name] = v
	}
	return some
}

// A band is how far a count may be from the last one recorded.
type band struct {
	count       string
	least, most float64 // of the recorded one; 0 = no end on this side
	why         string
}

// Bands say by how much a count may change before it is a loss that somebody has to
// explain, with a new entry or a repair.
var bands = []band{
	{"events/turn", 1, 1, "a turn is another one: nothing else can be compared"},
	{"commits/turn", 0.99, 1.01, "fewer are a promise that may be broken, more are time"},
	{"commits/sync", 0.25, 0, "commits do not share their syncs any more; how many do depends on the disk"},
	{"keys written/turn", 0, 1.25, "each is an insert into the memory table"},
	{"log bytes/turn", 0, 1.5, ""},
	{"allocations/turn", 0, 1.5, ""},
	{"bytes allocated/turn", 0, 1.5, ""},
	{"frames/turn", 0, 1.25, ""},
	{"socket writes/turn", 0, 1.5, "each is a call of the system"},
}

// Losses compares counts with those of the entry, and says what is out of its band;
// those named in leave are not looked at.
func (m Measurement) Losses(counts map[string]float64, leave ...string) (losses []string) {
	for _, b := range bands {
		if slices.Contains(leave, b.count) {
			continue
		}
		recorded, was := m.Counts[b.count]
		now, is := counts[b.count]
		switch {
		case !was:
			losses = append(losses, b.count+" is not in the entry")
		case !is || math.IsNaN(now):
			losses = append(losses, b.count+" was not counted")
		case b.least > 0 && now < b.least*recorded-0.005, b.most > 0 && now > b.most*recorded+0.005:
			losses = append(losses, strings.TrimSuffix(fmt.Sprintf("%s is %.2f, recorded %.2f (from %.2f to %.2f of it may be): %s", b.count, now, recorded, b.least, b.most, b.why), ": "))
		}
	}
	return losses
}
