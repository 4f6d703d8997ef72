// Package window keeps the part of a session's log that models are shown, while the session
// works, and the model calls that wait until it was read.
package window
