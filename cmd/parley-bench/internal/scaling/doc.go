// Package scaling computes what a server needs for a given load, from constants that
// were measured or are assumed (constants.go), and which resource ends first
// (model.go). Size is the command that does it for a load of your own; docs/SCALING.md
// holds the tables of print.go, and a test compares them.
//
// It is arithmetic: it starts nothing and measures nothing.
package scaling
