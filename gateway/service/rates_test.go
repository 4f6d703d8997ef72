package service

import (
	"testing"
	"time"
)

func TestRates(t *testing.T) {
	r := NewRates(2, 3)
	begin := time.Now()
	for i, x := range []struct {
		who  string
		at   time.Duration
		want Allowed
	}{
		{"ann", 0, Allowed{Left: 2, Whole: 500 * time.Millisecond}},
		{"ann", 0, Allowed{Left: 1, Whole: time.Second}},
		{"ann", 0, Allowed{Left: 0, Whole: 1500 * time.Millisecond}},
		{"ann", 0, Allowed{Left: 0, Whole: 1500 * time.Millisecond, Wait: 500 * time.Millisecond}},
		{"bob", 0, Allowed{Left: 2, Whole: 500 * time.Millisecond}},
		{"ann", 250 * time.Millisecond, Allowed{Left: 0, Whole: 1250 * time.Millisecond, Wait: 250 * time.Millisecond}},
		{"ann", 500 * time.Millisecond, Allowed{Left: 0, Whole: 1500 * time.Millisecond}},
		{"ann", time.Hour, Allowed{Left: 2, Whole: 500 * time.Millisecond}},
		{"ann", 0, Allowed{Left: 1, Whole: time.Second}}, // a clock that goes back gives nothing
	} {
		if got := r.Take(x.who, begin.Add(x.at)); got != x.want {
			t.Errorf("%d: %s after %v: %+v, want %+v", i, x.who, x.at, got, x.want)
		}
	}
	if got := NewRates(0, 0).Take("ann", begin); got.Wait != 0 {
		t.Errorf("without a rate %+v", got)
	}
}

// Addresses that were seen once are forgotten.
func TestRatesForget(t *testing.T) {
	r := NewRates(10, 10)
	now := time.Now()
	for i := range 100_000 {
		now = now.Add(time.Millisecond)
		r.Take(i, now)
	}
	if n := len(r.of); n > 4096 {
		t.Errorf("%d are kept", n)
	}
}
