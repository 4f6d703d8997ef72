// Package triage holds what is said to the agent that orders waiting messages, and
// reads its answer.
//
// Ask makes the question; the messages are numbered in it. Read finds the order and
// the report in the answer. The call itself, and what follows from it, is the
// session's.
package triage
