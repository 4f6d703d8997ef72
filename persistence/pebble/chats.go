package pebble

import (
	"parley/conversation/blobs"
	"parley/conversation/chats"
	"parley/conversation/search"
	"parley/persistence/pebble/internal/blobrows"
	"parley/persistence/pebble/internal/chatrows"
	"parley/persistence/pebble/internal/findable"
)

// Chats is what channels remember. It counts for no quota.
func (db *DB) Chats() chats.Store { return db.chats }

func newChats(db *DB) *chatrows.Chats {
	room := func() error { return db.Room(true) }
	db.said = findable.New(findable.Ground{Store: db.p, Enter: db.enter, Leave: db.leave, Ready: db.writable, Room: room, Hold: db.cache.Keep})
	db.blobs = blobrows.New(blobrows.Needed{
		Store: db.p, Cache: db.cache, Usage: db.usage, Enter: db.enter, Leave: db.leave, View: db.view, Apply: db.apply, Ready: db.writable,
		Room: func() error { return db.Room(false) },
	})
	return chatrows.New(chatrows.Deps{
		Store: db.p, Enter: db.enter, Leave: db.leave, View: db.view, Apply: db.apply, Unread: unread,
		Ready: db.writable, Room: room, Hold: db.cache.Keep,
	})
}

// Index keeps what can be found of the sessions of a store. It counts for no quota.
func Index(db *DB) search.Guide { return db.said }

// Blobs is what is attached to messages. It counts for the quota of its tenant.
func Blobs(db *DB) blobs.Store { return db.blobs }
