// Package feed reads the feeds of tenants' chats for those who watch them: streams, sockets
// and webhooks. Package conversation/chats keeps the feeds, gateway/chat writes them.
//
// [Feeds.Open] begins a [Watch], behind any number or from now on, and [Watch.Next] brings
// what comes, each entry once and in order. A tenant that is watched has one poller, which
// looks into the store every chats.poll, and at once when [Feeds.Changed] is called: by
// [Feeds.Store], when something is saved on this node. Other nodes share the store, so every
// node can serve every watch.
//
// What the poller reads is handed to all watches that have come so far. One that has not yet
// taken the last is passed over and reads the store by itself, a page at a time, until it has
// come up: so a slow watch costs one page of memory. Nothing is kept here for later: what is
// erased is not shown to who comes afterwards.
//
// Goroutines: a poller for each tenant that is watched. It ends with the last watch, or by
// [Feeds.Close], which waits for it.
package feed
