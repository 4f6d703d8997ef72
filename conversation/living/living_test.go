package living

import (
	"errors"
	"strconv"
	"testing"

	"parley/conversation"
)

// However often a name was erased, its living session is found with few questions.
func TestOf(t *testing.T) {
	for n := range 300 { // erased sessions
		asked := 0
		got, err := Of("abc", func(id conversation.SessionID) (bool, error) {
			asked++
			return number(id) <= n, nil
		})
		want := nth("abc", n+1)
		if err != nil || got != want || asked > 2*len(strconv.FormatInt(int64(n+1), 2)) {
			t.Errorf("after %d erasures: %q, %v, with %d questions; want %q", n, got, err, asked, want)
		}
	}
	broken := errors.New("broken")
	for failing := 1; failing <= 3; failing++ {
		asked := 0
		_, err := Of("abc", func(id conversation.SessionID) (bool, error) {
			if asked++; asked == failing {
				return false, broken
			}
			return number(id) <= 2, nil
		})
		if !errors.Is(err, broken) {
			t.Errorf("question %d fails: %v", failing, err)
		}
	}
}

// number is the number of a session of the name "abc", from 1.
func number(id conversation.SessionID) int {
	_, n := place(id)
	return n
}
