// Package access says who may do what in a session, and nothing else: it is a table of
// roles and rights without any state.
//
// A user is one thing to a session: its owner, a member with a role, a user of a tenant
// that the session is open to, or nobody. Each role may do all that those below it may. A
// command says which right it needs (conversation.Class), and the session's mailbox asks
// with the members of that moment: a gateway that asked before might ask too early.
//
// Who has no role is told that there is no such session. Who has one, but not the right, is
// told that it is forbidden.
package access
