package living

import "parley/conversation"

// Of is the first session of a name that is not erased; it may be absent. id
// is the name's first one. A store keeps what it knows of an erased session as
// long as it knows anything of the next, so a few questions are enough.
func Of(id conversation.SessionID, erased func(conversation.SessionID) (bool, error)) (conversation.SessionID, error) {
	known := func(n int) (bool, error) { return erased(nth(id, n)) }
	low, high := 0, 1 // low is erased, or 0
	for {
		gone, err := known(high)
		if err != nil {
			return "", err
		}
		if !gone {
			break
		}
		low, high = high, 2*high
	}
	for high-low > 1 {
		middle := (low + high) / 2
		gone, err := known(middle)
		if err != nil {
			return "", err
		}
		if gone {
			low = middle
		} else {
			high = middle
		}
	}
	return nth(id, high), nil
}
