package soak

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// "parley-bench soak" in small: sessions are made and erased, and each row has figures.
func TestSoakSmoke(t *testing.T) {
	var out strings.Builder
	k := &Soak{Rate: 200, Duration: time.Second, Live: 32, Row: 20}
	if err := k.run(t.Context(), &out); err != nil {
		t.Fatalf("%v\nafter\n%s", err, out.String())
	}
	if rows := regexp.MustCompile(`(?m)^\| \d+ \| [1-9]\d*/s \| [1-9][0-9.]*(µs|ms) \| [1-9]\d* \| [1-9]\d* \| [1-9][0-9.]* \|$`).FindAllString(out.String(), -1); len(rows) < 2 {
		t.Errorf("%d rows with figures:\n%s", len(rows), out.String())
	}
}
