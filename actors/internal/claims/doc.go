// Package claims gives the tasks that wait for outside runtimes to those who claim
// them: of each tenant the oldest first, each to one claim at a time.
//
// What may be claimed is in the store (conversation.Catalog.Claimable), so it costs no
// memory while nobody claims. The first claim of a tenant reads the list; from then on
// sessions say what has changed (Desk.Set), until the tenant has been without a claim
// for a while. While the list is read, what sessions say is kept and counts more. The
// word of a session of another node may be lost: where there are others, the list is
// read again every few seconds while claims find nothing.
//
// A Desk decides nothing: the session's machine does, when it is told to hand its
// message out, and what the desk believes may be out of date. Durable is only what
// the session has stored; a claim whose answer is lost has its messages again by the
// next claim of the same runtime.
package claims
