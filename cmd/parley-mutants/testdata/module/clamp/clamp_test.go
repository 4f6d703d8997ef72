package clamp

import "testing"

func TestClamp(t *testing.T) {
	for _, c := range []struct {
		name                 string
		n, low, high, expect int
	}{{"below", 0, 1, 3, 1}, {"inside", 2, 1, 3, 2}} {
		t.Run(c.name, func(t *testing.T) {
			if got := Clamp(c.n, c.low, c.high); got != c.expect {
				t.Errorf("got %d", got)
			}
		})
	}
}

func TestSum(t *testing.T) {
	if Sum([]int{1, 2}) != 3 {
		t.Error("wrong sum")
	}
}
