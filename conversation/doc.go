// Package conversation holds the words of parley: ids, messages, commands,
// events, effects, views, policies and errors, and the interfaces of what the
// core needs from others (Store, Model, Tool, Publisher).
//
// The rules by which a session lives are in conversation/machine, what a model
// is shown in conversation/transcript. Nothing in these three packages reads a
// clock, draws a random number, starts a goroutine or does I/O. This one imports
// the standard library only.
package conversation
