package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// A Figure is one number of one measurement. One that is counted does not depend on
// what else the machine does, and is shown in a table of its own.
type Figure struct {
	Column  string
	Value   float64
	As      Unit
	Counted bool
}

// A Unit says how a number is written.
type Unit int

// The units.
const (
	Whole Unit = iota // 10,326
	Plain             // 2.0
	Times             // seconds, as 1.4ms
)

// Text writes a number.
func (u Unit) Text(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case u == Times:
		return Short(time.Duration(v * float64(time.Second)))
	case u == Whole || math.Abs(v) >= 1000:
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
func (s spread) text(u Unit) string {
	if len(s) < 2 {
		return u.Text(s.median())
	}
	return fmt.Sprintf("%s / **%s** / %s", u.Text(slices.Min(s)), u.Text(s.median()), u.Text(slices.Max(s)))
}

// Samples are what one row of a table has measured: by who was measured, a variant
// or a floor, and by column.
type Samples struct {
	Name    string
	Who     []string // in order; floors behind the variants
	Floors  int
	Columns []Figure // in order, without values
	values  map[string]map[string]spread
}

// Add adds what was measured of a variant or a floor in one round.
func (s *Samples) Add(who string, figures []Figure) {
	if s.values == nil {
		s.values = map[string]map[string]spread{}
	}
	if s.values[who] == nil {
		s.values[who] = map[string]spread{}
	}
	for _, f := range figures {
		if !slices.ContainsFunc(s.Columns, func(c Figure) bool { return c.Column == f.Column }) {
			s.Columns = append(s.Columns, Figure{Column: f.Column, As: f.As, Counted: f.Counted})
		}
		s.values[who][f.Column] = append(s.values[who][f.Column], f.Value)
	}
}

// ratio is that of two medians in one column.
func (s *Samples) ratio(of, to, column string) float64 {
	return s.values[of][column].median() / s.values[to][column].median()
}

// Medians are those of what was measured of one of them, by column.
func (s *Samples) Medians(who string) map[string]float64 {
	all := map[string]float64{}
	for column, values := range s.values[who] {
		all[column] = values.median()
	}
	return all
}

// Ratios are those of the timed medians of one of them to the others': to the first
// variant and to the floors, by what is compared.
func (s *Samples) Ratios(who string) map[string]float64 {
	all := map[string]float64{}
	for _, pair := range s.ratios() {
		for _, c := range s.Columns {
			if pair[0] == who && !c.Counted {
				all[c.Column+" ÷ "+pair[1]] = s.ratio(who, pair[1], c.Column)
			}
		}
	}
	return all
}

// ratios are the pairs that are compared: each other variant with the first one,
// and each variant with each floor.
func (s *Samples) ratios() (pairs [][2]string) {
	variants, floors := s.Who[:len(s.Who)-s.Floors], s.Who[len(s.Who)-s.Floors:]
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

// PrintRows writes the rows of a table: the timed figures, or the counted ones.
func PrintRows(out io.Writer, first string, rows []*Samples, counted bool) {
	var columns []Figure
	for _, row := range rows {
		for _, c := range row.Columns {
			if c.Counted == counted && !slices.Contains(columns, c) {
				columns = append(columns, c)
			}
		}
	}
	if len(columns) == 0 {
		return
	}
	fmt.Fprintf(out, "| %s | |", first)
	for _, c := range columns {
		fmt.Fprintf(out, " %s |", c.Column)
	}
	fmt.Fprintf(out, "\n|---|---|%s\n", strings.Repeat("---:|", len(columns)))
	for _, row := range rows {
		line := func(who string, cell func(Figure) (string, bool)) {
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
				fmt.Fprintf(out, "| %s | %s |%s\n", row.Name, who, b.String())
			}
		}
		for _, who := range row.Who {
			line(who, func(c Figure) (string, bool) {
				s, ok := row.values[who][c.Column]
				return s.text(c.As), ok
			})
		}
		for _, pair := range row.ratios() {
			line(pair[0]+" ÷ "+pair[1], func(c Figure) (string, bool) {
				v := row.ratio(pair[0], pair[1], c.Column)
				return fmt.Sprintf("%.2f", v), !math.IsNaN(v) && !math.IsInf(v, 0)
			})
		}
	}
}

// Short rounds to three digits, for people.
func Short(d time.Duration) string {
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
