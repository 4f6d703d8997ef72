package load

import (
	"debug/buildinfo"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"parley/cmd/parley-bench/internal/history"
)

// What a turn costs in allocations, bytes, commits, inserts, frames and writes is held
// against the last entry of the history. Times are not looked at. Who changes one of
// them on purpose records a new entry: make bench-record.
func TestCountsAgainstHistory(t *testing.T) {
	entries, err := history.Read(filepath.Join("..", "..", "history.toml"))
	if err != nil || len(entries) == 0 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	last := entries[len(entries)-1]
	server := built(t)
	var leave []string
	if madeWith(t, server, "-race") {
		leave = []string{"allocations/turn", "bytes allocated/turn"}
		t.Log("allocations are NOT COMPARED: the server is built with the race detector, which allocates itself")
	}
	if madeWith(t, "", "-race") {
		leave = append(leave, "commits/sync")
		t.Log("commits a sync are NOT COMPARED: clients with the race detector are too slow to make the server's commits wait for each other")
	}
	path := filepath.Join(t.TempDir(), "history.toml")
	m := &Measure{Server: []string{server}, Only: []string{"counts"}, Record: path}
	var out, notes strings.Builder
	if err := m.run(t.Context(), &out, &notes); err != nil {
		t.Fatal(err)
	}
	now, err := history.Read(path)
	if err != nil || len(now) != 1 {
		t.Fatalf("%v, %v", now, err)
	}
	for _, loss := range last.Losses(now[0].Counts, leave...) {
		t.Errorf("since %s (%s): %s", last.Commit, last.Date, loss)
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// madeWith is true of a program, "" being the test's own, that was built with a flag.
func madeWith(t *testing.T, program, flag string) bool {
	t.Helper()
	if program == "" {
		own, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		program = own
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == flag && s.Value == "true" })
}
