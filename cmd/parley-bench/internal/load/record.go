package load

import (
	"fmt"
	"maps"
	"time"

	"parley/cmd/parley-bench/internal/history"
	"parley/cmd/parley-bench/internal/report"
)

// An entry is what a run has measured of one variant, for the history.
type entry struct {
	counts, ratios map[string]float64
}

// add takes the counts of the fixed number of turns, and the ratios of every row.
func (e *entry) add(table string, rows []*report.Samples, who string) {
	for _, row := range rows {
		if table == "counts" {
			maps.Copy(e.counts, row.Medians(who))
			continue
		}
		for what, ratio := range row.Ratios(who) {
			e.ratios[fmt.Sprintf("%s, %s: %s", table, row.Name, what)] = ratio
		}
	}
}

func (e *entry) record(path, commit string) error {
	machine, err := history.Machine()
	if err != nil {
		return err
	}
	return history.Measurement{
		Date: time.Now().UTC().Format(time.DateOnly), Commit: commit, Machine: machine, Counts: e.counts, Ratios: e.ratios,
	}.Append(path)
}
