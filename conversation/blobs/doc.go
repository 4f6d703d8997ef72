// Package blobs is the port of what is attached to messages: bytes, named by their hash,
// that belong to a session.
//
// A blob is uploaded first and named by a message later. Until a message names it, it is on
// loan: Sweep takes it away when its time is over, and Renew gives it more. The commit of a
// message that names it keeps it in the same step, for as long as the session lives; a commit
// that names a blob that is not there is refused as a whole. So no stored message is without
// its blobs, whatever happens at the same moment.
//
// Each session has its own copy of what is in it. When it is erased its blobs go with it, in
// the same step, and those of another session that has the same bytes stay.
package blobs
