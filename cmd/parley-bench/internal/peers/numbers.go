package peers

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// spread is what several rounds say of one number.
type spread []float64

func (s spread) median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// show is "min / median / max", or the number alone when there is one.
func (s spread) show(format string) string {
	if len(s) < 2 {
		return fmt.Sprintf(format, s.median())
	}
	return fmt.Sprintf(format+" / **"+format+"** / "+format, slices.Min(s), s.median(), slices.Max(s))
}

// over is the ratio of two medians; a dash where a run was too short to use processor time.
func over(a, b spread, format string) string {
	if a.median() == 0 || b.median() == 0 {
		return "–"
	}
	return fmt.Sprintf(format, a.median()/b.median())
}

// nearest is the percentile p (0 to 1) by the nearest rank.
func nearest[T cmp.Ordered](p float64, sorted []T) T {
	var none T
	if len(sorted) == 0 {
		return none
	}
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// each is the processor time of one of n things, in microseconds.
func each(d time.Duration, n int) float64 {
	return float64(d) / float64(time.Microsecond) / float64(max(1, n))
}

// verdict compares a ratio with its goal.
func verdict(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}
