// Package logs stands between the program's log and what writes its lines: it counts
// them, and leaves out warnings and errors that repeat.
//
// The package owns no goroutine. While lines are left out there is a timer, one for each
// kind of line; Handler.Flush stops them.
package logs
