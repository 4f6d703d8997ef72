// Package chat is a chat platform in one folder, as small as one can be: tests
// prove with it that a platform needs nothing of the gateway but the way out
// (fanout.Hub.Subscribe) and the engine's interface.
//
// A [Room] shows one session to a platform and says there what the platform's
// users write. It owns no goroutine: Run uses that of its caller.
package chat
