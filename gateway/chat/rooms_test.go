package chat

import (
	"testing"
	"testing/synctest"

	"parley/conversation/chats"
)

// What comes from chats that nobody has admitted leaves nothing in memory.
func TestStrangersLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Channel{chats: map[chats.Chat]*room{}}
		for i := range 1000 {
			c.enqueue(string(rune('a'+i)), func(*room) {})
		}
		c.wg.Wait()
		if len(c.chats) != 0 {
			t.Errorf("%d rooms are left", len(c.chats))
		}
		var known *room
		c.enqueue("known", func(r *room) { r.row.rev, known = 1, r })
		c.wg.Wait()
		if len(c.chats) != 1 {
			t.Errorf("%d rooms of one chat", len(c.chats))
		}
		c.enqueue("known", func(r *room) {
			if r != known {
				t.Error("another room")
			}
		})
		c.wg.Wait()
	})
}
