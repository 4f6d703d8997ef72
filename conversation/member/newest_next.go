//go:build nextrelease

package member

import "parley/conversation"

// Newest is that of a program which tests let run beside this release's: it takes an event
// that both can read for one that its own release has brought.
const Newest Feature = 2

func ofNext(b conversation.EventBody) Feature {
	if _, ok := b.(conversation.ContextCleared); ok {
		return 2
	}
	return 0
}
