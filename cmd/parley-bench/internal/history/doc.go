// Package history keeps what was measured before, in a file of the repository: one
// entry a measurement, with the ratios to the floors of the same run and with counts,
// which do not depend on what else the machine did. Times are not kept: they would say
// more about the machine than about the program.
package history
