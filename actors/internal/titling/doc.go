// Package titling asks a model what a session is to be called, and reads its answer.
//
// It is one model call beside the steps, which nobody waits for. What comes of it is a
// command for the session, whose machine takes it while nobody has given a title.
package titling
