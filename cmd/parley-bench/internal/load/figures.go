package load

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// A figure is one number of one measurement. One that is counted does not depend on
// what else the machine does, and is shown in a table of its own.
type figure struct {
	column  string
	value   float64
	as      unit
	counted bool
}

// A unit says how a number is written.
type unit int

const (
	whole unit = iota // 10,326
	plain             // 2.0
	times             // seconds, as 1.4ms
)

func (u unit) text(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case u == times:
		return short(time.Duration(v * float64(time.Second)))
	case u == whole || math.Abs(v) >= 1000:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// spread are the values of one figure over the rounds.
type spread []float64

func (s spread) median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// text is min / **median** / max, or the one value.
func (s spread) text(u unit) string {
	if len(s) < 2 {
		return u.text(s.median())
	}
	return fmt.Sprintf("%s / **%s** / %s", u.text(slices.Min(s)), u.text(s.median()), u.text(slices.Max(s)))
}

// samples are what one row of a table has measured: by who was measured, a variant
// or a floor, and by column.
type samples struct {
	name    string
	who     []string // in order; floors behind the variants
	floors  int
	columns []figure // in order, without values
	values  map[string]map[string]spread
}

func (s *samples) add(who string, figures []figure) {
	if s.values == nil {
		s.values = map[string]map[string]spread{}
	}
	if s.values[who] == nil {
		s.values[who] = map[string]spread{}
	}
	for _, f := range figures {
		if !slices.ContainsFunc(s.columns, func(c figure) bool { return c.column == f.column }) {
			s.columns = append(s.columns, figure{column: f.column, as: f.as, counted: f.counted})
		}
		s.values[who][f.column] = append(s.values[who][f.column], f.value)
	}
}

// ratio is that of two medians in one column.
func (s *samples) ratio(of, to, column string) float64 {
	return s.values[of][column].median() / s.values[to][column].median()
}

// ratios are the pairs that are compared: each other variant with the first one,
// and each variant with each floor.
func (s *samples) ratios() (pairs [][2]string) {
	variants, floors := s.who[:len(s.who)-s.floors], s.who[len(s.who)-s.floors:]
	for _, v := range variants[1:] {
		pairs = append(pairs, [2]string{v, variants[0]})
	}
	for _, v := range variants {
		for _, f := range floors {
			pairs = append(pairs, [2]string{v, f})
		}
	}
	return pairs
}

// print writes the rows of a table: the timed figures, or the counted ones.
func printRows(out io.Writer, first string, rows []*samples, counted bool) {
	var columns []figure
	for _, row := range rows {
		for _, c := range row.columns {
			if c.counted == counted && !slices.Contains(columns, c) {
				columns = append(columns, c)
			}
		}
	}
	if len(columns) == 0 {
		return
	}
	fmt.Fprintf(out, "| %s | |", first)
	for _, c := range columns {
		fmt.Fprintf(out, " %s |", c.column)
	}
	fmt.Fprintf(out, "\n|---|---|%s\n", strings.Repeat("---:|", len(columns)))
	for _, row := range rows {
		line := func(who string, cell func(figure) (string, bool)) {
			var b strings.Builder
			some := false
			for _, c := range columns {
				text, ok := cell(c)
				if !ok {
					text = ""
				}
				some = some || ok
				fmt.Fprintf(&b, " %s |", text)
			}
			if some {
				fmt.Fprintf(out, "| %s | %s |%s\n", row.name, who, b.String())
			}
		}
		for _, who := range row.who {
			line(who, func(c figure) (string, bool) {
				s, ok := row.values[who][c.column]
				return s.text(c.as), ok
			})
		}
		for _, pair := range row.ratios() {
			line(pair[0]+" ÷ "+pair[1], func(c figure) (string, bool) {
				v := row.ratio(pair[0], pair[1], c.column)
				return fmt.Sprintf("%.2f", v), !math.IsNaN(v) && !math.IsInf(v, 0)
			})
		}
	}
}

// short rounds to three digits, for people.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return d.Round(10 * time.Nanosecond).String()
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(10 * time.Microsecond).String()
	default:
		return d.Round(10 * time.Millisecond).String()
	}
}
