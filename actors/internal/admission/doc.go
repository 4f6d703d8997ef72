// Package admission hands out a node's slots. A slot belongs to a root task that
// is RUNNING, so the number of slots is the number of tasks that run at once.
//
// Slots is the count and the queue of a node. Requests are served first come,
// first served within a tenant, and tenants take turns, so that one tenant's
// burst does not keep the others out. Slot is one session's share: it knows
// whether a slot is counted for the session, reserved for a command that is being
// decided, or waited for, and gives a slot back only when it is durable that the
// task has ended. So after a crash no more tasks are RUNNING than there are slots.
//
// The engine makes the Slots; each session's actor has a Slot and passes the
// Slots in. The package owns no goroutine.
package admission
