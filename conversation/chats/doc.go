// Package chats is the port of what channels to chat platforms have to remember: for each
// chat a row, and for each tenant a feed of what has happened in its chats.
//
// A row says how far a chat has been shown what happened in its session, and what is on its
// way there. Only gateway/chat knows what a row's value means. The feed is an ordered list;
// webhooks and streams read it from any number on.
//
// Both belong to sessions: when a session is erased, its rows and what the feed says of it go
// with it, in the same step.
package chats
