package load

import (
	"cmp"
	"fmt"
)

// AtLeast refuses a flag's value that is below the least one which can be measured with.
func AtLeast[T cmp.Ordered](flag string, value, least T) error {
	if value < least {
		return fmt.Errorf("--%s=%v: at least %v", flag, value, least)
	}
	return nil
}
