package pebble

import (
	"slices"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/persistence/pebble/internal/chatrows"
)

// Chats is what channels remember. It counts for no quota.
func (db *DB) Chats() chats.Store { return db.chats }

func newChats(db *DB) *chatrows.Chats {
	return chatrows.New(chatrows.Deps{
		Store: db.p, Enter: db.enter, Leave: db.leave, View: db.view, Apply: db.apply, Unread: unread,
		Ready: db.writable,
		Room:  func() error { return db.Room(true) },
		Hold: func(sessions []conversation.SessionKey) (release func()) {
			var held []func()
			for _, key := range sessions {
				slot := db.cache.Use(key)
				slot.Tree.RLock()
				held = append(held, func() { slot.Tree.RUnlock(); db.cache.Release(key, slot) })
			}
			return func() {
				for _, release := range slices.Backward(held) {
					release()
				}
			}
		},
	})
}
