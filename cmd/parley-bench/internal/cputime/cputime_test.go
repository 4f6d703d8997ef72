package cputime

import (
	"os"
	"testing"
)

// What this process has used is more after work, from outside and from inside.
func TestTimesGrow(t *testing.T) {
	of, own := Of(os.Getpid()), Own()
	sum := 0
	for range 10 {
		for i := range 20_000_000 {
			sum += i % 7
		}
		if Of(os.Getpid()) > of && Own() > own {
			return
		}
	}
	t.Errorf("no more after some work (%d): %s and %s", sum, Of(os.Getpid())-of, Own()-own)
}
