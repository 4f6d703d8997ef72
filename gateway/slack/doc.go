// Package slack is Slack as a platform of gateway/chat.
//
// A [Bot] receives by Socket Mode, a connection that it opens itself, or by the Events API,
// whose requests the gateway hands to [Bot.Webhook]. Either way Slack hears that an event has
// arrived only after all that follows from it is durable; until then it delivers it again.
//
// A direct conversation is one chat. In a channel each thread is a chat, named
// "CHANNEL:THREAD"; a message that stands in no thread begins its own. What was asked there by
// /parley, which Slack does not offer in threads, belongs to the chat "CHANNEL", and so do the
// replies below the bot's own messages.
//
// Slack's library stays in this package. Run starts the goroutines of a Socket Mode connection
// and ends with them; nothing else here starts any.
package slack
