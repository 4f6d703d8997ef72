// Package telegramtest is Telegram for tests: a server that speaks the Bot API as bots see it,
// and lets a test play the people. It keeps what the bot has posted, and fails in the ways that
// the real one does: with 429, with 5xx, with answers that get lost after the message was sent.
//
// It is for tests of gateway/telegram and of the whole program.
package telegramtest
