package load

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"parley/cmd/parley-bench/internal/report"
)

func TestVariants(t *testing.T) {
	all, cleanup, err := variantsOf([]string{"before=/bin/sh", "/bin/cat"}, []string{"procs4:process.procs=4,GOGC=200"})
	if err != nil {
		t.Fatal(err)
	}
	defer cleanup()
	names := []string{}
	for _, v := range all {
		names = append(names, v.name+" "+v.path+" "+strings.Join(v.set, ",")+" "+strings.Join(v.env, ","))
	}
	want := []string{
		"before /bin/sh  ", "parley2 /bin/cat  ",
		"before procs4 /bin/sh process.procs=4 GOGC=200", "parley2 procs4 /bin/cat process.procs=4 GOGC=200",
	}
	if !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	for _, bad := range []string{"procs4", ":a=b", "a:", "a:b", "a:=1"} {
		if _, _, err := variantsOf([]string{"/bin/sh"}, []string{bad}); err == nil {
			t.Errorf("--variant %q is taken", bad)
		}
	}
	if _, _, err := variantsOf([]string{"a=/bin/sh", "a=/bin/cat"}, nil); err == nil {
		t.Error("two programs of one name are not refused")
	}
	if _, _, err := variantsOf([]string{"x=/no/such/program"}, nil); err == nil {
		t.Error("a server that is not there is taken")
	}
}

// Every round begins with another variant, the floors come behind all of them in the
// same round, and the table has the ratios of the medians.
func TestAlternation(t *testing.T) {
	var order []string
	values := map[string][]float64{"a": {1, 9, 2}, "b": {4, 3, 8}, "floor": {1, 1, 1}}
	take := func(who string) []report.Figure {
		order = append(order, who)
		v := values[who][0]
		values[who] = values[who][1:]
		return []report.Figure{{Column: "x", Value: v, As: report.Plain}, {Column: "n", Value: math.NaN(), As: report.Plain, Counted: true}}
	}
	var out strings.Builder
	b := bench{variants: []variant{{name: "a"}, {name: "b"}}, rounds: 3, dir: t.TempDir(), out: &out, notes: &strings.Builder{}}
	table := table{name: "t", title: "T", first: "row", rows: []row{{
		name:   "r",
		run:    func(_ context.Context, v variant, _ string) ([]report.Figure, error) { return take(v.name), nil },
		floors: []floor{{name: "floor", run: func() ([]report.Figure, error) { return take("floor")[:1], nil }}},
	}}}
	rows, err := b.measure(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, " "); got != "a b floor b a floor a b floor" {
		t.Errorf("the order is %s", got)
	}
	table.print(&out, rows)
	for _, want := range []string{
		"| r | a | 1.00 / **2.00** / 9.00 |", "| r | b | 3.00 / **4.00** / 8.00 |", "| r | floor | 1.00 / **1.00** / 1.00 |",
		"| r | b ÷ a | 2.00 |", "| r | a ÷ floor | 2.00 |", "| r | b ÷ floor | 4.00 |", "| r | a | – / **–** / – |",
	} {
		if !strings.Contains(out.String(), want+"\n") {
			t.Errorf("%s is missing in\n%s", want, out.String())
		}
	}
}
