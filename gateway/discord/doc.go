// Package discord joins channels of Discord with sessions: a [Bot] is the platform that
// gateway/chat runs.
//
// # What comes from Discord
//
// The gateway, a WebSocket, brings what happens, and nothing that comes there is ever
// acknowledged. What the bot did not see, because it was away or could not take it, is read
// from the history of the channels that have spoken with it: after each start and after each
// connection that could not be resumed. Within a channel one update is given on after the
// other (a lane), and waits until those before it are durable; one that could not be taken is
// given again. Edits and deletions that happen while nobody listens are not seen.
//
// # What goes to Discord
//
// Discord shows all text as Markdown, and agents write Markdown, so texts go out as they are:
// a list is a list and a block of code is a block of code. What must not happen by text is
// kept out by other means: nobody is pinged but those whom the text names (allowed_mentions;
// @everyone, roles and ids that a model writes are dead), and links unfold no previews.
//
// A message carries a nonce with enforce_nonce, so that Discord itself drops a repetition
// within some minutes; after that the history says whether it is there.
//
// # What is of the library and what is ours
//
// discordgo brings the requests, types, addresses and numbers. Three things of it are not used,
// because they hold up goroutines that nothing is able to end: its waiting for rate limits
// (limits.go has its own, with a context), its retries, and its gateway connection, which
// sleeps within a lock, reads without a deadline or a bound and loses the code with which
// Discord closes. gateway.go speaks with gorilla/websocket, as discordgo does.
//
// # Goroutines
//
// All belong to Run, which waits for them: the reader of the connection (Run's own), its
// heartbeat, a worker for each channel that has something to do, and short ones that
// acknowledge interactions and look for the chats that are known.
package discord
