// Package chatrows keeps what channels to chat platforms remember: a chats.Store, with the
// keys of package layout.
//
// A Save holds the sessions that it names, so that none of them is erased before it is
// durable, and then waits for its tenant. Who has the tenant writes for all that wait: one
// batch, one sync. So numbers have no gaps, and what is compared is durable already.
//
// Rules:
//   - Sessions are held first, in their order, and the tenant second; an erasure takes its
//     session and then the tenant (Lock) in the same way.
//   - A reader never sees what is not durable yet.
//
// persistence/pebble makes one for each store. It owns no goroutine.
package chatrows
