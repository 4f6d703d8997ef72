// Package chatstest proves stores of what channels remember.
//
// Run is the suite that every chats.Store passes, together with the conversation.Store whose
// sessions it belongs to; RunModel does random things to one and to Maps and compares every
// answer. Maps is a chats.Store in maps; persistencetest.Memory has one, with its sessions.
//
// Nothing here starts a goroutine that outlives a call.
package chatstest
