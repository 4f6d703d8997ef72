// Command parley-mutants asks whether the tests would notice. A mutant is the
// program with one mistake put in by hand: a sync left out, two steps in the wrong
// order, a limit that nobody checks. Tests that pass all the same do not hold the
// promise that the mistake breaks.
//
// The mutants are data: the files of the folder list, one for each room, which say
// of each mutant what it breaks for a user. The work tree is not touched: each is
// built with "go test -overlay" from a temporary file.
//
//	make mutants                       every mutant, with the short tests
//	make mutants RUN=commit-no-sync    one, or some, by id or by list
//
// It ends with 1 if a mutant survives, if one that is marked as equivalent or
// untested is killed, if one does not compile, and if an entry no longer fits the
// code. Nothing of parley is imported here, and parley does not know of it.
//
// Files: list.go reads the lists, run.go tests one mutant, report.go counts.
package main
