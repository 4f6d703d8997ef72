// Package outside reckons with the leases of outside runtimes: who may be handed a
// task, until when, and whose word counts; and with their parts. It is pure, and changes nothing: the
// machine's decisions use it, and docs/MACHINE.md, section 9, says what they do.
package outside
