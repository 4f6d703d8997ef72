//go:build !nextrelease

package member

import "parley/conversation"

// Newest is the highest feature that this program can read.
const Newest Feature = 1

// ofNext is the feature of what the program of the next release would add.
func ofNext(conversation.EventBody) Feature { return 0 }
