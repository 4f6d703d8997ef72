// Package outcome says of an error of PostgreSQL what is known: whether anything was
// written, and whether the same attempt may succeed.
package outcome
