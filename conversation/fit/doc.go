// Package fit cuts a request down to what a model can hold.
//
// A Cut leaves out whole units, so that no call loses its result and no result its
// call: first other tasks, those that have ended before those that wait, the oldest first;
// then answers of the request's own task with all their results. Pinned entries stay, and so
// do the task's own messages and its newest answer. Entries are never written to.
//
// It leaves out more than it must, in leaps: between two of them each step of a task
// begins with the bytes of the one before, which is what providers cache by. The engine
// cuts for an agent's own model, package models/window for a fallback that holds less.
package fit
