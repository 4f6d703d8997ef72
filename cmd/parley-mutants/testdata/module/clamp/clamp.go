// Package clamp is what the test of the driver mutates.
package clamp

// Clamp returns n, or the bound that it exceeds.
func Clamp(n, low, high int) int {
	if n < low {
		return low
	}
	if n > high {
		return high
	}
	return n
}

// Sum adds what is in a list.
func Sum(list []int) int {
	sum := 0
	for i := 0; i < len(list); i++ {
		sum += list[i]
	}
	return sum
}
