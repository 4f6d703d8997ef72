// Package losses remembers which sessions an engine has lost although it goes on: by a commit
// that failed, or to another writer. What was open in them was moved and not interrupted, and
// they are not to be loaded again at once each time. It owns no goroutine.
package losses
