// Package given gives a model what is attached to messages: pictures to one that sees, the
// texts of files to all.
//
// A Model wraps another one. The files of a request are read when it is asked, never before,
// and live as long as the call: the log and the transcript hold only what they are called.
// What a model is not given it is told in words, by a line that no text can forge (package
// attached): that it cannot see, that a file has gone, that newer ones take the room. No file
// lets a step fail.
//
// A request holds the newest files that its limits have room for. Older ones go in leaps, by
// half of the room: between two leaps each step begins with the bytes of the one before,
// which is what providers cache by.
//
// It starts no goroutine.
package given
