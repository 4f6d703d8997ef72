// Package webhook sends what happens in chats to addresses of the configuration, signed as
// Standard Webhooks says (https://www.standardwebhooks.com).
//
// A [Deliverer] runs once in a cluster. Each [Hook] has a goroutine, a client and a cursor of
// its own, so a slow receiver delays nobody else; its own entries come in order, one at a time.
// The cursor is a row of the store (channel "webhook", chat = the hook's name) and is moved
// behind an entry when that was taken, so an entry comes at least once, under the same
// webhook-id. A hook that is new begins with what happens from then on.
//
// An entry that is not taken is tried again, ever less often, until it is older than
// chats.retention; then it is skipped and counted. Before each try it is looked up again: what was
// erased meanwhile is not sent. A goroutine more trims feeds, those of all tenants that are named.
//
// Addresses are the operator's, but what they resolve to is not: private ones are refused when
// the connection is made, unless the hook allows them. Secrets, and the paths of addresses,
// never reach the log: a hook is named by its name.
package webhook
