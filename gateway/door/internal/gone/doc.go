// Package gone notices that a client has gone while its request is being answered. Each
// Watch is a goroutine, until it is stopped.
package gone
