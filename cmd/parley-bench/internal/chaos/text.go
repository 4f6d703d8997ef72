package chaos

import (
	"fmt"
	"strings"
)

// A message's text says what its runtime has to do, so that every runtime says the
// same parts, and so that the judge knows them.
type order struct {
	number int
	parts  int
	fate   string
}

// The fates of messages.
const (
	plain = "plain"
	kills = "kills" // every runtime that reads it dies of it
	fails = "fails" // every runtime fails at it, and says that it is for good
)

func (o order) text() string { return fmt.Sprintf("%d %d %s", o.number, o.parts, o.fate) }

func readOrder(text string) (o order, err error) {
	_, err = fmt.Sscan(text, &o.number, &o.parts, &o.fate)
	return o, err
}

// part is the text of the part with that index. The padding is a part's usual size.
func (o order) part(index int) string {
	return fmt.Sprintf("%d/%d ", o.number, index) + strings.Repeat("so it goes ", 5)
}
