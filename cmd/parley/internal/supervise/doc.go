// Package supervise is between this program and who watches over it: a container's engine
// or a script asks by "parley health" (Ask), systemd is told (Tell, Watch).
//
// cmd/parley calls it. Watch is run by its caller's goroutine; the package owns none.
package supervise
