// Package command asks a command-line agent: any program that takes a prompt with -p
// and writes its answer to its standard output, as claude does.
//
// New checks Options and makes a Model, which is a conversation.Model. cmd/parley makes
// one for each [[models]] block of provider "command". The agent is stateless: the
// prompt tells it the conversation (prompt.go), in a form in which nothing is a command
// or a mention to the program (harmless.go); its own prompt goes by an argument
// (instructions.go). Its output is read as plain text or as stream-json (reader.go), and
// a line that begins with the ask marker becomes a question to the user (items.go).
//
// Each call is a process of its own below a guard of its own (process.go, package
// internal/guard), so that neither a crash nor anything that it leaves running touches
// the server or another call. A Model runs at most Options.MaxConcurrent of them; a slot
// is free again when the process and all that it has started have gone, also what has
// left its group or session. A process owns five goroutines: two read its output, one
// feeds it the prompt, one hears its guard, and one supervises them and has the rest
// ended. Stream returns when all but that last one have ended. Nothing outlives the
// server: the guard ends the run of a server that was killed.
//
// An agent acts on the world by itself, so a call that failed is not made again: its
// failures are permanent, unless no process was started.
package command
