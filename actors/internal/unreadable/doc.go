// Package unreadable remembers the sessions that could not be read because of what
// is stored of them: damage, or a record of a newer version. Trying again does not
// help there, so the scan for due work leaves them alone for a while that grows; a
// client's command still tries at once, and the first success makes all forgotten.
//
// A damaged table can hold thousands of sessions: each session has a line in the
// log when it is met first, if the one before is a second old, and all of them one
// that counts every ten minutes.
//
// The engine asks and tells a Sessions from any goroutine. It keeps a bounded number of
// them, in memory only: after a restart each is tried again. It goes by the
// process's own clock and owns no goroutine.
package unreadable
