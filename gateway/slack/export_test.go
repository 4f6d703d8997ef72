package slack

import "context"

// Running is true while the bot receives.
func (b *Bot) Running() bool { return b.running() != nil }

// ReplyTo is how a command with that response_url would be answered.
func (b *Bot) ReplyTo(url string) func(context.Context, string) error { return b.reply(url) }
