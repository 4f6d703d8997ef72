package load

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"parley/cmd/parley-bench/internal/report"
)

// counts are what a server has counted since its start, and what its system has
// counted for it. What is not there, in an older server or another system, is NaN.
type counts struct {
	cpu      time.Duration
	metrics  map[string]float64 // by series; and by name, all its series together
	calls    float64            // read and write calls of the system (/proc/PID/io): sockets and files; syncs are none
	switches float64            // of threads, asked for and not (/proc/PID/task/*/status)
}

// The metrics that a measurement reads.
const (
	metricCommits = "parley_store_commit_seconds_count"
	metricSyncs   = "parley_store_wal_fsync_seconds_count"
	metricKeys    = "parley_store_written_keys_total"
	metricWAL     = `parley_store_wal_bytes_total{dir="written"}`
	metricFrames  = "parley_gateway_frames_out_total"
	metricWrites  = "parley_gateway_writes_total"
	metricAllocs  = "go_memstats_mallocs_total"
	metricBytes   = "go_memstats_alloc_bytes_total"
	metricGC      = "go_gc_duration_seconds_count"
)

// counted reads what the server has counted.
func (s *Server) counted(ctx context.Context) (counts, error) {
	body, err := s.Get(ctx, "/metrics")
	if err != nil {
		return counts{}, err
	}
	c := counts{metrics: map[string]float64{}}
	for line := range strings.Lines(string(body)) {
		series, value, found := cutLast(strings.TrimSpace(line), " ")
		if !found || strings.HasPrefix(line, "#") {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return counts{}, fmt.Errorf("metric %s: %w", series, err)
		}
		c.metrics[series] = v
		name, labels, found := strings.Cut(strings.TrimSuffix(series, "}"), "{")
		if !found {
			continue
		}
		c.metrics[name] += v
		if several := strings.Split(labels, ","); len(several) > 1 && !strings.HasSuffix(name, "_bucket") { // the sum by each of them: a newer server may have more
			for _, one := range several {
				c.metrics[name+"{"+one+"}"] += v
			}
		}
	}
	c.cpu, c.calls, c.switches = s.CPU(), s.calls(), s.switches()
	return c, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// watch begins to count. What it returns gives the counts since then, without what
// the counting itself took: a look at /metrics is some thousand allocations.
func (s *Server) watch(ctx context.Context) (since func() (counts, error), err error) {
	first, err := s.counted(ctx)
	if err != nil {
		return nil, err
	}
	before, err := s.counted(ctx)
	if err != nil {
		return nil, err
	}
	return func() (counts, error) {
		after, err := s.counted(ctx)
		if err != nil {
			return counts{}, err
		}
		own := before.minus(first)
		own.cpu, own.switches = 0, 0 // too coarse for one look
		return after.minus(before).minus(own), nil
	}, nil
}

func (c counts) minus(b counts) counts {
	d := counts{cpu: c.cpu - b.cpu, calls: c.calls - b.calls, switches: c.switches - b.switches, metrics: map[string]float64{}}
	for name, v := range c.metrics {
		d.metrics[name] = v - b.metrics[name]
	}
	return d
}

// of is what a metric has counted; NaN if the server has none of that name.
func (c counts) of(name string) float64 {
	if v, ok := c.metrics[name]; ok {
		return v
	}
	return math.NaN()
}

// each are the figures of n things, such as turns.
func (c counts) each(n int, thing string) []report.Figure {
	per := func(v float64) float64 { return v / float64(max(1, n)) }
	return []report.Figure{
		{Column: "commits/" + thing, Value: per(c.of(metricCommits)), As: report.Plain, Counted: true},
		{Column: "commits/sync", Value: c.of(metricCommits) / c.of(metricSyncs), As: report.Plain, Counted: true},
		{Column: "keys written/" + thing, Value: per(c.of(metricKeys)), As: report.Plain, Counted: true},
		{Column: "log bytes/" + thing, Value: per(c.of(metricWAL)), As: report.Whole, Counted: true},
		{Column: "allocations/" + thing, Value: per(c.of(metricAllocs)), As: report.Plain, Counted: true},
		{Column: "bytes allocated/" + thing, Value: per(c.of(metricBytes)), As: report.Whole, Counted: true},
		{Column: "collections", Value: c.of(metricGC), As: report.Whole, Counted: true},
		{Column: "frames/" + thing, Value: per(c.of(metricFrames)), As: report.Plain, Counted: true},
		{Column: "socket writes/" + thing, Value: per(c.of(metricWrites)), As: report.Plain, Counted: true},
		{Column: "read and write calls/" + thing, Value: per(c.calls), As: report.Plain, Counted: true},
		{Column: "thread switches/" + thing, Value: per(c.switches), As: report.Plain, Counted: true},
	}
}

// calls is how often the process called read or write.
func (s *Server) calls() float64 {
	return s.proc("io", "syscr:", "syscw:")
}

// switches is how often threads of the process were switched.
func (s *Server) switches() float64 {
	tasks, err := filepath.Glob(s.procPath("task/*"))
	if err != nil || len(tasks) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, task := range tasks {
		if v := s.proc(filepath.Join("task", filepath.Base(task), "status"), "voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"); !math.IsNaN(v) {
			sum += v // a thread that has gone meanwhile has none
		}
	}
	return sum
}

func (s *Server) procPath(name string) string {
	return filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid), name)
}

// proc is the sum of some lines of a file of the process below /proc; NaN if it cannot be read.
func (s *Server) proc(name string, lines ...string) float64 {
	b, err := os.ReadFile(s.procPath(name))
	if err != nil {
		return math.NaN()
	}
	sum, found := 0.0, false
	for line := range strings.Lines(string(b)) {
		for _, want := range lines {
			rest, ok := strings.CutPrefix(line, want)
			if !ok {
				continue
			}
			if v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64); err == nil {
				sum, found = sum+v, true
			}
		}
	}
	if !found {
		return math.NaN()
	}
	return sum
}
