package user

import (
	"testing"

	"example/clamp"
)

func TestHigh(t *testing.T) {
	if clamp.Clamp(5, 1, 3) != 3 {
		t.Error("above")
	}
}
