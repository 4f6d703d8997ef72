// Package telegram is the chat platform Telegram for gateway/chat: a bot that receives by long
// poll or by webhook and sends by the Bot API.
//
// Telegram keeps an update until it is confirmed: by the offset of the next poll, or by the
// answer 200 to a webhook. A [Bot] confirms what is durable here, nothing else, so that no
// message is lost in a crash; what comes twice is known by its name.
//
// The bot's token stands in the URL of each request. No error that leaves the package holds it.
//
// Goroutines: Run uses that of its caller, and a few that end the waiting sign of buttons; it
// ends with them. The other methods start none.
package telegram
