// Package pace says when a client may send its next command, and how long it waits
// before it tries again.
package pace
