package load

import (
	"bufio"
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
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
	machine, err := thisMachine()
	if err != nil {
		return err
	}
	return history.Measurement{
		Date: time.Now().UTC().Format(time.DateOnly), Commit: commit, Machine: machine, Counts: e.counts, Ratios: e.ratios,
	}.Append(path)
}

// commitOf is what the program was built from.
func commitOf(program string) string {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "unknown"
	}
	revision, modified := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ", modified"
		}
	}
	return revision + modified
}

// thisMachine says in words what measured: its cores, its processor, and how long
// a write of 4 KiB takes until it is on the disk.
func thisMachine() (string, error) {
	dir, err := os.MkdirTemp("", "parley-bench-sync-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	f, err := os.Create(dir + "/f")
	if err != nil {
		return "", err
	}
	defer f.Close()
	took := make([]time.Duration, 50)
	for i := range took {
		began := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return "", err
		}
		if err := f.Sync(); err != nil {
			return "", err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return fmt.Sprintf("%d cores, %s, %s/%s; 4 KiB are on the disk after %s", runtime.NumCPU(), processor(), runtime.GOOS, runtime.GOARCH, report.Short(took[len(took)/2])), nil
}

func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "a processor of unknown name"
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "a processor of unknown name"
}
