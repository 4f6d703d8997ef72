// Package member says what the nodes of a cluster know of each other. The list of members
// is kept where all of them see it, beside the sessions; nothing that is written to a
// session rests on it: epochs and sequence numbers alone keep two writers apart.
package member
