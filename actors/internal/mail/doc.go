// Package mail holds what the messages of every mailbox in the engine share. It
// owns no goroutine.
package mail
