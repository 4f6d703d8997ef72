// Package member says what the nodes of a cluster know of each other. The list of members
// is kept where all of them see it, beside the sessions; nothing that is written to a
// session rests on it: epochs and sequence numbers alone keep two writers apart.
//
// # What needs a feature
//
// Programs of two neighbouring releases run beside each other while a cluster is upgraded,
// and each reads what the other has stored or sends. What the older one passes over without
// harm can be written at once. What it must not pass over, or cannot read, gets a new Feature,
// one higher than Newest was, and is written only when all members know it:
//
//   - A kind of event: needs one. The older program refuses the session (ErrTooNew).
//   - A field of a known event: needs none if a program that does not see it comes to a state
//     that is right for it. A field that changes what the others mean is a new kind.
//   - A number of an enumeration in an event (a cause, a status): needs one, for the older
//     program refuses it. featureOf looks into the body then.
//   - A row (summary, task, what can be claimed, head): needs none. It is made anew from the log
//     by whoever writes to the session next, perhaps without the new field. A number of an
//     enumeration comes with the event that has brought it.
//   - A snapshot: each version has one. A program that cannot use it reads the log from its
//     start, which is right and slow, so nobody writes one for others that cannot: the newest
//     version that all can read, or none.
//   - A command, or an answer between nodes: needs none. Who does not know it answers
//     "unavailable" and has done nothing, and the client tries again. A field of a command that must not be
//     passed over is a new command.
//   - A topic of the link: needs none if nothing is lost when nobody hears it; else the older
//     way is kept until all members know the feature.
//   - Tables: migrations have numbers of their own; see persistence/postgres/internal/schema.
//
// The list remembers the highest feature that all members knew. An older program cannot
// join after that, for what it cannot read may be there: once all nodes run the newer
// release, the older one can come back only if both know the same feature.
package member
