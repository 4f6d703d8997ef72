package find

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"parley/conversation"
)

// spot is a place in the order in which things are found: the newest first, those of one
// moment by session, and the later one of a session first.
type spot struct {
	at      int64 // milliseconds
	session conversation.SessionID
	seq     conversation.Seq
}

// first is before everything.
var first = spot{at: math.MaxInt64, seq: math.MaxInt64}

func compare(a, b spot) int {
	return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.session, b.session), cmp.Compare(b.seq, a.seq))
}

// cursor is where a search goes on: behind a spot of the sessions behind a place in the list.
type cursor struct {
	after  spot
	window string // a cursor of the list of sessions; "" = its front
}

// String is "<at>.<seq>.<length>.<window><session>".
func (c cursor) String() string {
	return fmt.Sprintf("%d.%d.%d.%s%s", c.after.at, c.after.seq, len(c.window), c.window, c.after.session)
}

var errCursor = conversation.Errorf(conversation.BadRequest, "cursor must be a next_cursor of this search")

func readCursor(text string) (c cursor, err error) {
	if text == "" {
		return cursor{after: first}, nil
	}
	p := strings.SplitN(text, ".", 4)
	if len(p) < 4 {
		return c, errCursor
	}
	at, bad := strconv.ParseInt(p[0], 10, 64)
	seq, bad2 := strconv.ParseUint(p[1], 10, 64)
	n, bad3 := strconv.ParseUint(p[2], 10, 16)
	if bad != nil || bad2 != nil || bad3 != nil || int(n) > len(p[3]) {
		return c, errCursor
	}
	c = cursor{spot{at, conversation.SessionID(p[3][n:]), conversation.Seq(seq)}, p[3][:n]}
	if ms, id, ok := strings.Cut(c.window, "."); c.window != "" {
		if _, err := strconv.ParseInt(ms, 10, 64); err != nil || !ok || id == "" {
			return c, errCursor
		}
	}
	return c, nil
}
