// Package handover tells the actors of sessions that belong to another node by now to
// leave, until all have. It starts no goroutine.
package handover
